#include "bov/value/bank_of_values.h"
#include "bov/value/sources/builtin_sources.h"

namespace bov {
namespace {

class BankSource : public ValueSource {
 public:
  explicit BankSource(const BankOfValuesOptions& options) : bank_(options) {}
  torch::Tensor values(const ValueInputs& inputs) const override {
    TORCH_CHECK(inputs.token_ids.defined(), "value source 'bank': ValueInputs.token_ids is undefined");
    return bank_.ptr()->forward(inputs.token_ids, inputs.hidden.scalar_type(), /*scale=*/{},
                                inputs.token_index);
  }
  std::shared_ptr<torch::nn::Module> module() const override { return bank_.ptr(); }
  std::string module_name() const override { return "bank"; }

 private:
  BankOfValues bank_;
};

/// All target layers read one table; its owner gathers the rows once a forward pass.
class SharedBankSource : public ValueSource {
 public:
  torch::Tensor values(const ValueInputs& inputs) const override {
    TORCH_CHECK(inputs.shared_values.defined(),
                "value source 'bank' with shared: true: ValueInputs.shared_values is undefined; pass the "
                "shared table's rows");
    return inputs.shared_values;
  }
};

std::shared_ptr<ValueSource> make(const ValueSpec& spec, const ValueShape& shape) {
  if (spec.shared) return std::make_shared<SharedBankSource>();
  return std::make_shared<BankSource>(BankOfValuesOptions(shape.vocab_size, shape.n_kv_head, shape.head_dim)
                                          .dtype(shape.table_dtype)
                                          .device(shape.table_device));
}

}  // namespace

ValueSourceInfo bank_source() {
  return {.name = "bank",
          .formula = "E_V[i]",
          .has_table = true,
          .cache_need = ValueCacheNeed::token_ids,
          .make = make};
}

}  // namespace bov
