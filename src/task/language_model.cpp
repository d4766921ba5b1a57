// Causal, masked and sequence-to-sequence language modeling: cross-entropy over the vocabulary for every token, for the
// masked ones, or for those of a target.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "kernels/linear_cross_entropy.h"
#include "task/choose_metrics.h"
#include "task/micro_batch.h"
#include "task/target_rows.h"
#include "task/task.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

/// Loss, perplexity, bits per byte and accuracy of a language model on a set, summed on the device.
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

constexpr std::int64_t kLogitsAtOnce = 12 << 20;
constexpr std::int64_t kNoTarget = -100;
constexpr std::int64_t kMostShown = 256;  // sequences whose tokens' losses are shown, one for each batch

LanguageModelEvaluation::LanguageModelEvaluation(model::Model& model, std::vector<CausalLmMetric> metrics,
                                                 std::shared_future<double> bytes_per_token, std::int64_t chunk_size)
    : model_(model),
      metrics_(std::move(metrics)),
      counts_hits_(std::find(metrics_.begin(), metrics_.end(), CausalLmMetric::accuracy) != metrics_.end()),
      bytes_per_token_(std::move(bytes_per_token)),
      chunk_size_(chunk_size) {}

void LanguageModelEvaluation::add(const dataset::Batch& batch, const model::ModelInput& input) {
  const at::NoGradGuard no_grad;
  const at::Tensor sums = model_.forward_into_head(input, [&](model::VocabularyHead& head, const at::Tensor& hidden) {
    if (on_answers && num_shown_++ < kMostShown && head.part() == nullptr)
      on_answers(batch, first_row_losses(head, hidden, batch));
    return sum_and_hits(head, hidden, batch);
  });
  sums_ = count_ == 0 ? sums : sums_.add(sums);
  count_ += num_targets(batch);
}

void LanguageModelEvaluation::pool(Pool& pool) {
  if (count_ == 0) sums_ = at::zeros({2}, at::TensorOptions(pool.device()).dtype(at::kDouble));
  pool.sum(count_);
  pool.sum(sums_);
}

/// Returns the loss sum and the number of hits: [2], double.
at::Tensor LanguageModelEvaluation::sum_and_hits(model::VocabularyHead& head, const at::Tensor& hidden,
                                                 const dataset::Batch& batch) {
  const TargetRows rows = only_target_rows(hidden, batch);
  // A head with a layer override has no float matrix to process in chunks.
  if (!counts_hits_ && head.stand_in() == nullptr) {
    const at::Tensor sum = kernels::linear_cross_entropy(
        head.features(rows.hidden), head.weight(), head.bias(), rows.targets,
        {.chunk_size = chunk_size_, .part = head.part(), .softcap = head.logit_softcap()});
    return at::stack({sum.to(at::kDouble), at::zeros({}, sum.options().dtype(at::kDouble))});
  }
  const std::int64_t fitting = std::max<std::int64_t>(1, kLogitsAtOnce / head.vocabulary_size());
  const std::int64_t step = chunk_size_ > 0 ? chunk_size_ : fitting;
  at::Tensor sums = at::zeros({2}, rows.hidden.options().dtype(at::kDouble));
  for (std::int64_t begin = 0; begin < rows.targets.size(0); begin += step) {
    const std::int64_t size = std::min(step, rows.targets.size(0) - begin);
    const at::Tensor targets = rows.targets.narrow(0, begin, size);
    const at::Tensor logits = head.forward(rows.hidden.narrow(0, begin, size)).to(at::kFloat);
    sums[0] += at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::Sum);
    sums[1] += logits.argmax(1).eq(targets).sum();
  }
  return sums;
}

/// Returns the losses of the tokens of the batch's first sequence: float [1, T], NaN for a token without a target.
at::Tensor LanguageModelEvaluation::first_row_losses(model::VocabularyHead& head, const at::Tensor& hidden,
                                                     const dataset::Batch& batch) const {
  const at::Tensor targets = batch.targets[0];  // [T]
  at::Tensor losses = at::zeros({1, targets.size(0)}, hidden.options().dtype(at::kFloat));
  const std::int64_t step = std::max<std::int64_t>(1, kLogitsAtOnce / head.vocabulary_size());
  for (std::int64_t begin = 0; begin < targets.size(0); begin += step) {
    const std::int64_t size = std::min(step, targets.size(0) - begin);
    const at::Tensor logits = head.forward(hidden[0].narrow(0, begin, size)).to(at::kFloat);
    losses[0]
        .narrow(0, begin, size)
        .copy_(at::cross_entropy_loss(logits, targets.narrow(0, begin, size), /*weight=*/{}, at::Reduction::None));
  }
  return losses.masked_fill_(targets.eq(kNoTarget), std::numeric_limits<float>::quiet_NaN());
}

