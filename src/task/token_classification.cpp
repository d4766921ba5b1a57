// Token classification: a class for each labeled token.
#include <ATen/ops/cross_entropy_loss.h>

#include "core/error.h"
#include "core/text.h"
#include "task/choose_metrics.h"
#include "task/micro_batch.h"
#include "task/target_rows.h"
#include "task/tasks.h"
#include "task/token_classification_evaluation.h"

namespace trainctl::task {
namespace {

class TokenClassification final : public Task {
 public:
  TokenClassification(const TokenClassificationConfig& config, std::int64_t num_classes, TeacherPtr teacher)
      : config_(config), num_classes_(num_classes), teacher_(std::move(teacher)) {}

  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override { return target_tokens(std::move(batch)); }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor logits = token_logits(model, micro_batch.input, num_classes_);
    const TargetRows rows = target_rows(logits, micro_batch.batch);
    const at::Tensor own = at::cross_entropy_loss(rows.hidden, rows.targets, /*weight=*/{}, at::Reduction::Sum,
                                                  /*ignore_index=*/-100, config_.label_smoothing);
    if (teacher_ == nullptr) return {.sum = own, .count = micro_batch.count};
    const at::Tensor wanted = teacher_->logits(micro_batch.input, micro_batch.batch.indices);
    return {.sum = teacher_->blend(own, only_target_rows(logits, micro_batch.batch).hidden,
                                   only_target_rows(wanted, micro_batch.batch).hidden),
            .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<TokenClassificationEvaluation>(model, num_classes_, spec.class_names,
                                                           chosen_metrics(config_, spec));
  }

 private:
  TokenClassificationConfig config_;
  std::int64_t num_classes_;
  TeacherPtr teacher_;
};

}  // namespace

at::Tensor token_logits(model::Model& model, const model::ModelInput& input, std::int64_t num_classes) {
  at::Tensor logits = model.forward(input);
  if (logits.dim() != 3)
    throw core::Error("the model gives a row for each sequence, but token_classification needs one for each token")
        .hint("model.head: token_classification");
  if (logits.size(2) != num_classes)
    throw core::Error("the model has " + core::format_count(logits.size(2)) + " outputs, but the dataset has " +
                      core::format_count(num_classes) + " classes")
        .hint("leave model.num_classes at auto");
  return logits;
}

std::unique_ptr<Task> build(const TokenClassificationConfig& config, const dataset::SampleSpec& spec,
                            TeacherPtr teacher) {
  if (spec.num_classes < 1) throw core::Error("token_classification needs classes, but the dataset has none");
  return std::make_unique<TokenClassification>(config, spec.num_classes, std::move(teacher));
}

}  // namespace trainctl::task
