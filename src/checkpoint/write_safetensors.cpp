#include "checkpoint/safetensors.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/safetensors_dtype.h"
#include "core/error.h"

namespace trainctl {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

using Entries = std::vector<const TensorMap::value_type*>;

/// Largest elements first, then by name: every tensor begins at a multiple of its element's size.
Entries in_file_order(const TensorMap& tensors, const std::filesystem::path& path) {
  Entries entries;
  for (const auto& entry : tensors) {
    const auto& [name, tensor] = entry;
    ensure(tensor.defined(), "an undefined tensor is written: " + name);
    if (safetensors_name(tensor.scalar_type()).empty() || tensor.layout() != at::kStrided || name == "__metadata__")
      throw Error("cannot write " + path.string() + ": safetensors has no place for tensor " + name + " of dtype " +
                  c10::toString(tensor.scalar_type()));
    entries.push_back(&entry);
  }
  std::ranges::stable_sort(entries,
                           [](auto* a, auto* b) { return a->second.element_size() > b->second.element_size(); });
  return entries;
}

/// Padded with spaces, so that the data begins at a multiple of 8.
std::string header(const Entries& entries, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto* entry : entries) {
    const at::Tensor& tensor = entry->second;
    const std::uint64_t end = offset + tensor.nbytes();
    json[entry->first] = {{"dtype", safetensors_name(tensor.scalar_type())},
                          {"shape", std::vector<std::int64_t>(tensor.sizes().begin(), tensor.sizes().end())},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::string write_in_order(const std::filesystem::path& path, const Entries& entries, const std::string& head,
                           Durability durability) {
  FileWriter writer(path);
  Checksum sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    sum.update(bytes);
    writer.write(bytes);
  };
  const std::uint64_t size = head.size();
  put(std::as_bytes(std::span(&size, 1)));
  put(std::as_bytes(std::span(head)));
  for (const auto* entry : entries) {
    const at::Tensor rows = entry->second.detach().cpu().resolve_neg().contiguous();
    put({static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()});
  }
  writer.close(durability);
  return sum.digest();
}

}  // namespace

std::string write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata, Durability durability) {
  const Entries entries = in_file_order(tensors, path);
  try {
    return write_in_order(path, entries, header(entries, metadata), durability);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
}

}  // namespace trainctl
