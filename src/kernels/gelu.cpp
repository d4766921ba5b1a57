#include "kernels/gelu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>
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
using MaybeTensor = std::optional<at::Tensor>;

/// A vector's values of GELU / x, which is the share of x that passes, and of GELU's derivative.
template <Gelu kForm, class V>
struct GeluShares;

template <class V>
struct GeluShares<Gelu::tanh, V> {
  using Floats = typename V::Floats;
  Floats share, slope;

  TRAINCTL_INLINE explicit GeluShares(const Floats& x) {
    constexpr float kSlope = 1.5957691216F;  // 2 √(2/π): (1 + tanh(u)) / 2 is sigmoid(2 u), which needs one exponential
    const Floats square = 0.044715F * x * x;
    share = kSlope * x * (1.0F + square);
    sigmoid<V>(share);
    slope = share * (1.0F + x * (1.0F - share) * kSlope * (1.0F + 3.0F * square));
  }
};

template <class V>
struct GeluShares<Gelu::erf, V> {
  using Floats = typename V::Floats;
  Floats share, slope;

  /// Φ(-|x|) = exp(-x²/2) P(t), t = 1 / (1 + |x| / √8), where exp(-x²/2) is also the derivative's. The polynomial was
  /// fitted to erfc for |x| < 14 with a relative error of 5e-8.
  TRAINCTL_INLINE explicit GeluShares(const Floats& x) {
    const Floats magnitude = x > 0.0F ? x : -x;
    const Floats t = 1.0F / (1.0F + 0.353553391F * magnitude);
    Floats p = t * -2.953447224e-2F + 1.422874433e-1F;
    p = p * t - 2.435998703e-1F;
    p = p * t + 1.390334912e-1F;
    p = p * t - 1.331277365e-2F;
    p = p * t + 1.013434108e-1F;
    p = p * t + 1.215518869e-1F;
    p = p * t + 1.411876536e-1F;
    p = p * t + 1.410432090e-1F;
    Floats bell = x * x * -0.5F;
    exponential<V>(bell);
    const Floats tail = bell * p * t;
    share = x > 0.0F ? 1.0F - tail : tail;
    slope = share + x * bell * 0.39894228F;
  }
};

/// y = gelu(x + bias); a null bias adds nothing.
template <Gelu kForm>
struct GeluForward {
  template <class V, class T>
  TRAINCTL_INLINE static void run(const T* input, const float* bias, T* output, std::int64_t size) {
    std::int64_t i = 0;
    for (; i + V::kLanes <= size; i += V::kLanes) step<V>(input, bias, output, i, V::kLanes);
    if (i < size) step<V>(input, bias, output, i, size - i);
  }

 private:
  template <class V, class T>
  TRAINCTL_INLINE static void step(const T* input, const float* bias, T* output, std::int64_t i, std::int64_t count) {
    typename V::Floats x;
    typename V::Floats shift = typename V::Floats{};
    load_some(input + i, count, x);
    if (bias != nullptr) load_some(bias + i, count, shift);
    x += shift;
    const typename V::Floats y = x * GeluShares<kForm, V>(x).share;
    store_some(y, count, output + i);
  }
};

/// dx = dy · gelu'(x + bias), which is added to the bias's sums where there is one.
template <Gelu kForm>
struct GeluBackward {
  template <class V, class T>
  TRAINCTL_INLINE static void run(const T* gradient, const T* input, const float* bias, T* input_gradient,
                                  float* bias_sums, std::int64_t size) {
    std::int64_t i = 0;
    for (; i + V::kLanes <= size; i += V::kLanes)
      step<V>(gradient, input, bias, input_gradient, bias_sums, i, V::kLanes);
    if (i < size) step<V>(gradient, input, bias, input_gradient, bias_sums, i, size - i);
  }

