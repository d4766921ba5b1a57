#include <span>

#include "checkpoint/snapshot.h"
#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "model.";

/// One safetensors file under construction.
class File {
 public:
  File(fs::path path, std::map<std::string, std::string> metadata)
      : path_(std::move(path)), metadata_(std::move(metadata)) {}

  /// Adds a tensor. `name` is its name in the checkpoint, `called` its name in the file.
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
                                             .count = copy->data.numel()}}};
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
