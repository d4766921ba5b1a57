// Batch normalisation of images or rows, as PyTorch's BatchNorm2d and BatchNorm1d (https://arxiv.org/abs/1502.03167):
// same names, eps, momentum.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/batch_norm.h"
#include "model/layer.h"
#include "model/model.h"

namespace trainctl::model {

struct BatchNormSpec {
  std::int64_t channels;
  double weight = 1;  // first value
  double eps = 1e-5;
  double momentum = 0.1;  // share of a new batch in the running statistics
};

class BatchNorm final : public UnaryLayer {
 public:
  explicit BatchNorm(const BatchNormSpec& spec);
  explicit BatchNorm(std::int64_t channels, double weight = 1)
      : BatchNorm(BatchNormSpec{.channels = channels, .weight = weight}) {}
  /// While training: normalises by the batch and updates (or gathers) statistics, unless this is a recomputation; else
  /// by the running statistics.
  at::Tensor compute(const at::Tensor& input) override;

  /// max(0, norm(input) + residual), with less traffic of memory than by one after the other; without a residual
  /// max(0, norm(input)).
  at::Tensor forward_relu(const at::Tensor& input, const at::Tensor& residual = {});

  /// From now on training normalises by the batch of all ranks.
  void synchronize(const BatchRanks& ranks) { ranks_ = ranks; }
  /// What was gathered and not committed is dropped.
  void set_running_statistics(RunningStatistics when);
  /// Updates the running statistics with those of all batches since the last commit, pooled into one, as if that had
  /// come `updates` times.
  void commit(std::int64_t updates);

 private:
  bool suits_kernel(const at::Tensor& input) const;
  at::Tensor forward_by_kernel(const at::Tensor& input, const kernels::AfterNorm& after);
  at::Tensor forward_over_ranks(const at::Tensor& input);
  void update(const at::Tensor& mean, const at::Tensor& variance, std::int64_t count);
  void gather(const at::Tensor& mean, const at::Tensor& variance, std::int64_t count);

  double eps_;
  double momentum_;
  at::Tensor& weight_;               // [C]
  at::Tensor& bias_;                 // [C]
  at::Tensor& running_mean_;         // [C]
  at::Tensor& running_var_;          // [C], unbiased
  at::Tensor& num_batches_tracked_;  // [], int64

  std::optional<BatchRanks> ranks_;
  RunningStatistics when_ = RunningStatistics::every_forward;
  struct Pooled {
    at::Tensor mean;         // [C]
    at::Tensor squares;      // [C], sum of squared differences from `mean`
    std::int64_t count = 0;  // values per channel
  } pooled_;
};

}  // namespace trainctl::model
