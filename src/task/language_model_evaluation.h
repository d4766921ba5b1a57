// Loss, perplexity, bits per byte and accuracy of a language model on a set, summed on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "task/task.h"

namespace trainctl::task {

class LanguageModelEvaluation final : public Evaluation {
 public:
  /// bytes_per_token: invalid if it isn't known. chunk_size: 0 chooses.
  LanguageModelEvaluation(model::Model& model, std::vector<CausalLmMetric> metrics,
                          std::shared_future<double> bytes_per_token, std::int64_t chunk_size);

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// The loss (nats for each token, without label smoothing) and the chosen metrics.
  Metrics metrics() override;
  std::string details() override;

 private:
  double value_of(CausalLmMetric metric, double loss, double hits) const;
  at::Tensor sum_and_hits(model::VocabularyHead& head, const at::Tensor& hidden, const dataset::Batch& batch);

  at::Tensor first_row_losses(model::VocabularyHead& head, const at::Tensor& hidden, const dataset::Batch& batch) const;

  model::Model& model_;
  std::vector<CausalLmMetric> metrics_;
  bool counts_hits_;  // which takes logits
  std::shared_future<double> bytes_per_token_;
  std::int64_t chunk_size_;
  std::int64_t count_ = 0;
  std::int64_t num_shown_ = 0;
  at::Tensor sums_;  // [2], double: losses, hits
};

}  // namespace trainctl::task