 private:
  template <class V, class T>
  TRAINCTL_INLINE static void step(const T* gradient, const T* input, const float* bias, T* input_gradient,
                                   float* bias_sums, std::int64_t i, std::int64_t count) {
    typename V::Floats x;
    typename V::Floats dx;
    typename V::Floats sum;
    typename V::Floats shift = typename V::Floats{};
    load_some(input + i, count, x);
    if (bias != nullptr) load_some(bias + i, count, shift);
    x += shift;
    load_some(gradient + i, count, dx);
    dx *= GeluShares<kForm, V>(x).slope;
    store_some(dx, count, input_gradient + i);
    if (bias == nullptr) return;
    load_some(bias_sums + i, count, sum);
    sum += dx;
    store_some(sum, count, bias_sums + i);
  }
};

Gelu form_of(c10::string_view approximate) {
  return approximate == "tanh" ? Gelu::tanh : Gelu::erf;
}
constexpr const char* name_of(Gelu form) {
  return form == Gelu::tanh ? "tanh" : "none";  // LibTorch's names
}

template <Gelu kForm, class T>
void gelu_rows(const at::Tensor& input, const MaybeTensor& bias, at::Tensor& output) {
  const T* x = input.const_data_ptr<T>();
  T* y = output.mutable_data_ptr<T>();
  if (!bias) {
    over_ranges(input.numel(), [&](std::int64_t begin, std::int64_t size) {
      vectorized<GeluForward<kForm>>(x + begin, static_cast<const float*>(nullptr), y + begin, size);
    });
    return;
  }
  const float* shift = bias->const_data_ptr<float>();
  const std::int64_t size = input.size(-1);
  at::parallel_for(0, input.numel() / size, std::max<std::int64_t>(1, 16384 / size),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row)
                       vectorized<GeluForward<kForm>>(x + row * size, shift, y + row * size, size);
                   });
}

/// A fixed number makes the bias's sums independent of the number of threads.
constexpr std::int64_t kSlices = 16;

/// `bias_sums` [kSlices, D] are zero at first; undefined without a bias.
template <Gelu kForm, class T>
void gelu_backward_rows(const at::Tensor& gradient, const at::Tensor& input, const MaybeTensor& bias,
                        at::Tensor& input_gradient, at::Tensor& bias_sums) {
  const T* dy = gradient.const_data_ptr<T>();
  const T* x = input.const_data_ptr<T>();
  T* dx = input_gradient.mutable_data_ptr<T>();
  constexpr const float* kNoBias = nullptr;
  constexpr float* kNoSums = nullptr;
  if (!bias) {
    over_ranges(input.numel(), [&](std::int64_t begin, std::int64_t size) {
      vectorized<GeluBackward<kForm>>(dy + begin, x + begin, kNoBias, dx + begin, kNoSums, size);
    });
    return;
  }
  const float* shift = bias->const_data_ptr<float>();
  float* sums = bias_sums.mutable_data_ptr<float>();
  const std::int64_t size = input.size(-1), rows = input.numel() / size;
  at::parallel_for(0, kSlices, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t slice = first; slice < last; ++slice)
      for (std::int64_t row = slice * rows / kSlices; row < (slice + 1) * rows / kSlices; ++row)
        vectorized<GeluBackward<kForm>>(dy + row * size, x + row * size, shift, dx + row * size, sums + slice * size,
                                        size);
  });
}

/// Calls pass<form, T>() for the form's name and the elements' type.
template <class Pass>
void for_form_and_type(c10::string_view approximate, at::ScalarType type, const Pass& pass) {
  const auto with_form = [&]<Gelu kForm>() {
    type == at::kFloat ? pass.template operator()<kForm, float>() : pass.template operator()<kForm, at::BFloat16>();
  };
  form_of(approximate) == Gelu::tanh ? with_form.template operator()<Gelu::tanh>()
                                     : with_form.template operator()<Gelu::erf>();
}

at::Tensor gelu_on_cpu(const at::Tensor& input, const MaybeTensor& bias, c10::string_view approximate) {
  at::Tensor output = at::empty_like(input);
  if (runtime::is_fake(input)) return output;
  for_form_and_type(approximate, input.scalar_type(),
                    [&]<Gelu kForm, class T>() { gelu_rows<kForm, T>(input, bias, output); });
  return output;
}

