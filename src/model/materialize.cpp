#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "model/model.h"
#include "runtime/random.h"

namespace trainctl {
namespace {

/// Drawn on the CPU, in float and in contiguous order, whatever the parameter's own layout: devices start equal.
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

at::Tensor allocate(const Slot& slot, c10::Device device, bool channels_last) {
  const auto format =
      channels_last && slot.value.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return at::empty(slot.value.sizes(), slot.value.options().device(device).memory_format(format));
}

}  // namespace

void materialize(Model& model, c10::Device device, std::uint64_t seed, bool channels_last) {
  const c10::NoGradGuard no_grad;
  model.visit_parameters([&](const std::string& name, Slot& slot) {
    at::Tensor value = allocate(slot, device, channels_last);
    value.copy_(first_values(slot, mix(seed, key_of(name))));
    slot.value = value.requires_grad_(slot.trainable);
  });
  model.visit_buffers(
      [&](const std::string&, Slot& slot) { slot.value = allocate(slot, device, false).fill_(slot.init.a); });
}

}  // namespace trainctl
