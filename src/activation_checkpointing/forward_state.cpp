#include "activation_checkpointing/forward_state.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Generator.h>
#include <c10/core/GradMode.h>

#include <mutex>

namespace trainctl::activation_checkpointing {
namespace {

at::Tensor generator_state(c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(c10::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

ForwardState::ForwardState(c10::Device device)
    : device_(device),
      autocast_(at::autocast::is_autocast_enabled(device.type())),
      autocast_cache_(at::autocast::is_autocast_cache_enabled()),
      autocast_dtype_(at::autocast::get_autocast_dtype(device.type())),
      float8_products_(kernels::Float8Products::are_wanted()),
      randomness_(runtime::SampleRandomness::state()) {
  // Replicas as threads share the CPU's generator; with samples to draw for, nobody uses it.
  if (!randomness_) cpu_generator_ = generator_state(at::kCPU);
  if (!device.is_cpu()) device_generator_ = generator_state(device);
}

void ForwardState::apply() const {
  at::autocast::set_autocast_enabled(device_.type(), autocast_);
  at::autocast::set_autocast_dtype(device_.type(), autocast_dtype_);
  at::autocast::set_autocast_cache_enabled(autocast_cache_);
  if (cpu_generator_.defined()) set_generator_state(at::kCPU, cpu_generator_);
  if (device_generator_.defined()) set_generator_state(device_, device_generator_);
}

RestoredForwardState::RestoredForwardState(const ForwardState& state)
    : recorded_gradients_(c10::GradMode::is_enabled()),
      before_(state.device_),
      float8_products_(state.float8_products_) {
  // Only what is changed is brought back. The backward pass may run outside the scope that the forward pass ran in.
  if (!state.cpu_generator_.defined())
    before_.cpu_generator_.reset();
  else if (!before_.cpu_generator_.defined())
    before_.cpu_generator_ = generator_state(at::kCPU);
  if (state.randomness_) randomness_.emplace(*state.randomness_);
  state.apply();
  c10::GradMode::set_enabled(true);
}

RestoredForwardState::~RestoredForwardState() {
  c10::GradMode::set_enabled(recorded_gradients_);
  before_.apply();
}

}  // namespace trainctl::activation_checkpointing
