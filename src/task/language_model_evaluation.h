// Loss, perplexity and bits per byte (or accuracy) of a language model on a set, summed on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "task/task.h"

namespace trainctl::task {

/// What is told beside loss and perplexity.
enum class Report { bits_per_byte, accuracy };

class LanguageModelEvaluation final : public Evaluation {
 public:
  /// bytes_per_token: 0 where it isn't known; then there are no bits per byte. chunk_size: 0 chooses.
  LanguageModelEvaluation(model::Model& model, Report report, double bytes_per_token, std::int64_t chunk_size)
      : model_(model), report_(report), bytes_per_token_(bytes_per_token), chunk_size_(chunk_size) {}

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// loss (nats for each token, without label smoothing), perplexity, and bits_per_byte or accuracy.
  Metrics metrics() override;
  std::string details() override;

 private:
  at::Tensor sum_and_hits(model::VocabularyHead& head, const at::Tensor& hidden, const dataset::Batch& batch);

  at::Tensor first_row_losses(model::VocabularyHead& head, const at::Tensor& hidden, const dataset::Batch& batch) const;

  model::Model& model_;
  Report report_;
  double bytes_per_token_;
  std::int64_t chunk_size_;
  std::int64_t count_ = 0;
  std::int64_t num_shown_ = 0;
  at::Tensor sums_;  // [2], double: losses, hits
};

}  // namespace trainctl::task
