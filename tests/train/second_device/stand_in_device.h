// A second device on a machine that has none: memory of the host that PyTorch takes for that of an accelerator.
// Operators run on the CPU, with values copied there and back; one that mixes devices fails as on a GPU. Included by
// one source of a program.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>

namespace trainctl::testing {

inline const c10::Device kStandIn{c10::kPrivateUse1, 0};

struct StandInMemory final : at::Allocator {
  at::DataPtr allocate(std::size_t size) override {
    void* data = std::malloc(size + 1);
    return {data, data, &std::free, kStandIn};
  }
  at::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t size) const override { default_copy_data(to, from, size); }
};
inline StandInMemory stand_in_memory;

/// Has one device, whose work is done when the call returns.
struct StandInGuard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
  c10::Device exchangeDevice(c10::Device) const override { return kStandIn; }
  c10::Device getDevice() const override { return kStandIn; }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, kStandIn); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
};

/// Tells PyTorch's automatic differentiation that there is an accelerator.
struct StandInHooks final : at::PrivateUse1HooksInterface {
  StandInHooks() {
    c10::register_privateuse1_backend("stand_in");
    at::RegisterPrivateUse1HooksInterface(this);
  }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};
inline StandInHooks stand_in_hooks;

/// Returns a tensor of the CPU with the same memory.
inline at::Tensor seen_by_cpu(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

inline at::Tensor stand_in_empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &stand_in_memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype.value_or(at::kFloat),
                                   format);
}
inline at::Tensor stand_in_empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           &stand_in_memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}
inline at::Tensor stand_in_copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  seen_by_cpu(to).copy_(seen_by_cpu(from));
  return to;
}
inline at::Tensor stand_in_copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return stand_in_copy_from(from, to, false);
}
inline at::Scalar stand_in_scalar(const at::Tensor& tensor) {
  return at::_local_scalar_dense(seen_by_cpu(tensor));
}
inline void stand_in_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

}  // namespace trainctl::testing

C10_REGISTER_GUARD_IMPL(PrivateUse1, trainctl::testing::StandInGuard)
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &trainctl::testing::stand_in_memory)

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&trainctl::testing::stand_in_fallback>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &trainctl::testing::stand_in_empty);
  library.impl("empty_strided", &trainctl::testing::stand_in_empty_strided);
  library.impl("_copy_from", &trainctl::testing::stand_in_copy_from);
  library.impl("_copy_from_and_resize", &trainctl::testing::stand_in_copy_from_and_resize);
  library.impl("_local_scalar_dense", &trainctl::testing::stand_in_scalar);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &at::native::resize_);
}
