#include "bov/model/block.h"

namespace bov {

BlockImpl::BlockImpl(CausalSelfAttentionOptions options) : options_(std::move(options)) {
  reset();
}

void BlockImpl::reset() {
  attention = register_module("attention", CausalSelfAttention(options_));
  mlp = register_module("mlp", MLP(options_.n_embd(), options_.parameter_dtype()));
}

void BlockImpl::reset_parameters() {
  attention->reset_parameters();
  mlp->reset_parameters();
}

}  // namespace bov
