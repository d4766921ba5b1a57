// Causal, masked and sequence-to-sequence language modeling: cross-entropy over the vocabulary for every token, for the
// masked ones, or for those of a target.
#include <ATen/core/grad_mode.h>

#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "kernels/linear_cross_entropy.h"
#include "task/choose_metrics.h"
#include "task/language_model_evaluation.h"
#include "task/micro_batch.h"
#include "task/target_rows.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

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
