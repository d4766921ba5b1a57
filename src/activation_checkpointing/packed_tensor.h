// A tensor that waits for the backward pass: as it is, in the host's memory, or rounded to bf16.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "activation_checkpointing/config.h"
#include "activation_checkpointing/saved_tensors.h"

namespace trainctl::activation_checkpointing {

/// Immutable; shares the tensor's memory unless it is packed.
class PackedTensor {
 public:
  PackedTensor(const at::Tensor& tensor, ActivationOffload offload, ActivationStorage storage_dtype);
  /// With its dtype, device and strides; knows no graph.
  at::Tensor value() const;
  /// Whether value() is what the tensor was: its memory may have been written to since.
  bool is_intact() const { return is_packed_ || stored_._version() == version_; }

 private:
  at::Tensor stored_;
  std::uint32_t version_;
  at::TensorOptions options_;
  std::vector<std::int64_t> strides_;
  bool is_packed_ = false;
  std::optional<c10::Event> copied_;  // to the host
};

/// Packs what autograd saves in a stretch of a forward pass: activations, each once however often it is saved. What
/// belongs to the network (parameters, buffers), small tensors (statistics, masks) and integers stay as they are.
class TensorPacker final : public SavedTensorPolicy, public std::enable_shared_from_this<TensorPacker> {
 public:
  struct Options {
    ActivationOffload offload = ActivationOffload::none;
    ActivationStorage storage_dtype = ActivationStorage::none;
    std::int64_t least_elements = 0;               // below, a tensor stays
    std::vector<at::Tensor> belongs_to_network{};  // their memory does
  };
  explicit TensorPacker(Options options);

  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override;
  std::shared_ptr<const PackedTensor> pack(const at::Tensor& tensor);

 private:
  bool is_packable(const at::Tensor& tensor) const;

  /// Same memory, same view, same version: the same values.
  using Key = std::tuple<const c10::StorageImpl*, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>,
                         at::ScalarType, std::uint32_t>;
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;  // while it is held, its address isn't another's
    std::shared_ptr<const PackedTensor> packed;
  };
  Options options_;
  std::map<Key, Known> known_;
};

}  // namespace trainctl::activation_checkpointing
