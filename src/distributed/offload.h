// Memory outside of the device, for what is needed once in a step: the optimizer's state, masters of parameters, parts
// of parameters (https://arxiv.org/abs/2101.06840, https://arxiv.org/abs/2104.07857).
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>

namespace trainctl::distributed {

class OffloadMemory {
 public:
  virtual ~OffloadMemory() = default;
  /// A tensor on the host as `like` is, zero.
  virtual at::Tensor zeros_like(const at::Tensor& like) = 0;
  /// `tensor` will be wanted soon; one of other memory is passed over, here and below.
  virtual void bring(const at::Tensor& tensor) = 0;
  /// `tensor`, which may have changed, won't be wanted for a while.
  virtual void put_away(const at::Tensor& tensor) = 0;
};

/// Pinned where `device` is a GPU. Nothing is to be brought there.
std::unique_ptr<OffloadMemory> host_offload_memory(c10::Device device);

/// A file in `directory` (made where it is missing), mapped; it has no name, so it is gone with the process, however
/// that ends. What is put away is written by the system behind the computation, and takes memory only as long as nobody
/// needs that. All space is reserved when a tensor is made: a full disk is an Error then, not later. Within a
/// FakeTensorScope there is no file, and what would lie in it is not counted.
std::unique_ptr<OffloadMemory> disk_offload_memory(const std::filesystem::path& directory);

}  // namespace trainctl::distributed
