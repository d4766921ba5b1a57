#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <map>
#include <utility>

#include "model/model.h"
#include "runtime/fake_tensor.h"
#include "runtime/random.h"

namespace trainctl::model {
namespace {

/// Draws values on the CPU in float and contiguous order, whatever the parameter's layout, so that all devices start
/// equal. Stored values are given as they are.
at::Tensor first_values(const TensorDecl& decl, std::uint64_t key) {
  if (decl.stored.defined()) return decl.shard ? decl.shard->of(decl.stored) : decl.stored;
  const c10::IntArrayRef shape = decl.shard ? c10::IntArrayRef(decl.shard->shape) : decl.value.sizes();
  at::Tensor values = at::empty(shape, at::TensorOptions().dtype(at::kFloat).device(at::kCPU));
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(key);
  switch (decl.init.kind) {
    case Init::Kind::constant:
      values.fill_(decl.init.a);
      break;
    case Init::Kind::uniform:
      values.uniform_(decl.init.a, decl.init.b, generator);
      break;
    case Init::Kind::normal:
      values.normal_(decl.init.a, decl.init.b, generator);
      break;
  }
  if (decl.init.zero_row >= 0) values.select(0, decl.init.zero_row).zero_();
  return decl.shard ? decl.shard->of(values) : values;
}

at::MemoryFormat format_of(const TensorDecl& decl, bool channels_last) {
  return channels_last && decl.value.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

at::Tensor allocate(const TensorDecl& decl, c10::Device device, bool channels_last) {
  const runtime::FakeTinyTensors all_alike;  // ZeRO puts small and large parameters in one tensor
  return at::empty(
      decl.value.sizes(),
      decl.value.options().device(decl.device.value_or(device)).memory_format(format_of(decl, channels_last)));
}

/// Returns a tensor such as allocate() makes, but without memory for the elements.
at::Tensor without_memory(const TensorDecl& decl, c10::Device device, bool channels_last) {
  const at::Tensor laid_out = at::empty(
      decl.value.sizes(), decl.value.options().device(at::kMeta).memory_format(format_of(decl, channels_last)));
  at::Tensor empty = at::empty({0}, decl.value.options().device(device));
  empty.unsafeGetTensorImpl()->set_sizes_and_strides(laid_out.sizes(), laid_out.strides());
  return empty;
}

/// A borrowed weight gets its values from the rank that has it.
void materialize_the_rest(Model& model, c10::Device device) {
  if (TensorDecl* const borrowed = model.borrowed_weight())
    borrowed->value = allocate(*borrowed, device, false).zero_().requires_grad_(borrowed->trainable);
  model.visit_buffers([&](const std::string&, TensorDecl& decl) {
    decl.value = allocate(decl, device, false);
    if (decl.stored.defined())
      decl.value.copy_(std::exchange(decl.stored, {}));
    else
      decl.value.fill_(decl.init.a);
  });
}

}  // namespace

void materialize(Model& model, c10::Device device, std::uint64_t seed, bool channels_last) {
  const c10::NoGradGuard no_grad;
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) {
    at::Tensor value = allocate(decl, device, channels_last);
    value.copy_(first_values(decl, runtime::mix(seed, runtime::key_of(name))));
    decl.stored.reset();
    decl.value = value.requires_grad_(decl.trainable);
  });
  materialize_the_rest(model, device);
}

void materialize_without_parameters(Model& model, c10::Device device, bool channels_last) {
  const c10::NoGradGuard no_grad;
  model.visit_parameters([&](const std::string&, TensorDecl& decl) {
    decl.value = without_memory(decl, device, channels_last).requires_grad_(decl.trainable);
  });
  materialize_the_rest(model, device);
}

FirstValues first_values(Model& model, std::uint64_t seed) {
  std::map<std::string, const TensorDecl*> decls;
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) { decls.emplace(name, &decl); });
  return [decls, seed](const std::string& name, const at::Tensor& value) {
    const c10::NoGradGuard no_grad;
    value.copy_(first_values(*decls.at(name), runtime::mix(seed, runtime::key_of(name))));
  };
}

}  // namespace trainctl::model
