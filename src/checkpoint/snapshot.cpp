#include "checkpoint/snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>
#include <unordered_set>

#include "core/error.h"
#include "runtime/device.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kIndivisible = 1 << 20;  // bytes; smaller tensors aren't cut

template <class Map, class T>
void insert(Map& into, const std::string& name, T value) {
  core::ensure(into.emplace(name, std::move(value)).second, "two components have state of the name " + name);
}

/// The elements from `first` to before `last`.
struct Cut {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Returns the elements of `size` that copy number `copy` writes.
Cut share_of(std::int64_t size, const runtime::PartOf& part) {
  const auto begin = [&](std::int64_t copy) {
    return std::min(size, (size * copy + part.num_copies - 1) / part.num_copies);
  };
  return {begin(part.copy), begin(part.copy + 1)};
}

/// A division of all ranks' tensors, laid end to end: each rank gets an equal range of the bytes.
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

/// Copies to the host; from a GPU into page-locked memory, without waiting for the copy.
at::Tensor host_copy(const at::Tensor& source, Lifetime lifetime) {
  if (lifetime == Lifetime::lent && source.is_cpu() && source.is_contiguous()) return source;
  const bool is_remote = !source.is_cpu();
  const at::Tensor copy =
      at::empty(source.sizes(), at::TensorOptions(source.scalar_type()).device(at::kCPU).pinned_memory(is_remote));
  return copy.copy_(source, /*non_blocking=*/is_remote);
}

/// Returns the elements as one row, in the order of their memory.
at::Tensor in_memory(const at::Tensor& dense) {
  return at::as_strided(dense, {dense.numel()}, {1}, dense.storage_offset());
}

Snapshot::Copy copy_of_whole(const at::Tensor& tensor, Cut cut, Lifetime lifetime) {
  if (cut.first == 0 && cut.last == tensor.numel()) return {tensor.sizes().vec(), {}, 0, host_copy(tensor, lifetime)};
  return {tensor.sizes().vec(), memory_order(tensor.sizes(), tensor.strides()), cut.first,
          host_copy(in_memory(tensor).narrow(0, cut.first, cut.last - cut.first), lifetime)};
}

constexpr std::string_view kModelPrefix = "model.";

/// A safetensors file under construction.
class File {
 public:
  File(fs::path path, std::map<std::string, std::string> metadata)
      : path_(std::move(path)), metadata_(std::move(metadata)) {}

  /// Adds a tensor under its name in the checkpoint (`name`) and its name in the file (`called`).
  void add(const std::string& name, const std::string& called, const Snapshot::Copy& copy) {
    added_[called] = {&name, &copy};
  }

  void write(Manifest& manifest, core::Durability durability) const {
    std::vector<StoredTensor> order;
    for (const auto& [called, added] : added_) {
      const at::Tensor& data = added.copy->data;
      order.push_back(
          {.name = called, .dtype = data.scalar_type(), .shape = data.sizes().vec(), .size = data.nbytes()});
    }
    const std::string head = lay_out_safetensors(order, metadata_, path_);
    std::vector<std::span<const std::byte>> stretches{std::as_bytes(std::span(head))};
    for (const StoredTensor& stored : order) {
      const auto& [name, copy] = added_.at(stored.name);
      stretches.emplace_back(static_cast<const std::byte*>(copy->data.const_data_ptr()), copy->data.nbytes());
      manifest.tensors[*name] = {.dtype = stored.dtype,
                                 .shape = copy->shape,
                                 .order = copy->order,
                                 .pieces = {{.file = path_.filename().string(),
                                             .byte = stored.begin,
                                             .offset = copy->offset,
                                             .count = copy->data.numel(),
                                             .runs = copy->runs}}};
    }
    manifest.files[path_.filename().string()] = write_chunked(path_, stretches, durability);
  }

 private:
  struct Added {
    const std::string* name = nullptr;
    const Snapshot::Copy* copy = nullptr;
  };
  fs::path path_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Added> added_;
};

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
  std::unordered_set<c10::Device> devices;  // layers may be placed on several
  for (const auto& [name, shown] : state.tensors) {
    const at::Tensor& tensor = shown.tensor;
    devices.insert(tensor.device());
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
                               .data = host_copy(tensor.narrow(0, cut.first, cut.last - cut.first), lifetime),
                               .runs = shown.part->runs});
  }
  for (const c10::Device device : devices) runtime::synchronize(device);
  return snapshot;
}

Manifest write_tensors(const fs::path& directory, const Snapshot& snapshot, const std::string& part,
                       core::Durability durability) {
  Manifest manifest;
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!part.empty()) {
    File file(directory / (part + ".safetensors"), {});
    for (const auto& [name, copy] : snapshot.tensors)
      file.add(name, copy.data.numel() == numel_of(copy.shape) ? name : name + "@" + std::to_string(copy.offset), copy);
    file.write(manifest, durability);
    return manifest;
  }
  File model(directory / kModelFile, metadata);
  File state(directory / kStateFile, metadata);
  for (const auto& [name, copy] : snapshot.tensors) {
    if (name.starts_with(kModelPrefix))
      model.add(name, name.substr(kModelPrefix.size()), copy);
    else
      state.add(name, name, copy);
  }
  model.write(manifest, durability);
  state.write(manifest, durability);
  return manifest;
}

FileSums write_text(const fs::path& path, const std::string& text, core::Durability durability) {
  return write_chunked(path, {std::as_bytes(std::span(text))}, durability);
}

}  // namespace trainctl::checkpoint
