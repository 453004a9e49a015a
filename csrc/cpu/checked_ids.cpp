#include "csrc/cpu/checked_ids.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

namespace bov::ops::cpu {
namespace {

/// Index of the flat position `flat` in a tensor of shape `sizes`, as "[i, j]".
std::vector<int64_t> unravel(int64_t flat, at::IntArrayRef sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return index;
}

}  // namespace

at::Tensor checked_ids(const char* op, const at::Tensor& ids, int64_t rows) {
  const at::Tensor list = ids.to(at::kLong).contiguous();
  const int64_t* id = list.const_data_ptr<int64_t>();
  const int64_t* bad = std::find_if(id, id + list.numel(), [rows](int64_t x) { return x < 0 || x >= rows; });
  TORCH_CHECK_INDEX(bad == id + list.numel(), op, ": id ", *bad, " at ids",
                    at::IntArrayRef(unravel(bad - id, ids.sizes())), " is outside the table of ", rows,
                    " rows");
  return list;
}

}  // namespace bov::ops::cpu
