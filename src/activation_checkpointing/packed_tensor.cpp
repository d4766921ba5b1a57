#include "activation_checkpointing/packed_tensor.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace trainctl::activation_checkpointing {
namespace {

/// Copies on a second stream, so that copying and computing overlap.
c10::Event copy_beside(const at::Tensor& from, at::Tensor& to) {
  const c10::impl::VirtualGuardImpl device(from.device().type());
  const c10::Stream computing = device.getStream(from.device());
  const c10::Stream copying = device.getStreamFromGlobalPool(from.device());
  c10::Event ready(from.device().type());
  ready.record(computing);
  ready.block(copying);
  {
    const c10::StreamGuard guard(copying);
    to.copy_(from, /*non_blocking=*/true);
  }
  device.recordDataPtrOnStream(from.storage().data_ptr(), copying);
  c10::Event copied(from.device().type());
  copied.record(copying);
  return copied;
}

at::Tensor rounded(const at::Tensor& tensor) {
  return at::empty_like(tensor, tensor.options().dtype(at::kBFloat16)).copy_(tensor);
}

bool shares_elements(const at::Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) return true;
  return false;
}

/// The hooks that autograd calls for one saved tensor.
class Packed final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Packed(std::shared_ptr<TensorPacker> packer) : packer_(std::move(packer)) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    packed_ = packer_->pack(tensor);
    packer_.reset();
  }
  at::Tensor call_unpack_hook() override { return packed_->value(); }

 private:
  std::shared_ptr<TensorPacker> packer_;
  std::shared_ptr<const PackedTensor> packed_;
};

}  // namespace

PackedTensor::PackedTensor(const at::Tensor& tensor, ActivationOffload offload, ActivationStorage storage_dtype)
    : stored_(tensor.tensor_data()),
      version_(static_cast<std::uint32_t>(tensor._version())),
      options_(tensor.options()),
      strides_(tensor.strides().vec()) {
  const c10::NoGradGuard no_grad;
  if (storage_dtype == ActivationStorage::bf16 && tensor.scalar_type() == at::kFloat) {
    stored_ = rounded(stored_);
    is_packed_ = true;
  }
  if (offload == ActivationOffload::cpu && !tensor.device().is_cpu()) {
    // In the tensor's own order: another one would be made on the device first.
    at::Tensor host = at::empty_like(stored_, stored_.options().device(at::kCPU).pinned_memory(true));
    copied_ = copy_beside(stored_, host);
    stored_ = host;
    is_packed_ = true;
  }
}

at::Tensor PackedTensor::value() const {
  if (!is_packed_) return stored_.tensor_data();
  const c10::NoGradGuard no_grad;
  if (copied_) copied_->block(c10::impl::VirtualGuardImpl(options_.device().type()).getStream(options_.device()));
  return at::empty_strided(stored_.sizes(), strides_, options_).copy_(stored_, /*non_blocking=*/true);
}

TensorPacker::TensorPacker(Options options) : options_(std::move(options)) {}

std::unique_ptr<torch::autograd::SavedVariableHooks> TensorPacker::hooks() {
  return std::make_unique<Packed>(shared_from_this());
}

std::shared_ptr<const PackedTensor> TensorPacker::pack(const at::Tensor& tensor) {
  if (!is_packable(tensor))
    return std::make_shared<PackedTensor>(tensor, ActivationOffload::none, ActivationStorage::none);
  const c10::intrusive_ptr<c10::StorageImpl> memory = tensor.storage().getWeakStorageImpl().lock();
  Key key{memory.get(),           tensor.storage_offset(), tensor.sizes().vec(),
          tensor.strides().vec(), tensor.scalar_type(),    static_cast<std::uint32_t>(tensor._version())};
  if (const auto known = known_.find(key); known != known_.end()) return known->second.packed;
  auto packed = std::make_shared<const PackedTensor>(tensor, options_.offload, options_.storage_dtype);
  known_.emplace(std::move(key), Known{.memory = c10::weak_intrusive_ptr<c10::StorageImpl>(memory), .packed = packed});
  return packed;
}

bool TensorPacker::is_packable(const at::Tensor& tensor) const {
  const auto is_parameter = [](const at::TensorBase& one) { return one.is_leaf() && one.requires_grad(); };
  if (tensor.numel() < options_.least_elements || tensor.layout() != at::kStrided || shares_elements(tensor) ||
      is_parameter(tensor) || (tensor.is_view() && is_parameter(tensor._base())))
    return false;
  const bool shrinks = options_.storage_dtype == ActivationStorage::bf16 && tensor.scalar_type() == at::kFloat;
  const bool moves = options_.offload == ActivationOffload::cpu && !tensor.device().is_cpu();
  if (!shrinks && !moves) return false;
  return std::none_of(options_.belongs_to_network.begin(), options_.belongs_to_network.end(),
                      [&](const at::Tensor& own) { return own.is_alias_of(tensor); });
}

}  // namespace trainctl::activation_checkpointing
