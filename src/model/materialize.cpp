#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <map>

#include "model/model.h"
#include "runtime/fake_tensor.h"
#include "runtime/random.h"

namespace trainctl::model {
namespace {

/// Draws values on the CPU in float and contiguous order, whatever the parameter's layout, so that all devices start
/// equal.
at::Tensor first_values(const Slot& slot, std::uint64_t key) {
  at::Tensor values = at::empty(slot.value.sizes(), at::TensorOptions().dtype(at::kFloat).device(at::kCPU));
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(key);
  switch (slot.init.kind) {
    case Init::Kind::constant:
      values.fill_(slot.init.a);
      break;
    case Init::Kind::uniform:
      values.uniform_(slot.init.a, slot.init.b, generator);
      break;
    case Init::Kind::normal:
      values.normal_(slot.init.a, slot.init.b, generator);
      break;
  }
  if (slot.init.zero_row >= 0) values.select(0, slot.init.zero_row).zero_();
  return values;
}

at::MemoryFormat format_of(const Slot& slot, bool channels_last) {
  return channels_last && slot.value.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

at::Tensor allocate(const Slot& slot, c10::Device device, bool channels_last) {
  const runtime::FakeTinyTensors all_alike;  // ZeRO puts small and large parameters in one tensor
  return at::empty(slot.value.sizes(),
                   slot.value.options().device(device).memory_format(format_of(slot, channels_last)));
}

/// Returns a tensor such as allocate() makes, but without memory for the elements.
at::Tensor without_memory(const Slot& slot, c10::Device device, bool channels_last) {
  const at::Tensor laid_out = at::empty(
      slot.value.sizes(), slot.value.options().device(at::kMeta).memory_format(format_of(slot, channels_last)));
  at::Tensor empty = at::empty({0}, slot.value.options().device(device));
  empty.unsafeGetTensorImpl()->set_sizes_and_strides(laid_out.sizes(), laid_out.strides());
  return empty;
}

void materialize_buffers(Model& model, c10::Device device) {
  model.visit_buffers(
      [&](const std::string&, Slot& slot) { slot.value = allocate(slot, device, false).fill_(slot.init.a); });
}

}  // namespace

void materialize(Model& model, c10::Device device, std::uint64_t seed, bool channels_last) {
  const c10::NoGradGuard no_grad;
  model.visit_parameters([&](const std::string& name, Slot& slot) {
    at::Tensor value = allocate(slot, device, channels_last);
    value.copy_(first_values(slot, runtime::mix(seed, runtime::key_of(name))));
    slot.value = value.requires_grad_(slot.trainable);
  });
  materialize_buffers(model, device);
}

void materialize_without_parameters(Model& model, c10::Device device, bool channels_last) {
  const c10::NoGradGuard no_grad;
  model.visit_parameters([&](const std::string&, Slot& slot) {
    slot.value = without_memory(slot, device, channels_last).requires_grad_(slot.trainable);
  });
  materialize_buffers(model, device);
}

FirstValues first_values(Model& model, std::uint64_t seed) {
  std::map<std::string, const Slot*> slots;
  model.visit_parameters([&](const std::string& name, Slot& slot) { slots.emplace(name, &slot); });
  return [slots, seed](const std::string& name, const at::Tensor& value) {
    const c10::NoGradGuard no_grad;
    value.copy_(first_values(*slots.at(name), runtime::mix(seed, runtime::key_of(name))));
  };
}

}  // namespace trainctl::model
