#include "kernels/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

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

struct SwiGlu final : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    RECORD_FUNCTION("trainctl::swiglu", std::vector<c10::IValue>());
    at::Tensor output = at::empty_like(gate);
    context->save_for_backward({gate, up});
    if (runtime::is_fake(gate)) return output;
    const auto* g = gate.const_data_ptr<float>();
    const auto* u = up.const_data_ptr<float>();
    auto* y = output.mutable_data_ptr<float>();
    over_ranges(gate.numel(), [&](std::int64_t begin, std::int64_t size) {
      vectorized<SwigluForward>(g + begin, u + begin, y + begin, size);
    });
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    RECORD_FUNCTION("trainctl::swiglu_backward", std::vector<c10::IValue>());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = output_gradients[0].contiguous();
    at::Tensor gate_gradient = at::empty_like(saved[0]);
    at::Tensor up_gradient = at::empty_like(saved[1]);
    if (runtime::is_fake(gradient)) return {gate_gradient, up_gradient};
    const auto* g = saved[0].const_data_ptr<float>();
    const auto* u = saved[1].const_data_ptr<float>();
    const auto* dy = gradient.const_data_ptr<float>();
    auto* dg = gate_gradient.mutable_data_ptr<float>();
    auto* du = up_gradient.mutable_data_ptr<float>();
    over_ranges(gradient.numel(), [&](std::int64_t begin, std::int64_t size) {
      vectorized<SwigluBackward>(g + begin, u + begin, dy + begin, dg + begin, du + begin, size);
    });
    return {gate_gradient, up_gradient};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (PortableOperators::are_wanted() || !is_plain(gate) || !is_plain(up) || gate.sizes() != up.sizes())
    return at::silu(gate).mul(up);
  return SwiGlu::apply(gate, up);
}

}  // namespace trainctl::kernels
