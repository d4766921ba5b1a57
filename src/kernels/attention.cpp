#include "kernels/attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "kernels/attention_rows.h"
#include "kernels/portable.h"
#include "kernels/tile_product.h"
#include "kernels/vector_math.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLongest = 512;  // tokens; the backward pass holds a head's probabilities and their gradients
constexpr std::int64_t kBlock = 16;     // queries (or keys) per block; causality skips whole blocks

std::int64_t padded(std::int64_t tokens) {
  return (tokens + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
}

template <class T>
struct HeadsOf {
  T* data;
  std::int64_t batch_stride, head_stride, row_stride;
  T* head(std::int64_t b, std::int64_t h) const { return data + b * batch_stride + h * head_stride; }
  Rows rows(std::int64_t b, std::int64_t h, std::int64_t count) const { return {head(b, h), row_stride, count}; }
};
using Heads = HeadsOf<const float>;
using WritableHeads = HeadsOf<float>;

Heads heads_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}
WritableHeads writable_heads_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

/// Allocates [B, H, T, d] whose memory is dense in the order [B, T, H, d].
at::Tensor empty_heads(const at::Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

struct Problem {
  std::int64_t batch, heads, kv_heads, tokens, size;
  float scale;
  const bool* mask;  // null: no mask
  std::int64_t mask_batch_stride, mask_row_stride;
  Visible visible;

  Problem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& mask_, Visible visible_)
      : batch(q.size(0)),
        heads(q.size(1)),
        kv_heads(k.size(1)),
        tokens(q.size(2)),
        size(q.size(3)),
        scale(1 / std::sqrt(static_cast<float>(q.size(3)))),
        mask(mask_.defined() ? mask_.const_data_ptr<bool>() : nullptr),
        mask_batch_stride(mask_.defined() && mask_.size(0) > 1 ? mask_.stride(0) : 0),
        mask_row_stride(mask_.defined() && mask_.size(2) > 1 ? mask_.stride(2) : 0),
        visible(mask_.defined() ? Visible::all : visible_) {}

  std::int64_t group() const { return heads / kv_heads; }
  /// Number of keys that the queries before `end` may see.
  std::int64_t seen_before(std::int64_t end) const { return visible == Visible::all ? tokens : end; }
  /// First query that may see keys from `begin` on.
  std::int64_t first_to_see(std::int64_t begin) const { return visible == Visible::all ? 0 : begin; }
  SeenKeys seen_by(std::int64_t b, std::int64_t query) const {
    return {.count = seen_before(query + 1),
            .mask = mask == nullptr ? nullptr : mask + b * mask_batch_stride + query * mask_row_stride};
  }
};

/// Transposes [T, d] -> [d, padded(T)], with zeros after the last token.
void transpose(const float* rows, std::int64_t row_stride, const Problem& in, float* columns) {
  const std::int64_t width = padded(in.tokens);
  for (std::int64_t begin = 0; begin < width; begin += kBlock)
    for (std::int64_t i = 0; i < in.size; ++i)
      for (std::int64_t t = begin; t < begin + kBlock; ++t)
        columns[i * width + t] = t < in.tokens ? rows[t * row_stride + i] : 0;
}

/// Computes scores [queries, width] of the query block at `begin` with its visible keys, rounded up to whole vectors.
void score_block(const Problem& in, const float* q, std::int64_t q_stride, std::int64_t begin, const float* keys,
                 float* scores) {
  const std::int64_t end = std::min(begin + kBlock, in.tokens);
  const std::int64_t width = padded(in.tokens);
  tile_product({.data = q + begin * q_stride, .row_stride = q_stride, .column_stride = 1}, {keys, width},
               {scores, width}, {.rows = end - begin, .inner = in.size, .columns = padded(in.seen_before(end))},
               in.scale, Into::nothing);
}

