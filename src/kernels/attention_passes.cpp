#include "kernels/attention_passes.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/drop_words.h"
#include "kernels/tile_product.h"
#include "kernels/vector_math.h"

namespace trainctl::kernels {
namespace {

constexpr std::int64_t kBlock = 16;  // queries (or keys) per block; causality skips whole blocks

std::int64_t padded(std::int64_t tokens) {
  return (tokens + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
}

/// The heads of a tensor [B, H, T, d], of float or bf16.
template <class T>
struct Heads {
  T* data;
  std::int64_t batch_stride, head_stride, row_stride;
  Rows<T> rows(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) const {
    return {data + b * batch_stride + h * head_stride + begin * row_stride, row_stride, end - begin};
  }
};

template <class T>
Heads<const T> heads_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}
template <class T>
Heads<T> writable_heads_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

/// Transposes dense rows [T, d] -> [d, padded(T)], with zeros after the last token.
void transpose(const float* rows, const AttentionProblem& in, float* columns) {
  const std::int64_t width = padded(in.tokens);
  for (std::int64_t t = 0; t < in.tokens; ++t)
    for (std::int64_t i = 0; i < in.size; ++i) columns[i * width + t] = rows[t * in.size + i];
  for (std::int64_t i = 0; i < in.size; ++i)
    std::fill(columns + i * width + in.tokens, columns + (i + 1) * width, 0.0F);
}

/// Computes scores [queries, width] of the query block at `begin` with its visible keys, rounded up to whole vectors.
void score_block(const AttentionProblem& in, const Rows<const float>& q, std::int64_t begin, const float* keys,
                 float* scores) {
  const std::int64_t end = std::min(begin + kBlock, in.tokens);
  const std::int64_t width = padded(in.tokens);
  tile_product({.data = q.data + begin * q.stride, .row_stride = q.stride, .column_stride = 1}, {keys, width},
               {scores, width}, {.rows = end - begin, .inner = in.size, .columns = padded(in.seen_before(end))},
               in.scale, Into::nothing);
}

/// Returns the rows if they are floats, or else dense copies in `room`.
template <class T>
Rows<const float> as_floats(const Rows<const T>& rows, std::int64_t size, float* room) {
  if constexpr (std::is_same_v<T, float>) return rows;
  pack_rows(rows, size, room);
  return {room, size, rows.count};
}
/// Returns where results are computed: in the rows themselves if they are floats, or else in `room`.
template <class T>
Rows<float> floats_for(const Rows<T>& rows, std::int64_t size, float* room) {
  if constexpr (std::is_same_v<T, float>)
    return rows;
  else
    return {room, size, rows.count};
}
/// Writes results from there.
template <class T>
void finish(const Rows<float>& results, std::int64_t size, const Rows<T>& rows) {
  if constexpr (!std::is_same_v<T, float>)
    write_rows({results.data, results.stride, results.count}, nullptr, size, rows);
}

void resize(std::vector<float>& values, std::int64_t size) {
  values.resize(static_cast<std::size_t>(size));
}

/// Draws the words that decide which weights of a row of scores are dropped.
class RowsOfDrops {
 public:
  explicit RowsOfDrops(const AttentionProblem& in) : in_(in), threshold_(drop_threshold(in.drops.probability)) {}

  /// Valid until the next call.
  RowDrops operator()(std::int64_t b, std::int64_t h, std::int64_t query, std::int64_t width) {
    const WeightDrops& drops = in_.drops;
    if (drops.probability == 0) return {};
    words_.resize(static_cast<std::size_t>((width + device::kWordsPerBlock - 1) / device::kWordsPerBlock *
                                           device::kWordsPerBlock));
    const std::int64_t all_heads = drops.heads.of == 0 ? in_.heads : drops.heads.of;
    draw_words(drops.draw.key,
               {.sample = static_cast<std::uint64_t>(drops.draw.first_sample + b),
                .row = static_cast<std::uint32_t>(query * all_heads + drops.heads.first + h)},
               0, width, words_.data());
    return {.words = words_.data(), .threshold = threshold_, .factor = kept_factor()};
  }
  float kept_factor() const { return static_cast<float>(1 / (1 - in_.drops.probability)); }

 private:
  const AttentionProblem& in_;
  std::uint32_t threshold_;
  std::vector<std::uint32_t> words_;
};

template <class T>
class Forward {
 public:
  Forward(const AttentionProblem& in, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
          const at::Tensor& output, const at::Tensor& log_sums)
      : in_(in),
        q_(heads_of<T>(q)),
        k_(heads_of<T>(k)),
        v_(heads_of<T>(v)),
        output_(writable_heads_of<T>(output)),
        log_sums_(log_sums.mutable_data_ptr<float>()),
        drops_(in) {}

