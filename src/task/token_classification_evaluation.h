// Metrics of classes of tokens; of whole spans, too, where the classes are tags.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "task/class_counts.h"
#include "task/spans.h"
#include "task/task.h"

namespace trainctl::task {

/// [B, T, num_classes]; a model that gives anything else is an Error.
at::Tensor token_logits(model::Model& model, const model::ModelInput& input, std::int64_t num_classes);

class TokenClassificationEvaluation final : public Evaluation {
 public:
  TokenClassificationEvaluation(model::Model& model, std::int64_t num_classes,
                                const std::vector<std::string>& class_names,
                                std::vector<TokenClassificationMetric> metrics);

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// The loss and the chosen metrics. Those of spans are of all spans together, as seqeval's micro average.
  Metrics metrics() override;
  /// {"num_tokens": N, per class as classification says}.
  std::string details() override;

 private:
  /// One batch's tokens with a target, on the device.
  struct Part {
    at::Tensor rows;       // int64 [N]: the sequence of the batch that a token is of
    at::Tensor targets;    // int64 [N]
    at::Tensor predicted;  // int64 [N]
  };
  /// Spans of all sequences.
  struct SpanCounts {
    std::size_t labeled = 0;
    std::size_t predicted = 0;
    std::size_t hits = 0;
  };
  ClassCounts counts() const;
  SpanCounts span_counts() const;
  double value_of(TokenClassificationMetric metric, const ClassCounts& classes, const SpanCounts& spans) const;

  model::Model& model_;
  std::int64_t num_classes_;
  std::vector<std::string> class_names_;
  std::optional<std::vector<Tag>> tags_;
  std::vector<TokenClassificationMetric> metrics_;
  std::int64_t count_ = 0;
  at::Tensor loss_;  // [], double
  std::vector<Part> parts_;
};

}  // namespace trainctl::task
