// Several labels per sample: binary cross-entropy of each label by itself.
#include <ATen/ops/binary_cross_entropy_with_logits.h>

#include "task/choose_metrics.h"
#include "task/class_weights.h"
#include "task/micro_batch.h"
#include "task/multi_label_evaluation.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

class MultiLabelClassification final : public Task {
 public:
  MultiLabelClassification(MultiLabelClassificationConfig config, std::int64_t num_classes)
      : config_(std::move(config)), num_classes_(num_classes), pos_weight_(config_.pos_weight) {}

  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }

  /// The loss is a sum over samples and labels.
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override {
    MicroBatch prepared = whole_samples(std::move(batch));
    prepared.count *= static_cast<double>(num_classes_);
    return prepared;
  }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor logits = label_logits(model, micro_batch.input, num_classes_).to(at::kFloat);
    return {
        .sum = at::binary_cross_entropy_with_logits(logits, micro_batch.batch.targets.to(at::kFloat),
                                                    /*weight=*/{}, pos_weight_.on(logits.device()), at::Reduction::Sum),
        .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<MultiLabelEvaluation>(
        model, MultiLabelEvaluation::Options{.num_classes = num_classes_,
                                             .class_names = spec.class_names,
                                             .metrics = chosen_metrics(config_, spec),
                                             .threshold = config_.threshold});
  }

 private:
  MultiLabelClassificationConfig config_;
  std::int64_t num_classes_;
  ClassWeights pos_weight_;
};

}  // namespace

std::unique_ptr<Task> build(const MultiLabelClassificationConfig& config, const dataset::SampleSpec& spec) {
  check_class_weights("task.pos_weight", config.pos_weight, spec);
  return std::make_unique<MultiLabelClassification>(config, spec.num_classes);
}

}  // namespace trainctl::task
