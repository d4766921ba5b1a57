#include "checkpoint/snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/device.h"

namespace trainctl::checkpoint {
namespace {

constexpr std::uint64_t kIndivisible = 1 << 20;  // bytes; smaller tensors aren't cut

template <class Map, class T>
void insert(Map& into, const std::string& name, T value) {
  core::ensure(into.emplace(name, std::move(value)).second, "two components have state of the name " + name);
}

/// Elements `first` to `last`.
struct Cut {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Of `size` elements, the share of copy number `copy`.
Cut share_of(std::int64_t size, const runtime::PartOf& part) {
  const auto begin = [&](std::int64_t copy) { return (size * copy + part.num_copies - 1) / part.num_copies; };
  return {begin(part.copy), begin(part.copy + 1)};
}

/// Lays what all ranks have end to end, and gives each an equal run of its bytes.
class Dealer {
 public:
  Dealer(std::uint64_t total, const Division& division)
      : begin_(boundary(total, division.index, division.count)),
        end_(division.index + 1 == division.count ? ~std::uint64_t{0}
                                                  : boundary(total, division.index + 1, division.count)) {}

  Cut next(const at::Tensor& tensor) {
    const std::uint64_t first = at_;
    const std::uint64_t size = tensor.nbytes();
    at_ += size;
    if (size < kIndivisible || !tensor.is_non_overlapping_and_dense())
      return begin_ <= first && first < end_ ? Cut{0, tensor.numel()} : Cut{};
    const std::uint64_t element = tensor.element_size();
    const auto elements_to = [&](std::uint64_t byte) {
      const std::uint64_t within = std::clamp(byte, first, at_) - first;
      return static_cast<std::int64_t>((within + element - 1) / element);
    };
    return {elements_to(begin_), elements_to(end_)};
  }

 private:
  static std::uint64_t boundary(std::uint64_t total, std::int64_t index, std::int64_t count) {
    return total / static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(index);
  }

  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t at_ = 0;
};

/// From a GPU through page-locked memory, without waiting for it.
at::Tensor host_copy(const at::Tensor& source, Lifetime lifetime) {
  if (lifetime == Lifetime::lent && source.is_cpu() && source.is_contiguous()) return source;
  const bool is_remote = !source.is_cpu();
  const at::Tensor copy =
      at::empty(source.sizes(), at::TensorOptions(source.scalar_type()).device(at::kCPU).pinned_memory(is_remote));
  return copy.copy_(source, /*non_blocking=*/is_remote);
}

/// The tensor's elements as they lie in memory.
at::Tensor in_memory(const at::Tensor& dense) {
  return at::as_strided(dense, {dense.numel()}, {1}, dense.storage_offset());
}

Snapshot::Copy copy_of_whole(const at::Tensor& tensor, Cut cut, Lifetime lifetime) {
  if (cut.first == 0 && cut.last == tensor.numel()) return {tensor.sizes().vec(), {}, 0, host_copy(tensor, lifetime)};
  return {tensor.sizes().vec(), memory_order(tensor.sizes(), tensor.strides()), cut.first,
          host_copy(in_memory(tensor).narrow(0, cut.first, cut.last - cut.first), lifetime)};
}

}  // namespace

void ShownState::tensor(const std::string& name, at::Tensor& value) {
  insert(tensors, name, Shown{value.detach(), {}});
}
void ShownState::part(const std::string& name, at::Tensor& stretch, const runtime::PartOf& whole) {
  insert(tensors, name, Shown{stretch.detach(), whole});
}
void ShownState::integer(const std::string& name, std::int64_t& value) {
  insert(values, name, StateValues::mapped_type(value));
}
void ShownState::number(const std::string& name, double& value) {
  insert(values, name, StateValues::mapped_type(value));
}
void ShownState::text(const std::string& name, std::string& value) {
  insert(values, name, StateValues::mapped_type(value));
}

Snapshot copy_state(const ShownState& state, const Division& division, Lifetime lifetime) {
  const at::NoGradGuard no_grad;
  Snapshot snapshot;
  snapshot.values = state.values;
  std::uint64_t total = 0;
  for (const auto& [name, shown] : state.tensors)
    if (!shown.part) total += shown.tensor.nbytes();
  Dealer dealer(total, division);
  std::optional<c10::Device> device;
  for (const auto& [name, shown] : state.tensors) {
    const at::Tensor& tensor = shown.tensor;
    if (!tensor.is_cpu()) device = tensor.device();
    if (!shown.part) {
      snapshot.elements_of_all += tensor.numel();
      const Cut cut = dealer.next(tensor);
      if (cut.first < cut.last || (tensor.numel() == 0 && division.index == 0))
        snapshot.tensors.emplace(name, copy_of_whole(tensor, cut, lifetime));
      continue;
    }
    const Cut share = share_of(tensor.numel(), *shown.part);
    snapshot.elements_of_own += share.last - share.first;
    const Cut cut = division.copies == Copies::each ? Cut{0, tensor.numel()} : share;
    if (cut.first < cut.last)
      snapshot.tensors.emplace(
          name, Snapshot::Copy{.shape = shown.part->shape,
                               .order = memory_order(shown.part->shape, shown.part->strides),
                               .offset = shown.part->offset + cut.first,
                               .data = host_copy(tensor.narrow(0, cut.first, cut.last - cut.first), lifetime)});
  }
  if (device) runtime::synchronize(*device);
  return snapshot;
}

}  // namespace trainctl::checkpoint
