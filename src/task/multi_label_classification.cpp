// Several labels per sample: binary cross-entropy of each label by itself.
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/tensor.h>

#include "core/error.h"
#include "core/text.h"
#include "task/choose_metrics.h"
#include "task/micro_batch.h"
#include "task/multi_label_evaluation.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

class MultiLabelClassification final : public Task {
 public:
  MultiLabelClassification(MultiLabelClassificationConfig config, std::int64_t num_classes)
      : config_(std::move(config)), num_classes_(num_classes) {}

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
                                                    /*weight=*/{}, pos_weight_on(logits.device()), at::Reduction::Sum),
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
  const at::Tensor& pos_weight_on(c10::Device device) const {
    if (!config_.pos_weight.empty() && (!pos_weight_.defined() || pos_weight_.device() != device))
      pos_weight_ = at::tensor(config_.pos_weight, at::kFloat).to(device);
    return pos_weight_;
  }

  MultiLabelClassificationConfig config_;
  std::int64_t num_classes_;
  mutable at::Tensor pos_weight_;  // float [num_classes], made when the device is known; undefined: all are 1
};

}  // namespace

std::unique_ptr<Task> build(const MultiLabelClassificationConfig& config, const dataset::SampleSpec& spec) {
  if (!config.pos_weight.empty() && std::ssize(config.pos_weight) != spec.num_classes)
    throw core::Error("task.pos_weight has " + core::format_count(config.pos_weight.size()) +
                      " weights, and the dataset has " + core::format_count(spec.num_classes) +
                      " classes: " + core::list_words(spec.class_names));
  return std::make_unique<MultiLabelClassification>(config, spec.num_classes);
}

}  // namespace trainctl::task
