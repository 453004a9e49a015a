#include "bov/decode/position_cache.h"

#include <algorithm>

#include "bov/decode/cache_layout.h"

namespace bov {
namespace {

torch::Tensor index_tensor(const std::vector<int64_t>& indices, torch::Device device) {
  return torch::tensor(indices, torch::kInt64).to(device);
}

/// Indexed copies know no uint16, so its bits lie in an int16.
torch::Dtype memory_dtype(torch::Dtype dtype) {
  return dtype == torch::kUInt16 ? torch::kInt16 : dtype;
}

}  // namespace

SlotPlan::SlotPlan(const std::vector<int64_t>& lengths,
                   int64_t new_tokens,
                   int64_t limit,
                   int64_t capacity,
                   torch::Device device)
    : new_tokens_(new_tokens), limit_(limit), device_(device) {
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  capacity_ = std::max(capacity, cache_capacity(longest + new_tokens, limit));
  overwrites_ = new_tokens > 1 && longest + new_tokens > limit;
  first_written_ = std::max<int64_t>(0, new_tokens - limit);
  plan_writes(lengths);
  if (overwrites_) {
    plan_assembly(lengths);
  } else {
    view_slots_ = std::min(longest + new_tokens, limit);
    for (const int64_t length : lengths) host_view_lengths_.push_back(std::min(length + new_tokens, limit));
  }
  view_lengths_ = index_tensor(host_view_lengths_, device_);
}

void SlotPlan::plan_writes(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> slots;
  slots.reserve(lengths.size() * static_cast<size_t>(new_tokens_ - first_written_));
  for (size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    for (int64_t token = first_written_; token < new_tokens_; ++token) {
      slots.push_back(static_cast<int64_t>(sequence) * capacity_ + (lengths[sequence] + token) % limit_);
    }
  }
  write_slots_ = index_tensor(slots, device_);
}

/// The pass needs keys that it overwrites itself, so it sees a copy: for each sequence the earlier positions that its
/// first query reaches, in order, then the new ones.
void SlotPlan::plan_assembly(const std::vector<int64_t>& lengths) {
  const int64_t reach = limit_ - 1, stride = capacity_ + new_tokens_;
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  view_slots_ = std::min(longest, reach) + new_tokens_;
  std::vector<int64_t> slots;
  slots.reserve(lengths.size() * static_cast<size_t>(view_slots_));
  for (size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    const int64_t length = lengths[sequence], earlier = std::min(length, reach);
    const int64_t base = static_cast<int64_t>(sequence) * stride;
    for (int64_t slot = 0; slot < view_slots_; ++slot) {
      // Slots past the sequence's own are never looked at, but must name something.
      const int64_t token = std::min(slot - earlier, new_tokens_ - 1);
      slots.push_back(base + (slot < earlier ? (length - earlier + slot) % limit_ : capacity_ + token));
    }
    host_view_lengths_.push_back(earlier + new_tokens_);
  }
  assembly_slots_ = index_tensor(slots, device_);
}

PositionCache::PositionCache(int64_t batch,
                             int64_t limit,
                             std::vector<int64_t> row_shape,
                             const torch::TensorOptions& options)
    : limit_(limit), dtype_(c10::typeMetaToScalarType(options.dtype())) {
  row_shape.insert(row_shape.begin(), {batch, 0});
  slots_ = torch::empty(row_shape, options.dtype(memory_dtype(dtype_)));
}

void PositionCache::grow(int64_t capacity) {
  // Nothing has wrapped before the last growth, so slots keep their numbers.
  std::vector<int64_t> shape = slots_.sizes().vec();
  shape[1] = capacity;
  // Zeros: attention multiplies what it does not see by zero, which must not be a NaN.
  torch::Tensor grown = torch::zeros(shape, slots_.options());
  grown.slice(1, 0, slots_.size(1)).copy_(slots_);
  slots_ = grown;
}

torch::Tensor PositionCache::append(const torch::Tensor& rows, const SlotPlan& plan) {
  if (slots_.size(1) < plan.capacity_) grow(plan.capacity_);
  const torch::Tensor added = rows.to(dtype_).view(slots_.scalar_type());
  torch::Tensor view;
  if (plan.overwrites_) {
    view = torch::cat({slots_, added}, 1)
               .flatten(0, 1)
               .index_select(0, plan.assembly_slots_)
               .unflatten(0, {slots_.size(0), plan.view_slots_});
  }
  slots_.flatten(0, 1).index_copy_(0, plan.write_slots_, added.slice(1, plan.first_written_).flatten(0, 1));
  return (plan.overwrites_ ? view : slots_.slice(1, 0, plan.view_slots_)).view(dtype_);
}

torch::Tensor PositionCache::at(const torch::Tensor& positions) const {
  const torch::Tensor sequences = torch::arange(slots_.size(0), positions.options()).unsqueeze(1);
  return slots_.index({sequences, positions.remainder(limit_)}).view(dtype_);
}

PositionCache PositionCache::select(const torch::Tensor& sequences) const {
  PositionCache copy = *this;
  copy.slots_ = slots_.index_select(0, sequences);
  return copy;
}

PositionCache PositionCache::join(const std::vector<const PositionCache*>& caches) {
  PositionCache joined = *caches.front();
  int64_t capacity = 0;
  for (const PositionCache* cache : caches) capacity = std::max(capacity, cache->slots_.size(1));
  std::vector<torch::Tensor> parts;
  for (const PositionCache* cache : caches) {
    PositionCache part = *cache;
    if (part.slots_.size(1) < capacity) part.grow(capacity);
    parts.push_back(part.slots_);
  }
  joined.slots_ = torch::cat(parts, 0);
  return joined;
}

}  // namespace bov
