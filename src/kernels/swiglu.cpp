#include "kernels/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

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
  template <class V, class T>
  TRAINCTL_INLINE static void run(const T* gate, const T* up, T* output, std::int64_t size) {
    std::int64_t i = 0;
    for (; i + V::kLanes <= size; i += V::kLanes) step<V>(gate + i, up + i, output + i, V::kLanes);
    if (i < size) step<V>(gate + i, up + i, output + i, size - i);
  }

 private:
  template <class V, class T>
  TRAINCTL_INLINE static void step(const T* gate, const T* up, T* output, std::int64_t count) {
    typename V::Floats g;
    typename V::Floats u;
    load_some(gate, count, g);
    load_some(up, count, u);
    typename V::Floats s = g;
    sigmoid<V>(s);
    const typename V::Floats y = g * s * u;
    store_some(y, count, output);
  }
};

/// Computes, in memory order, d gate = dy · up · s (1 + gate (1 - s)) and d up = dy · gate · s, where s =
/// sigmoid(gate).
struct SwigluBackward {
  template <class V, class T>
  TRAINCTL_INLINE static void run(const T* gate, const T* up, const T* gradient, T* gate_gradient, T* up_gradient,
                                  std::int64_t size) {
    std::int64_t i = 0;
    for (; i + V::kLanes <= size; i += V::kLanes)
      step<V>(gate + i, up + i, gradient + i, gate_gradient + i, up_gradient + i, V::kLanes);
    if (i < size) step<V>(gate + i, up + i, gradient + i, gate_gradient + i, up_gradient + i, size - i);
  }

 private:
  template <class V, class T>
  TRAINCTL_INLINE static void step(const T* gate, const T* up, const T* gradient, T* gate_gradient, T* up_gradient,
                                   std::int64_t count) {
    typename V::Floats g;
    typename V::Floats u;
    typename V::Floats dy;
    load_some(gate, count, g);
    load_some(up, count, u);
    load_some(gradient, count, dy);
    typename V::Floats s = g;
    sigmoid<V>(s);
    const typename V::Floats dg = dy * u * s * (1.0F + g * (1.0F - s));
    const typename V::Floats du = dy * g * s;
    store_some(dg, count, gate_gradient);
    store_some(du, count, up_gradient);
  }
};

template <class T>
void swiglu_elements(const at::Tensor& gate, const at::Tensor& up, at::Tensor& output) {
  const T* g = gate.const_data_ptr<T>();
  const T* u = up.const_data_ptr<T>();
  T* y = output.mutable_data_ptr<T>();
  over_ranges(gate.numel(), [&](std::int64_t begin, std::int64_t size) {
    vectorized<SwigluForward>(g + begin, u + begin, y + begin, size);
  });
}

at::Tensor swiglu_on_cpu(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor output = at::empty_like(gate);
  if (runtime::is_fake(gate)) return output;
  gate.scalar_type() == at::kFloat ? swiglu_elements<float>(gate, up, output)
                                   : swiglu_elements<at::BFloat16>(gate, up, output);
  return output;
}

template <class T>
void swiglu_gradients(const at::Tensor& gradient, const at::Tensor& gate, const at::Tensor& up,
                      at::Tensor& gate_gradient, at::Tensor& up_gradient) {
  const T* g = gate.const_data_ptr<T>();
  const T* u = up.const_data_ptr<T>();
  const T* dy = gradient.const_data_ptr<T>();
  T* dg = gate_gradient.mutable_data_ptr<T>();
  T* du = up_gradient.mutable_data_ptr<T>();
  over_ranges(gradient.numel(), [&](std::int64_t begin, std::int64_t size) {
    vectorized<SwigluBackward>(g + begin, u + begin, dy + begin, dg + begin, du + begin, size);
  });
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_on_cpu(const at::Tensor& output_gradient, const at::Tensor& gate,
                                                          const at::Tensor& up) {
  const at::Tensor gradient = output_gradient.contiguous();
  at::Tensor gate_gradient = at::empty_like(gate);
  at::Tensor up_gradient = at::empty_like(up);
  if (runtime::is_fake(gradient)) return {gate_gradient, up_gradient};
  gate.scalar_type() == at::kFloat ? swiglu_gradients<float>(gradient, gate, up, gate_gradient, up_gradient)
                                   : swiglu_gradients<at::BFloat16>(gradient, gate, up, gate_gradient, up_gradient);
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