  /// Computes all query heads that share the key and value head `shared` of sample `b`.
  void operator()(std::int64_t b, std::int64_t shared) {
    const std::int64_t width = padded(in_.tokens);
    resize(keys_, in_.size * width);
    resize(scores_, kBlock * width);
    for (std::vector<float>* rows : {&rows_, &values_}) resize(*rows, in_.size * in_.tokens);
    resize(block_, kBlock * in_.size);
    pack_rows(k_.rows(b, shared, 0, in_.tokens), in_.size, rows_.data());
    transpose(rows_.data(), in_, keys_.data());
    pack_rows(v_.rows(b, shared, 0, in_.tokens), in_.size, values_.data());
    for (std::int64_t h = shared * in_.group(); h < (shared + 1) * in_.group(); ++h) {
      const Rows<const float> queries = as_floats(q_.rows(b, h, 0, in_.tokens), in_.size, rows_.data());
      for (std::int64_t begin = 0; begin < in_.tokens; begin += kBlock) attend(b, h, queries, begin);
    }
  }

 private:
  /// Computes the output of the query block at `begin`.
  void attend(std::int64_t b, std::int64_t h, const Rows<const float>& queries, std::int64_t begin) {
    const std::int64_t width = padded(in_.tokens), end = std::min(begin + kBlock, in_.tokens);
    float* log_sums = log_sums_ + (b * in_.heads + h) * in_.tokens;
    score_block(in_, queries, begin, keys_.data(), scores_.data());
    float factors[kBlock];
    const std::int64_t columns = padded(in_.seen_before(end));
    for (std::int64_t t = begin; t < end; ++t) {
      float* row = scores_.data() + (t - begin) * width;
      const auto [largest, sum] = softmax_row(row, columns, in_.seen_by(b, t));
      factors[t - begin] = sum == 0 ? 0 : drops_.kept_factor() / sum;
      if (in_.drops.probability > 0) drop_row(row, columns, drops_(b, h, t, columns));
      log_sums[t] = sum == 0 ? std::numeric_limits<float>::infinity() : largest + std::log(sum);
    }
    const Rows<T> output = output_.rows(b, h, begin, end);
    const Rows<float> sums = floats_for(output, in_.size, block_.data());
    tile_product({.data = scores_.data(), .row_stride = width, .column_stride = 1}, {values_.data(), in_.size},
                 {sums.data, sums.stride}, {.rows = end - begin, .inner = in_.seen_before(end), .columns = in_.size}, 1,
                 Into::nothing);
    write_rows({sums.data, sums.stride, sums.count}, factors, in_.size, output);
  }

  const AttentionProblem& in_;
  Heads<const T> q_, k_, v_;
  Heads<T> output_;
  float* log_sums_;                   // [B, H, T]
  std::vector<float> keys_;           // [d, width]
  std::vector<float> rows_, values_;  // [T, d]; rows_: of keys, then of queries
  std::vector<float> scores_;         // [kBlock, width]
  std::vector<float> block_;          // [kBlock, d]: output before it is scaled
  RowsOfDrops drops_;
};

template <class T>
class Backward {
 public:
  Backward(const AttentionProblem& in, const AttentionBackwardInputs& from, const AttentionBackwardOutputs& to)
      : in_(in),
        q_(heads_of<T>(from.q)),
        k_(heads_of<T>(from.k)),
        v_(heads_of<T>(from.v)),
        output_(heads_of<T>(from.output)),
        gradient_(heads_of<T>(from.gradient)),
        log_sums_(from.log_sums.const_data_ptr<float>()),
        dq_(writable_heads_of<T>(to.q)),
        dk_(writable_heads_of<T>(to.k)),
        dv_(writable_heads_of<T>(to.v)),
        drops_(in) {}

  /// Computes the gradients of all query heads that share the key and value head `shared` of sample `b`.
  void operator()(std::int64_t b, std::int64_t shared) {
    const std::int64_t width = padded(in_.tokens);
    for (std::vector<float>* columns : {&keys_, &values_}) resize(*columns, in_.size * width);
    for (std::vector<float>* square : {&weights_, &slopes_}) resize(*square, in_.tokens * width);
    for (std::vector<float>* rows : {&q_rows_, &k_rows_, &gradient_rows_, &dq_rows_, &dk_rows_, &dv_rows_})
      resize(*rows, in_.size * in_.tokens);
    resize(means_, in_.tokens);
    pack_rows(v_.rows(b, shared, 0, in_.tokens), in_.size, k_rows_.data());
    transpose(k_rows_.data(), in_, values_.data());
    pack_rows(k_.rows(b, shared, 0, in_.tokens), in_.size, k_rows_.data());
    transpose(k_rows_.data(), in_, keys_.data());
    const Rows<T> dk = dk_.rows(b, shared, 0, in_.tokens), dv = dv_.rows(b, shared, 0, in_.tokens);
    const Rows<float> keys = floats_for(dk, in_.size, dk_rows_.data());
    const Rows<float> values = floats_for(dv, in_.size, dv_rows_.data());
    const std::int64_t first = shared * in_.group();
    for (std::int64_t h = first; h < first + in_.group(); ++h) {
      pack_rows(q_.rows(b, h, 0, in_.tokens), in_.size, q_rows_.data());
      pack_rows_with_dots(gradient_.rows(b, h, 0, in_.tokens), output_.rows(b, h, 0, in_.tokens), in_.size,
                          gradient_rows_.data(), means_.data());
      const Rows<T> dq = dq_.rows(b, h, 0, in_.tokens);
      const Rows<float> queries = floats_for(dq, in_.size, dq_rows_.data());
      to_queries(b, h, queries);
      finish(queries, in_.size, dq);
      to_keys(keys, values, h == first ? Into::nothing : Into::sum);
    }
    finish(keys, in_.size, dk);
    finish(values, in_.size, dv);
  }