class Forward {
 public:
  Forward(const Problem& in, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& output,
          const at::Tensor& log_sums)
      : in_(in),
        q_(heads_of(q)),
        k_(heads_of(k)),
        v_(heads_of(v)),
        output_(writable_heads_of(output)),
        log_sums_(log_sums.mutable_data_ptr<float>()) {}

  /// Computes all query heads that share the key and value head `shared` of sample `b`.
  void operator()(std::int64_t b, std::int64_t shared) {
    const std::int64_t width = padded(in_.tokens);
    if (keys_.empty()) keys_.resize(static_cast<std::size_t>(in_.size * width));
    if (scores_.empty()) scores_.resize(static_cast<std::size_t>(kBlock * width));
    values_.resize(static_cast<std::size_t>(in_.size * in_.tokens));
    transpose(k_.head(b, shared), k_.row_stride, in_, keys_.data());
    pack_rows(v_.rows(b, shared, in_.tokens), in_.size, values_.data());
    for (std::int64_t h = shared * in_.group(); h < (shared + 1) * in_.group(); ++h) {
      float* log_sums = log_sums_ + (b * in_.heads + h) * in_.tokens;
      float* output = output_.head(b, h);
      for (std::int64_t begin = 0; begin < in_.tokens; begin += kBlock) {
        const std::int64_t end = std::min(begin + kBlock, in_.tokens);
        score_block(in_, q_.head(b, h), q_.row_stride, begin, keys_.data(), scores_.data());
        RowMass masses[kBlock];
        for (std::int64_t t = begin; t < end; ++t)
          masses[t - begin] =
              softmax_row(scores_.data() + (t - begin) * width, padded(in_.seen_before(end)), in_.seen_by(b, t));
        tile_product({.data = scores_.data(), .row_stride = width, .column_stride = 1}, {values_.data(), in_.size},
                     {output + begin * output_.row_stride, output_.row_stride},
                     {.rows = end - begin, .inner = in_.seen_before(end), .columns = in_.size}, 1, Into::nothing);
        for (std::int64_t t = begin; t < end; ++t) {
          const auto [largest, sum] = masses[t - begin];
          scale_row(output + t * output_.row_stride, in_.size, sum == 0 ? 0 : 1 / sum);
          log_sums[t] = sum == 0 ? std::numeric_limits<float>::infinity() : largest + std::log(sum);
        }
      }
    }
  }

 private:
  const Problem& in_;
  Heads q_, k_, v_;
  WritableHeads output_;
  float* log_sums_;            // [B, H, T]
  std::vector<float> keys_;    // [d, width]
  std::vector<float> values_;  // [T, d]
  std::vector<float> scores_;  // [kBlock, width]
};

struct BackwardInputs {
  const at::Tensor &q, &k, &v, &output, &log_sums, &gradient;
};
struct BackwardOutputs {
  at::Tensor q, k, v;
};

class Backward {
 public:
  Backward(const Problem& in, const BackwardInputs& from, const BackwardOutputs& to)
      : in_(in),
        q_(heads_of(from.q)),
        k_(heads_of(from.k)),
        v_(heads_of(from.v)),
        output_(heads_of(from.output)),
        gradient_(heads_of(from.gradient)),
        log_sums_(from.log_sums.const_data_ptr<float>()),
        dq_(writable_heads_of(to.q)),
        dk_(writable_heads_of(to.k)),
        dv_(writable_heads_of(to.v)) {}

