#include "kernels/rotary.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/portable.h"
#include "kernels/vector_math.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum class Turn { forward, back };

/// Turns pairs of the elements i and i + half.
struct TurnRow {
  template <class V, class T>
  TRAINCTL_INLINE static void run(const T* x, const float* cosine, const float* sine, float sign, T* y,
                                  std::int64_t half) {
    std::int64_t i = 0;
    for (; i + V::kLanes <= half; i += V::kLanes) step<V>(x + i, cosine + i, sine + i, sign, y + i, half, V::kLanes);
    if (i < half) step<V>(x + i, cosine + i, sine + i, sign, y + i, half, half - i);
  }

 private:
  template <class V, class T>
  TRAINCTL_INLINE static void step(const T* x, const float* cosine, const float* sine, float sign, T* y,
                                   std::int64_t half, std::int64_t count) {
    typename V::Floats low;
    typename V::Floats high;
    typename V::Floats c;
    typename V::Floats s;
    load_some(x, count, low);
    load_some(x + half, count, high);
    load_some(cosine, count, c);
    load_some(sine, count, s);
    s *= sign;
    const typename V::Floats first = low * c - high * s;
    const typename V::Floats second = high * c + low * s;
    store_some(first, count, y);
    store_some(second, count, y + half);
  }
};

template <class T>
void turn_row(const T* x, const float* cosine, const float* sine, float sign, T* y, std::int64_t half) {
  vectorized<TurnRow>(x, cosine, sine, sign, y, half);
}
void turn_row(const double* x, const double* cosine, const double* sine, double sign, double* y, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const double low = x[i], high = x[i + half], turned = sign * sine[i];
    y[i] = low * cosine[i] - high * turned;
    y[i + half] = high * cosine[i] + low * turned;
  }
}

/// Rotates the rows [H, d] of each (b, t). Only d must be contiguous.
template <class T, class Table>
void turn_rows(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine, Turn turn,
               at::Tensor& output) {
  if (runtime::is_fake(heads)) return;
  const std::int64_t num_heads = heads.size(1), length = heads.size(2), half = heads.size(3) / 2;
  const std::int64_t batch_stride = heads.stride(0), head_stride = heads.stride(1), step = heads.stride(2);
  const bool per_row = cosine.dim() == 3;
  const T* from = heads.const_data_ptr<T>();
  const Table* cosines = cosine.const_data_ptr<Table>();
  const Table* sines = sine.const_data_ptr<Table>();
  T* to = output.mutable_data_ptr<T>();
  const Table sign = turn == Turn::forward ? Table{1} : Table{-1};
  const auto turn_positions = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      const std::int64_t b = position / length, t = position % length;
      const std::int64_t angle = (per_row ? position : t) * half;
      for (std::int64_t h = 0; h < num_heads; ++h)
        turn_row(from + b * batch_stride + h * head_stride + t * step, cosines + angle, sines + angle, sign,
                 to + (position * num_heads + h) * 2 * half, half);
    }
  };
  at::parallel_for(0, heads.size(0) * length, std::max<std::int64_t>(1, 16384 / (num_heads * half)), turn_positions);
}

at::Tensor turned(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine, Turn turn) {
  const at::Tensor rows = heads.stride(3) == 1 ? heads : heads.contiguous();
  at::Tensor output = at::empty({heads.size(0), heads.size(2), heads.size(1), heads.size(3)}, heads.options());
  if (heads.scalar_type() == at::kFloat)
    turn_rows<float, float>(rows, cosine, sine, turn, output);
  else if (heads.scalar_type() == at::kBFloat16)
    turn_rows<at::BFloat16, float>(rows, cosine, sine, turn, output);
  else
    turn_rows<double, double>(rows, cosine, sine, turn, output);
  return output.transpose(1, 2);
}

struct Rotate final : torch::autograd::Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& heads, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    RECORD_FUNCTION("trainctl::rotate", std::vector<c10::IValue>());
    context->save_for_backward({cosine, sine});
    return turned(heads, cosine, sine, Turn::forward);
  }
  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    RECORD_FUNCTION("trainctl::rotate_backward", std::vector<c10::IValue>());
    const variable_list saved = context->get_saved_variables();
    return {turned(output_gradients[0], saved[0], saved[1], Turn::back), at::Tensor(), at::Tensor()};
  }
};

/// Rotates with LibTorch's operators, for other devices and dtypes.
at::Tensor rotate_composed(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine) {
  const auto wide = [&](const at::Tensor& table) {  // [(B,) 1, T, d]
    return at::cat({table, table}, -1).to(heads.scalar_type()).unsqueeze(-3);
  };
  const std::int64_t half = heads.size(3) / 2;
  const at::Tensor swapped = at::cat({heads.narrow(3, half, half).neg(), heads.narrow(3, 0, half)}, 3);
  return heads.mul(wide(cosine)).add(swapped.mul(wide(sine)));
}

}  // namespace

at::Tensor rotate(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine) {
  const at::ScalarType dtype = heads.scalar_type();
  const bool has_kernel = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16;
  if (PortableOperators::are_wanted() || !heads.device().is_cpu() || !has_kernel)
    return rotate_composed(heads, cosine, sine);
  const at::ScalarType table = dtype == at::kDouble ? at::kDouble : at::kFloat;
  return Rotate::apply(heads, cosine.to(table).contiguous(), sine.to(table).contiguous());
}

}  // namespace trainctl::kernels
