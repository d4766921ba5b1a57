#include "kernels/gelu_tanh.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
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

constexpr float kSlope = 1.5957691216F;  // 2 √(2/π): (1 + tanh(u)) / 2 is sigmoid(2 u), which needs one exponential
constexpr float kCubic = 0.044715F;

struct GeluForward {
  template <class V>
  TRAINCTL_INLINE static void run(const float* input, float* output, std::int64_t size) {
    const std::int64_t whole = size / V::kLanes * V::kLanes;
    typename V::Floats x;
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load(input + i, x);
      typename V::Floats s = kSlope * x * (1.0F + kCubic * x * x);
      sigmoid<V>(s);
      const typename V::Floats y = x * s;
      store(y, output + i);
    }
    for (std::int64_t i = whole; i < size; ++i) {
      const float value = input[i];
      output[i] = value / (1.0F + std::exp(-kSlope * value * (1.0F + kCubic * value * value)));
    }
  }
};

/// dx = dy · s · (1 + x (1 - s) v'), where s = sigmoid(v), v = kSlope (x + kCubic x³).
struct GeluBackward {
  template <class V>
  TRAINCTL_INLINE static void run(const float* input, const float* gradient, float* input_gradient, std::int64_t size) {
    const std::int64_t whole = size / V::kLanes * V::kLanes;
    typename V::Floats x;
    typename V::Floats dy;
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load(input + i, x);
      load(gradient + i, dy);
      const typename V::Floats square = kCubic * x * x;
      typename V::Floats s = kSlope * x * (1.0F + square);
      sigmoid<V>(s);
      const typename V::Floats dx = dy * s * (1.0F + x * (1.0F - s) * kSlope * (1.0F + 3.0F * square));
      store(dx, input_gradient + i);
    }
    for (std::int64_t i = whole; i < size; ++i) {
      const float value = input[i];
      const float square = kCubic * value * value;
      const float s = 1.0F / (1.0F + std::exp(-kSlope * value * (1.0F + square)));
      input_gradient[i] = gradient[i] * s * (1.0F + value * (1.0F - s) * kSlope * (1.0F + 3.0F * square));
    }
  }
};

struct GeluTanh final : torch::autograd::Function<GeluTanh> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    RECORD_FUNCTION("trainctl::gelu_tanh", std::vector<c10::IValue>());
    at::Tensor output = at::empty_like(input);
    context->save_for_backward({input});
    if (runtime::is_fake(input)) return output;
    const auto* x = input.const_data_ptr<float>();
    auto* y = output.mutable_data_ptr<float>();
    over_ranges(input.numel(),
                [&](std::int64_t begin, std::int64_t size) { vectorized<GeluForward>(x + begin, y + begin, size); });
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    RECORD_FUNCTION("trainctl::gelu_tanh_backward", std::vector<c10::IValue>());
    const at::Tensor input = context->get_saved_variables()[0];
    const at::Tensor gradient = output_gradients[0].contiguous();
    at::Tensor input_gradient = at::empty_like(input);
    if (runtime::is_fake(gradient)) return {input_gradient};
    const auto* x = input.const_data_ptr<float>();
    const auto* dy = gradient.const_data_ptr<float>();
    auto* dx = input_gradient.mutable_data_ptr<float>();
    over_ranges(gradient.numel(), [&](std::int64_t begin, std::int64_t size) {
      vectorized<GeluBackward>(x + begin, dy + begin, dx + begin, size);
    });
    return {input_gradient};
  }
};

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& input) {
  if (PortableOperators::are_wanted() || !is_plain(input)) return at::gelu(input, "tanh");
  return GeluTanh::apply(input);
}

}  // namespace trainctl::kernels