  /// Computes the gradients of all query heads that share the key and value head `shared` of sample `b`.
  void operator()(std::int64_t b, std::int64_t shared) {
    const std::int64_t width = padded(in_.tokens);
    for (std::vector<float>* columns : {&keys_, &values_}) columns->resize(static_cast<std::size_t>(in_.size * width));
    for (std::vector<float>* square : {&weights_, &slopes_})
      square->resize(static_cast<std::size_t>(in_.tokens * width));
    transpose(k_.head(b, shared), k_.row_stride, in_, keys_.data());
    transpose(v_.head(b, shared), v_.row_stride, in_, values_.data());
    for (std::vector<float>* rows : {&q_rows_, &k_rows_, &gradient_rows_})
      rows->resize(static_cast<std::size_t>(in_.size * in_.tokens));
    pack_rows(k_.rows(b, shared, in_.tokens), in_.size, k_rows_.data());
    means_.resize(static_cast<std::size_t>(in_.tokens));
    const std::int64_t first = shared * in_.group();
    for (std::int64_t h = first; h < first + in_.group(); ++h) {
      pack_rows(q_.rows(b, h, in_.tokens), in_.size, q_rows_.data());
      pack_rows_with_dots(gradient_.rows(b, h, in_.tokens), output_.rows(b, h, in_.tokens), in_.size,
                          gradient_rows_.data(), means_.data());
      to_queries(b, h);
      to_keys(b, shared, h == first ? Into::nothing : Into::sum);
    }
  }

 private:
  /// Computes probabilities and the gradients of scores row by row, then the gradients of the queries.
  void to_queries(std::int64_t b, std::int64_t h) {
    const std::int64_t width = padded(in_.tokens);
    const float* gradient = gradient_rows_.data();
    const float* log_sums = log_sums_ + (b * in_.heads + h) * in_.tokens;
    for (std::int64_t begin = 0; begin < in_.tokens; begin += kBlock) {
      const std::int64_t end = std::min(begin + kBlock, in_.tokens);
      const std::int64_t columns = padded(in_.seen_before(end));
      float* weights = weights_.data() + begin * width;
      float* slopes = slopes_.data() + begin * width;
      score_block(in_, q_rows_.data(), in_.size, begin, keys_.data(), weights);
      tile_product({.data = gradient + begin * in_.size, .row_stride = in_.size, .column_stride = 1},
                   {values_.data(), width}, {slopes, width},
                   {.rows = end - begin, .inner = in_.size, .columns = columns}, 1, Into::nothing);
      for (std::int64_t t = begin; t < end; ++t)
        softmax_gradient_row(weights + (t - begin) * width, slopes + (t - begin) * width, columns, in_.seen_by(b, t),
                             {.log_sum = log_sums[t], .mean = means_[static_cast<std::size_t>(t)], .scale = in_.scale});
      tile_product({.data = slopes, .row_stride = width, .column_stride = 1}, {k_rows_.data(), in_.size},
                   {dq_.head(b, h) + begin * dq_.row_stride, dq_.row_stride},
                   {.rows = end - begin, .inner = in_.seen_before(end), .columns = in_.size}, 1, Into::nothing);
    }
  }

  void to_keys(std::int64_t b, std::int64_t shared, Into into) {
    const std::int64_t width = padded(in_.tokens);
    for (std::int64_t begin = 0; begin < in_.tokens; begin += kBlock) {
      const std::int64_t first = in_.first_to_see(begin);
      const TileShape shape{
          .rows = std::min(kBlock, in_.tokens - begin), .inner = in_.tokens - first, .columns = in_.size};
      const std::int64_t corner = first * width + begin;
      tile_product({.data = weights_.data() + corner, .row_stride = 1, .column_stride = width},
                   {gradient_rows_.data() + first * in_.size, in_.size},
                   {dv_.head(b, shared) + begin * dv_.row_stride, dv_.row_stride}, shape, 1, into);
      tile_product({.data = slopes_.data() + corner, .row_stride = 1, .column_stride = width},
                   {q_rows_.data() + first * in_.size, in_.size},
                   {dk_.head(b, shared) + begin * dk_.row_stride, dk_.row_stride}, shape, 1, into);
    }
  }

