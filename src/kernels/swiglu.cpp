#include "kernels/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <tuple>

#include "kernels/cuda_grid.h"
#include "kernels/device/operators.h"
#include "kernels/elementwise.h"
#include "kernels/portable.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SwigluForward {
  template <class V>
  TRAINCTL_INLINE static void run(const float* gate, const float* up, float* output, std::int64_t size) {
    const std::int64_t whole = size / V::kLanes * V::kLanes;
    typename V::Floats g;
    typename V::Floats u;
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load(gate + i, g);
      load(up + i, u);
      typename V::Floats s = g;
      sigmoid<V>(s);
      const typename V::Floats y = g * s * u;
      store(y, output + i);
    }
    for (std::int64_t i = whole; i < size; ++i) output[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
  }
};

/// Computes, in memory order, d gate = dy · up · s (1 + gate (1 - s)) and d up = dy · gate · s, where s =
/// sigmoid(gate).
struct SwigluBackward {
  template <class V>
  TRAINCTL_INLINE static void run(const float* gate, const float* up, const float* gradient, float* gate_gradient,
                                  float* up_gradient, std::int64_t size) {
    const std::int64_t whole = size / V::kLanes * V::kLanes;
    typename V::Floats g;
    typename V::Floats u;
    typename V::Floats dy;
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load(gate + i, g);
      load(up + i, u);
      load(gradient + i, dy);
      typename V::Floats s = g;
      sigmoid<V>(s);
      const typename V::Floats dg = dy * u * s * (1.0F + g * (1.0F - s));
      const typename V::Floats du = dy * g * s;
      store(dg, gate_gradient + i);
      store(du, up_gradient + i);
    }
    for (std::int64_t i = whole; i < size; ++i) {
      const float s = 1.0F / (1.0F + std::exp(-gate[i]));
      gate_gradient[i] = gradient[i] * up[i] * s * (1.0F + gate[i] * (1.0F - s));
      up_gradient[i] = gradient[i] * gate[i] * s;
    }
  }
};

at::Tensor swiglu_on_cpu(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor output = at::empty_like(gate);
  if (runtime::is_fake(gate)) return output;
  const auto* g = gate.const_data_ptr<float>();
  const auto* u = up.const_data_ptr<float>();
  auto* y = output.mutable_data_ptr<float>();
  over_ranges(gate.numel(), [&](std::int64_t begin, std::int64_t size) {
    vectorized<SwigluForward>(g + begin, u + begin, y + begin, size);
  });
  return output;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_on_cpu(const at::Tensor& output_gradient, const at::Tensor& gate,
                                                          const at::Tensor& up) {
  const at::Tensor gradient = output_gradient.contiguous();
  at::Tensor gate_gradient = at::empty_like(gate);
  at::Tensor up_gradient = at::empty_like(up);
  if (runtime::is_fake(gradient)) return {gate_gradient, up_gradient};
  const auto* g = gate.const_data_ptr<float>();
  const auto* u = up.const_data_ptr<float>();
  const auto* dy = gradient.const_data_ptr<float>();
  auto* dg = gate_gradient.mutable_data_ptr<float>();
  auto* du = up_gradient.mutable_data_ptr<float>();
  over_ranges(gradient.numel(), [&](std::int64_t begin, std::int64_t size) {
    vectorized<SwigluBackward>(g + begin, u + begin, dy + begin, dg + begin, du + begin, size);
  });
  return {gate_gradient, up_gradient};
}

at::Tensor swiglu_on_gpu(const at::Tensor& gate, const at::Tensor& up) {
  const c10::DeviceGuard guard(gate.device());
  return device::swiglu(cuda_grid(), gate, up);
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_on_gpu(const at::Tensor& output_gradient, const at::Tensor& gate,
                                                          const at::Tensor& up) {
  const c10::DeviceGuard guard(gate.device());
  return device::swiglu_backward(cuda_grid(), output_gradient, gate, up);
}

// Registered with LibTorch's dispatcher, which finds the device's.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  library.def("swiglu_backward(Tensor output_gradient, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("swiglu", &swiglu_on_cpu);
  library.impl("swiglu_backward", &swiglu_backward_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("swiglu", &swiglu_on_cpu);
  library.impl("swiglu_backward", &swiglu_backward_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, CUDA, library) {
  library.impl("swiglu", &swiglu_on_gpu);
  library.impl("swiglu_backward", &swiglu_backward_on_gpu);
}

struct SwiGlu final : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("trainctl::swiglu", "").typed<decltype(swiglu_on_cpu)>();
    context->save_for_backward({gate, up});
    return op.call(gate, up);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("trainctl::swiglu_backward", "")
                               .typed<decltype(swiglu_backward_on_cpu)>();
    const variable_list saved = context->get_saved_variables();
    const auto [of_gate, of_up] = op.call(output_gradients[0], saved[0], saved[1]);
    return {of_gate, of_up};
  }
};

/// Whether the kernels take these tensors.
bool swiglu_has_kernel(const at::Tensor& gate, const at::Tensor& up) {
  if (PortableOperators::are_wanted() || gate.sizes() != up.sizes() || gate.numel() == 0) return false;
  if (gate.scalar_type() != up.scalar_type() || gate.device() != up.device()) return false;
  return (is_plain(gate) && is_plain(up)) || (gate.is_cuda() && device::has_kernels_for(gate));
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return swiglu_has_kernel(gate, up) ? SwiGlu::apply(gate, up) : at::silu(gate).mul(up);
}

}  // namespace trainctl::kernels
