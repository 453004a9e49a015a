#include "csrc/value_gather_contract.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <string>

#include "csrc/token_index_contract.h"

namespace bov::ops {
namespace {

/// "table", or "tables[2]" where there are several.
std::string name_of(const char* what, size_t i, size_t count) {
  return count == 1 ? what : std::string(what) + "s[" + std::to_string(i) + "]";
}

void check_value(const std::string& name, const at::Tensor& tensor, const at::Tensor& table) {
  TORCH_CHECK(is_value_dtype(tensor.scalar_type()), "value_gather: ", name,
              " must be float64, float32, bfloat16 or float16, got ", tensor.scalar_type());
  TORCH_CHECK(tensor.device() == table.device(), "value_gather: ", name, " is on ", tensor.device(),
              " but table is on ", table.device());
}

void check_tables(at::TensorList tables) {
  TORCH_CHECK(!tables.empty(), "value_gather: tables must not be empty");
  for (size_t i = 0; i < tables.size(); ++i) {
    const std::string name = name_of("table", i, tables.size());
    TORCH_CHECK(tables[i].dim() == 2, "value_gather: ", name, " must be [rows, width], got ",
                tables[i].sym_sizes());
    check_value(name, tables[i], tables[0]);
    TORCH_CHECK(
        tables[i].sym_sizes() == tables[0].sym_sizes() && tables[i].scalar_type() == tables[0].scalar_type(),
        "value_gather: ", name, " is ", tables[i].scalar_type(), tables[i].sym_sizes(), " but tables[0] is ",
        tables[0].scalar_type(), tables[0].sym_sizes());
  }
}

void check_scales(at::TensorList scales, at::TensorList tables) {
  TORCH_CHECK(scales.empty() || scales.size() == tables.size(), "value_gather: there are ", tables.size(),
              " tables but ", scales.size(), " scales");
  for (size_t i = 0; i < scales.size(); ++i) {
    const std::string name = name_of("scale", i, scales.size());
    TORCH_CHECK(scales[i].sym_numel() == 1, "value_gather: ", name, " must have one element, got ",
                scales[i].sym_sizes());
    check_value(name, scales[i], tables[0]);
  }
}

void check_index(at::TensorList index, const at::Tensor& ids, const c10::SymInt& rows) {
  if (index.empty()) {
    return;
  }
  const c10::SymInt capacity = distinct_capacity(ids, rows);
  const std::vector<c10::SymInt> sizes = {ids.sym_numel(), capacity + 1, capacity, 1};
  TORCH_CHECK(index.size() == sizes.size(),
              "value_gather: index must be the four tensors of token_index, got ", index.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    TORCH_CHECK(index[i].scalar_type() == at::kInt && index[i].device() == ids.device() &&
                    index[i].dim() == 1 && index[i].sym_size(0) == sizes[i] && index[i].is_contiguous(),
                "value_gather: index[", i, "] must be int32 [", sizes[i], "] on ", ids.device(),
                ", as token_index makes it of these ids and rows, got ", index[i].scalar_type(),
                index[i].sym_sizes(), " on ", index[i].device());
  }
}

void check_arguments(at::TensorList tables,
                     const at::Tensor& ids,
                     at::TensorList scales,
                     at::TensorList index,
                     std::optional<at::ScalarType> dtype) {
  check_tables(tables);
  check_ids("value_gather", ids);
  TORCH_CHECK(ids.device() == tables[0].device(), "value_gather: ids are on ", ids.device(),
              " but table is on ", tables[0].device());
  check_scales(scales, tables);
  check_index(index, ids, tables[0].sym_size(0));
  TORCH_CHECK(!dtype.has_value() || is_value_dtype(*dtype),
              "value_gather: dtype must be float64, float32, bfloat16 or float16, got ", *dtype);
}

c10::SymDimVector result_shape(const at::Tensor& table, const at::Tensor& ids) {
  c10::SymDimVector shape(ids.sym_sizes().begin(), ids.sym_sizes().end());
  shape.push_back(table.sym_size(1));
  return shape;
}

}  // namespace

std::vector<at::Tensor> empty_value_gather(at::TensorList tables,
                                           const at::Tensor& ids,
                                           at::TensorList scales,
                                           at::TensorList index,
                                           std::optional<at::ScalarType> dtype) {
  check_arguments(tables, ids, scales, index, dtype);
  const auto options = tables[0].options().dtype(dtype.value_or(tables[0].scalar_type()));
  std::vector<at::Tensor> results;
  for (const at::Tensor& table : tables) {
    results.push_back(at::empty_symint(result_shape(table, ids), options));
  }
  return results;
}

at::Tensor with_adjacent_columns(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 ? matrix : matrix.contiguous();
}

void ValueGatherBackward::check() const {
  TORCH_CHECK(grads.size() == tables.size(), "_value_gather_layers_backward: there are ", tables.size(),
              " tables but ", grads.size(), " grads");
  TORCH_CHECK(!grads.empty(), "_value_gather_layers_backward: tables must not be empty");
  check_arguments(tables, ids, scales, index, grads[0].scalar_type());
  TORCH_CHECK(!scale_gradients || !scales.empty(),
              "_value_gather_layers_backward: a gradient of scales needs scales");
  const c10::SymDimVector shape = result_shape(tables[0], ids);
  for (const at::Tensor& grad : grads) {
    TORCH_CHECK(grad.device() == ids.device(), "_value_gather_layers_backward: grad is on ", grad.device(),
                " but table is on ", ids.device());
    TORCH_CHECK(grad.scalar_type() == grads[0].scalar_type(),
                "_value_gather_layers_backward: grads must have one dtype, got ", grads[0].scalar_type(),
                " and ", grad.scalar_type());
    TORCH_CHECK(grad.sym_sizes() == c10::SymIntArrayRef(shape),
                "_value_gather_layers_backward: grad must be ", c10::SymIntArrayRef(shape), ", got ",
                grad.sym_sizes());
  }
}

TokenIndex ValueGatherBackward::token_index() const {
  return index.empty() ? ops::token_index(ids, tables[0].size(0))
                       : TokenIndex{index[0], index[1], index[2], index[3]};
}

ValueGatherGradients value_gather_gradients(const ValueGatherBackward& a,
                                            const std::function<void(const ValueGatherLayer&)>& fill) {
  const at::TensorOptions options = a.tables[0].options();
  ValueGatherGradients gradients;
  auto& [table_grads, scale_grads] = gradients;
  for (size_t i = 0; i < a.tables.size(); ++i) {
    const at::Tensor& table = a.tables[i];
    ValueGatherLayer layer{a.grads[i], table};
    if (!a.scales.empty()) {
      layer.scale = a.scales[i];
    }
    if (a.table_gradients) {
      layer.table_grad = at::empty_symint(table.sym_sizes(), options);
    }
    if (a.scale_gradients) {
      layer.scale_grad = at::empty_symint(layer.scale->sym_sizes(), layer.scale->options());
    }
    table_grads.push_back(a.table_gradients ? layer.table_grad : at::empty({0}, options));
    scale_grads.push_back(a.scale_gradients ? layer.scale_grad : at::empty({0}, options));
    fill(layer);
  }
  return gradients;
}

}  // namespace bov::ops