std::tuple<at::Tensor, at::Tensor> gelu_backward_on_cpu(const at::Tensor& output_gradient, const at::Tensor& input,
                                                        const MaybeTensor& bias, c10::string_view approximate) {
  const at::Tensor gradient = output_gradient.contiguous();
  at::Tensor input_gradient = at::empty_like(input);
  at::Tensor sums = bias ? at::empty({kSlices, input.size(-1)}, bias->options()).zero_() : at::Tensor();
  if (!runtime::is_fake(input))
    for_form_and_type(approximate, input.scalar_type(), [&]<Gelu kForm, class T>() {
      gelu_backward_rows<kForm, T>(gradient, input, bias, input_gradient, sums);
    });
  return {input_gradient, sums.defined() ? sums.sum(0) : at::Tensor()};
}

at::Tensor gelu_on_gpu(const at::Tensor& input, const MaybeTensor& bias, c10::string_view approximate) {
  const c10::DeviceGuard guard(input.device());
  return device::bias_gelu(cuda_grid(), input, bias, form_of(approximate));
}

std::tuple<at::Tensor, at::Tensor> gelu_backward_on_gpu(const at::Tensor& output_gradient, const at::Tensor& input,
                                                        const MaybeTensor& bias, c10::string_view approximate) {
  const c10::DeviceGuard guard(input.device());
  return device::bias_gelu_backward(cuda_grid(), output_gradient, input, bias, form_of(approximate));
}

// Registered with LibTorch's dispatcher, which finds the device's.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def("gelu(Tensor input, Tensor? bias, str approximate) -> Tensor");
  library.def("gelu_backward(Tensor output_gradient, Tensor input, Tensor? bias, str approximate) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("gelu", &gelu_on_cpu);
  library.impl("gelu_backward", &gelu_backward_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("gelu", &gelu_on_cpu);
  library.impl("gelu_backward", &gelu_backward_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, CUDA, library) {
  library.impl("gelu", &gelu_on_gpu);
  library.impl("gelu_backward", &gelu_backward_on_gpu);
}

struct BiasGelu final : torch::autograd::Function<BiasGelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const MaybeTensor& bias, Gelu form) {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("trainctl::gelu", "").typed<decltype(gelu_on_cpu)>();
    context->save_for_backward({input, bias.value_or(at::Tensor())});
    context->saved_data["approximate"] = name_of(form);
    return op.call(input, bias, name_of(form));
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("trainctl::gelu_backward", "")
                               .typed<decltype(gelu_backward_on_cpu)>();
    const variable_list saved = context->get_saved_variables();
    const MaybeTensor bias = saved[1].defined() ? MaybeTensor(saved[1]) : MaybeTensor();
    const auto [input, of_bias] =
        op.call(output_gradients[0], saved[0], bias, context->saved_data["approximate"].toStringRef());
    return {input, of_bias, {}};
  }
};

/// Whether the kernels take these tensors.
bool gelu_has_kernel(const at::Tensor& input, const at::Tensor& bias) {
  if (PortableOperators::are_wanted() || input.numel() == 0) return false;
  if (bias.defined() && (bias.scalar_type() != at::kFloat || bias.device() != input.device())) return false;
  return is_plain(input) || (input.is_cuda() && device::has_kernels_for(input));
}

}  // namespace

at::Tensor gelu(const at::Tensor& input, Gelu form) {
  return bias_gelu(input, {}, form);
}

at::Tensor bias_gelu(const at::Tensor& input, const at::Tensor& bias, Gelu form) {
  if (!gelu_has_kernel(input, bias)) return at::gelu(bias.defined() ? input.add(bias) : input, name_of(form));
  return BiasGelu::apply(input, bias.defined() ? MaybeTensor(bias) : MaybeTensor(), form);
}

}  // namespace trainctl::kernels
