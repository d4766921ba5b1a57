#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "checkpoint/checkpoint.h"
#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

constexpr std::int64_t kAtOnce = std::int64_t{64} << 20;  // bytes

/// Elements in row-major order: as they come, or, where the tensor lies otherwise, once it is whole.
void copy_rows(const Checkpoint& checkpoint, const std::string& name, core::FileWriter& writer) {
  const TensorRecord& record = checkpoint.tensors().at(name);
  const std::int64_t numel = numel_of(record.shape);
  const auto element = static_cast<std::int64_t>(c10::elementSize(record.dtype));
  const std::int64_t at_once = record.order.empty() ? std::max<std::int64_t>(1, kAtOnce / element) : numel;
  const at::Tensor buffer = at::empty({std::min(numel, at_once)}, at::TensorOptions(record.dtype).device(at::kCPU));
  auto* const bytes = static_cast<std::byte*>(buffer.mutable_data_ptr());
  for (std::int64_t offset = 0; offset < numel; offset += at_once) {
    const std::int64_t count = std::min(at_once, numel - offset);
    checkpoint.read({{name, offset, count, bytes}});
    if (record.order.empty()) {
      writer.write(std::span<const std::byte>(bytes, static_cast<std::size_t>(count * element)));
      continue;
    }
    const at::Tensor rows = at::as_strided(buffer, record.shape, strides_of(record.shape, record.order)).contiguous();
    writer.write(std::span(static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()));
  }
}

}  // namespace

void consolidate(const Checkpoint& checkpoint, const std::filesystem::path& path, Consolidated what) {
  const std::string prefix = what == Consolidated::model ? "model." : "";
  std::vector<StoredTensor> order;
  for (const auto& [name, record] : checkpoint.tensors())
    if (name.starts_with(prefix))
      order.push_back({.name = name.substr(prefix.size()),
                       .dtype = record.dtype,
                       .shape = record.shape,
                       .size = static_cast<std::uint64_t>(numel_of(record.shape)) * c10::elementSize(record.dtype)});
  const std::string head = lay_out_safetensors(order, {{"format", "pt"}}, path);
  const std::filesystem::path beside = path.string() + ".tmp";
  try {
    core::FileWriter writer(beside);
    writer.write(head);
    for (const StoredTensor& stored : order) copy_rows(checkpoint, prefix + stored.name, writer);
    writer.close(core::Durability::process);
    std::filesystem::rename(beside, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
}

}  // namespace trainctl::checkpoint