double LanguageModelEvaluation::value_of(CausalLmMetric metric, double loss, double hits) const {
  switch (metric) {
    case CausalLmMetric::perplexity:
      return std::exp(loss);
    case CausalLmMetric::bits_per_byte:
      return loss / std::numbers::ln2 / bytes_per_token_.get();
    case CausalLmMetric::accuracy:
      return hits;
  }
  return 0;
}

Metrics LanguageModelEvaluation::metrics() {
  if (count_ == 0) return {};
  const at::Tensor sums = sums_.cpu();
  const auto mean = [&](std::int64_t i) { return sums[i].item<double>() / static_cast<double>(count_); };
  Metrics metrics{{"loss", mean(0)}};
  for (const CausalLmMetric metric : metrics_)
    metrics.emplace_back(config::name_of(metric), value_of(metric, mean(0), mean(1)));
  return metrics;
}

std::string LanguageModelEvaluation::details() {
  return count_ == 0 ? "" : "{\"num_tokens\": " + std::to_string(count_) + "}";
}

std::string networks_with(model::Output output) {
  return core::list_words(
      model::kinds_where([&](const model::ModelTraits& traits) { return traits.outputs.value.contains(output); }),
      "or");
}

std::vector<CausalLmMetric> evaluated(std::vector<CausalLmMetric> metrics) {
  return metrics;
}

/// The metrics of a task that has no bits per byte.
template <class Metric>
std::vector<CausalLmMetric> evaluated(const std::vector<Metric>& chosen) {
  std::vector<CausalLmMetric> metrics;
  for (const Metric metric : chosen)
    metrics.push_back(metric == Metric::perplexity ? CausalLmMetric::perplexity : CausalLmMetric::accuracy);
  return metrics;
}

/// Causal, masked or sequence-to-sequence.
template <class Config>
class LanguageModel final : public Task {
 public:
  LanguageModel(const Config& config, TeacherPtr teacher)
      : config_(config),
        options_({.label_smoothing = config.label_smoothing, .chunk_size = config.loss_chunk_size.value.value_or(0)}),
        teacher_(std::move(teacher)) {}

  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override { return target_tokens(std::move(batch)); }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    require_vocabulary_head(model);
    const std::optional<kernels::LinearTeacher> teacher = teacher_rows(micro_batch);
    const at::Tensor sum =
        model.forward_into_head(micro_batch.input, [&](model::VocabularyHead& head, const at::Tensor& hidden) {
          const TargetRows rows = target_rows(hidden, micro_batch.batch);
          kernels::LinearCrossEntropyOptions options = options_;
          options.part = head.part();
          options.softcap = head.logit_softcap();
          options.teacher = teacher ? &*teacher : nullptr;
          return kernels::linear_cross_entropy(head.features(rows.hidden), head.weight(), head.bias(), rows.targets,
                                               options);
        });
    return {.sum = sum, .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    require_vocabulary_head(model);
    return std::make_unique<LanguageModelEvaluation>(model, evaluated(chosen_metrics(config_, spec)),
                                                     spec.bytes_per_token, options_.chunk_size);
  }

 private:
  /// Returns what the teacher's head multiplies, for the rows that the loss is of.
  std::optional<kernels::LinearTeacher> teacher_rows(const MicroBatch& micro_batch) const {
    if (teacher_ == nullptr) return std::nullopt;
    const TargetRows rows = target_rows(teacher_->hidden(micro_batch.input), micro_batch.batch);
    const at::NoGradGuard no_grad;
    model::VocabularyHead& head = teacher_->head();
    return kernels::LinearTeacher{.hidden = head.features(rows.hidden),
                                  .weight = head.weight(),
                                  .bias = head.bias(),
                                  .softcap = head.logit_softcap(),
                                  .temperature = teacher_->temperature(),
                                  .share = teacher_->weight()};
  }

  static void require_vocabulary_head(model::Model& model) {
    if (model.vocabulary_head() == nullptr)
      throw core::Error("the model gives no logits over the vocabulary, which a language model needs")
          .hint("next tokens: " + networks_with(model::Output::next_tokens) +
                "; masked tokens: " + networks_with(model::Output::masked_tokens) +
                " with model.head: masked_lm; a target's tokens: " + networks_with(model::Output::target_tokens));
  }

  Config config_;
  kernels::LinearCrossEntropyOptions options_;
  TeacherPtr teacher_;
};

}  // namespace

std::unique_ptr<Task> build(const CausalLmConfig& config, const dataset::SampleSpec&, TeacherPtr teacher) {
  return std::make_unique<LanguageModel<CausalLmConfig>>(config, std::move(teacher));
}

std::unique_ptr<Task> build(const MaskedLmConfig& config, const dataset::SampleSpec&, TeacherPtr teacher) {
  return std::make_unique<LanguageModel<MaskedLmConfig>>(config, std::move(teacher));
}

std::unique_ptr<Task> build(const Seq2SeqLmConfig& config, const dataset::SampleSpec&, TeacherPtr teacher) {
  return std::make_unique<LanguageModel<Seq2SeqLmConfig>>(config, std::move(teacher));
}

}  // namespace trainctl::task
