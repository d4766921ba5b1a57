#include "checkpoint/safetensors.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/safetensors_dtype.h"
#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

std::string write_in_order(const std::filesystem::path& path, const TensorMap& tensors, const std::string& head,
                           const std::vector<StoredTensor>& order, core::Durability durability) {
  core::FileWriter writer(path);
  core::Checksum sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    sum.update(bytes);
    writer.write(bytes);
  };
  put(std::as_bytes(std::span(head)));
  for (const StoredTensor& stored : order) {
    const at::Tensor rows = tensors.at(stored.name).detach().cpu().resolve_neg().contiguous();
    put({static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()});
  }
  writer.close(durability);
  return sum.digest();
}

}  // namespace

std::string lay_out_safetensors(std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata,
                                const std::filesystem::path& path) {
  for (const StoredTensor& tensor : tensors)
    if (safetensors_name(tensor.dtype).empty() || tensor.name == "__metadata__")
      throw core::Error("cannot write " + path.string() + ": safetensors has no place for tensor " + tensor.name +
                        " of dtype " + c10::toString(tensor.dtype));
  // Largest elements first, then as they came: every tensor begins at a multiple of its element's size.
  std::ranges::stable_sort(tensors, std::ranges::greater{},
                           [](const StoredTensor& tensor) { return c10::elementSize(tensor.dtype); });
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    json[tensor.name] = {{"dtype", safetensors_name(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.size}}};
    offset += tensor.size;
  }
  std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begins at a multiple of 8
  const std::uint64_t length = text.size();
  std::string head(reinterpret_cast<const char*>(&length), sizeof length);
  head += text;
  std::uint64_t begin = head.size();
  for (StoredTensor& tensor : tensors) {
    tensor.begin = begin;
    begin += tensor.size;
  }
  return head;
}

std::string write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata, core::Durability durability) {
  std::vector<StoredTensor> order;
  for (const auto& [name, tensor] : tensors) {
    core::ensure(tensor.defined(), "an undefined tensor is written: " + name);
    if (tensor.layout() != at::kStrided)
      throw core::Error("cannot write " + path.string() + ": safetensors has no place for tensor " + name +
                        ", a sparse one");
    order.push_back({.name = name,
                     .dtype = tensor.scalar_type(),
                     .shape = {tensor.sizes().begin(), tensor.sizes().end()},
                     .size = tensor.nbytes()});
  }
  const std::string head = lay_out_safetensors(order, metadata, path);
  try {
    return write_in_order(path, tensors, head, order, durability);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
}

}  // namespace trainctl::checkpoint
