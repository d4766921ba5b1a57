// The tensors that a pickle of torch.save describes, as views of the file.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/mapped_file.h"
#include "model/torch_archive.h"
#include "pretrained/pickle.h"

namespace trainctl::pretrained {

/// Whether the pickle of torch.save may have this global: those of tensors, and of Python's containers.
bool is_tensor_global(std::string_view global);

/// A storage, as the pickle names it.
struct StorageRef {
  std::string key;
  at::ScalarType dtype = at::kByte;
  std::int64_t num_elements = 0;
  std::uint64_t num_bytes = 0;
};
/// Returns the storage that a persistent value names.
StorageRef storage_of(const Pickle& pickle, PickleId id);

class TorchStorages {
 public:
  /// `ranges`: where the storages lie in the file, by their keys.
  TorchStorages(std::shared_ptr<core::MappedFile> file, std::map<std::string, model::FileRange> ranges)
      : file_(std::move(file)), ranges_(std::move(ranges)) {}

  /// Returns whether a value is a call that makes a tensor or a parameter.
  static bool is_tensor(const Pickle& pickle, PickleId id);
  /// Returns the tensor of such a value. `name` is for errors.
  at::Tensor tensor(const Pickle& pickle, PickleId id, const std::string& name);

 private:
  struct Memory {
    std::byte* data = nullptr;
    std::shared_ptr<void> owner;  // of the bytes
  };
  /// Returns the storage's bytes: mapped, or a copy where the file doesn't align them.
  Memory memory(const StorageRef& storage);

  std::shared_ptr<core::MappedFile> file_;
  std::map<std::string, model::FileRange> ranges_;
  std::map<std::string, Memory> copies_;
  std::set<std::string> checked_bools_;  // keys
};

}  // namespace trainctl::pretrained