 private:
  /// Computes probabilities and the gradients of scores row by row, then the gradients of the queries.
  void to_queries(std::int64_t b, std::int64_t h, const Rows<float>& to) {
    const std::int64_t width = padded(in_.tokens);
    const float* gradient = gradient_rows_.data();
    const float* log_sums = log_sums_ + (b * in_.heads + h) * in_.tokens;
    for (std::int64_t begin = 0; begin < in_.tokens; begin += kBlock) {
      const std::int64_t end = std::min(begin + kBlock, in_.tokens);
      const std::int64_t columns = padded(in_.seen_before(end));
      float* weights = weights_.data() + begin * width;
      float* slopes = slopes_.data() + begin * width;
      score_block(in_, {q_rows_.data(), in_.size, in_.tokens}, begin, keys_.data(), weights);
      tile_product({.data = gradient + begin * in_.size, .row_stride = in_.size, .column_stride = 1},
                   {values_.data(), width}, {slopes, width},
                   {.rows = end - begin, .inner = in_.size, .columns = columns}, 1, Into::nothing);
      for (std::int64_t t = begin; t < end; ++t)
        softmax_gradient_row(weights + (t - begin) * width, slopes + (t - begin) * width, columns, in_.seen_by(b, t),
                             {.log_sum = log_sums[t],
                              .mean = means_[static_cast<std::size_t>(t)],
                              .scale = in_.scale,
                              .drops = drops_(b, h, t, columns)});
      tile_product({.data = slopes, .row_stride = width, .column_stride = 1}, {k_rows_.data(), in_.size},
                   {to.data + begin * to.stride, to.stride},
                   {.rows = end - begin, .inner = in_.seen_before(end), .columns = in_.size}, 1, Into::nothing);
    }
  }

  void to_keys(const Rows<float>& keys, const Rows<float>& values, Into into) {
    const std::int64_t width = padded(in_.tokens);
    for (std::int64_t begin = 0; begin < in_.tokens; begin += kBlock) {
      const std::int64_t first = in_.first_to_see(begin);
      const TileShape shape{
          .rows = std::min(kBlock, in_.tokens - begin), .inner = in_.tokens - first, .columns = in_.size};
      const std::int64_t corner = first * width + begin;
      tile_product({.data = weights_.data() + corner, .row_stride = 1, .column_stride = width},
                   {gradient_rows_.data() + first * in_.size, in_.size},
                   {values.data + begin * values.stride, values.stride}, shape, 1, into);
      tile_product({.data = slopes_.data() + corner, .row_stride = 1, .column_stride = width},
                   {q_rows_.data() + first * in_.size, in_.size}, {keys.data + begin * keys.stride, keys.stride}, shape,
                   1, into);
    }
  }

  const AttentionProblem& in_;
  Heads<const T> q_, k_, v_, output_, gradient_;
  const float* log_sums_;
  Heads<T> dq_, dk_, dv_;
  std::vector<float> keys_, values_;                    // [d, width]
  std::vector<float> q_rows_, k_rows_, gradient_rows_;  // [T, d]
  std::vector<float> dq_rows_, dk_rows_, dv_rows_;      // [T, d]
  std::vector<float> means_;                            // [T]: Σ output × its gradient
  std::vector<float> weights_, slopes_;                 // [T, width]: probabilities, gradients of scores
  RowsOfDrops drops_;
};

/// Calls `pass` for each sample and key head; each thread has a copy of `pass`.
template <class Pass>
void over_heads(const AttentionProblem& in, const Pass& pass) {
  at::parallel_for(0, in.batch * in.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Pass own = pass;
    for (std::int64_t i = begin; i < end; ++i) own(i / in.kv_heads, i % in.kv_heads);
  });
}

}  // namespace

void attention_forward(const AttentionProblem& problem, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       at::Tensor& output, at::Tensor& log_sums) {
  if (q.scalar_type() == at::kFloat)
    over_heads(problem, Forward<float>(problem, q, k, v, output, log_sums));
  else
    over_heads(problem, Forward<at::BFloat16>(problem, q, k, v, output, log_sums));
}

void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& from,
                        const AttentionBackwardOutputs& to) {
  if (from.q.scalar_type() == at::kFloat)
    over_heads(problem, Backward<float>(problem, from, to));
  else
    over_heads(problem, Backward<at::BFloat16>(problem, from, to));
}

}  // namespace trainctl::kernels