  const Problem& in_;
  Heads q_, k_, v_, output_, gradient_;
  const float* log_sums_;
  WritableHeads dq_, dk_, dv_;
  std::vector<float> keys_, values_;                    // [d, width]
  std::vector<float> q_rows_, k_rows_, gradient_rows_;  // [T, d]
  std::vector<float> means_;                            // [T]: Σ output × its gradient
  std::vector<float> weights_, slopes_;                 // [T, width]: probabilities, gradients of scores
};

/// Calls `pass` for each sample and key head; each thread has a copy of `pass`.
template <class Pass>
void over_heads(const Problem& in, const Pass& pass) {
  at::parallel_for(0, in.batch * in.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Pass own = pass;
    for (std::int64_t i = begin; i < end; ++i) own(i / in.kv_heads, i % in.kv_heads);
  });
}

/// Returns the output and the logarithms of the sums, [B, H, T].
std::tuple<at::Tensor, at::Tensor> run_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                               const std::optional<at::Tensor>& mask, bool causal) {
  at::Tensor output = empty_heads(q);
  at::Tensor log_sums = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
  if (runtime::is_fake(q)) return {output, log_sums};
  const Problem problem(q, k, mask.value_or(at::Tensor()), causal ? Visible::up_to_itself : Visible::all);
  over_heads(problem, Forward(problem, q, k, v, output, log_sums));
  return {output, log_sums};
}

// Registered with LibTorch's dispatcher, so that activation checkpointing can save its outputs.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def("short_attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("short_attention", &run_forward);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("short_attention", &run_forward);
}

struct ShortAttention final : torch::autograd::Function<ShortAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& mask, bool causal) {
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("trainctl::short_attention", "")
            .typed<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                      const std::optional<at::Tensor>&, bool)>();
    auto [output, log_sums] = op.call(q, k, v, mask, causal);
    context->save_for_backward({q, k, v, mask.value_or(at::Tensor()), output, log_sums});
    context->saved_data["causal"] = causal;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    RECORD_FUNCTION("trainctl::short_attention_backward", std::vector<c10::IValue>({saved[0], saved[1], saved[2]}));
    const at::Tensor& given = output_gradients[0];
    const at::Tensor gradient = given.stride(3) == 1 ? given : given.contiguous();
    const BackwardOutputs gradients{empty_heads(saved[0]), empty_heads(saved[1]), empty_heads(saved[2])};
    if (runtime::is_fake(saved[0])) return {gradients.q, gradients.k, gradients.v, at::Tensor(), at::Tensor()};
    const Problem problem(saved[0], saved[1], saved[3],
                          context->saved_data["causal"].toBool() ? Visible::up_to_itself : Visible::all);
    over_heads(problem, Backward(problem,
                                 {.q = saved[0],
                                  .k = saved[1],
                                  .v = saved[2],
                                  .output = saved[4],
                                  .log_sums = saved[5],
                                  .gradient = gradient},
                                 gradients));
    return {gradients.q, gradients.k, gradients.v, at::Tensor(), at::Tensor()};
  }
};

bool suits(const at::Tensor& heads) {
  return heads.is_cpu() && heads.scalar_type() == at::kFloat && heads.dim() == 4 && heads.stride(3) == 1;
}

}  // namespace

bool suits_short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask) {
  return !PortableOperators::are_wanted() && suits(q) && suits(k) && suits(v) && q.size(2) == k.size(2) &&
         q.size(2) <= kLongest && q.numel() > 0 && q.size(3) % kMaxLanes == 0 && q.size(3) == v.size(3) &&
         (!mask.defined() || (mask.scalar_type() == at::kBool && mask.dim() == 4 && mask.size(1) == 1 &&
                              mask.size(3) == k.size(2) && mask.stride(3) == 1));
}

at::Tensor short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                           Visible visible) {
  core::ensure(suits_short_attention(q, k, v, mask), "short_attention was given what it doesn't take");
  return ShortAttention::apply(q, k, v, mask.defined() ? std::optional(mask) : std::nullopt,
                               visible == Visible::up_to_itself);
}

}  // namespace trainctl::kernels
