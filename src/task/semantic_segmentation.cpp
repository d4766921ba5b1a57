// A class for each pixel: cross-entropy of each pixel that has one.
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>

#include "runtime/fake_tensor.h"
#include "task/choose_metrics.h"
#include "task/class_weights.h"
#include "task/micro_batch.h"
#include "task/segmentation_evaluation.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

class SemanticSegmentation final : public Task {
 public:
  SemanticSegmentation(SemanticSegmentationConfig config, std::int64_t num_classes, TeacherPtr teacher)
      : config_(std::move(config)),
        num_classes_(num_classes),
        weights_(config_.class_weights),
        teacher_(std::move(teacher)) {}

  /// Returns the number of pixels with a class, or the sum of the weights of their classes.
  std::optional<double> weight_of(const dataset::Batch& batch) const override {
    if (runtime::FakeTensorScope::is_active()) return std::nullopt;
    const at::Tensor targets = batch.targets.contiguous();
    std::vector<std::int64_t> pixels(static_cast<std::size_t>(num_classes_));
    const auto* const begin = targets.const_data_ptr<std::int64_t>();
    std::for_each(begin, begin + targets.numel(), [&](std::int64_t target) {
      if (target >= 0) ++pixels[static_cast<std::size_t>(target)];
    });
    double sum = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i)
      sum += static_cast<double>(pixels[i]) * (config_.class_weights.empty() ? 1 : config_.class_weights[i]);
    return sum;
  }

  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override {
    const auto num_pixels = static_cast<double>(batch.targets.numel());
    MicroBatch prepared = whole_samples(std::move(batch));
    prepared.count = prepared.batch.weight.value_or(num_pixels);
    return prepared;
  }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor& targets = micro_batch.batch.targets;
    const at::Tensor logits = pixel_logits(model, micro_batch.input, num_classes_, targets.sizes()).to(at::kFloat);
    const at::Tensor own = at::cross_entropy_loss(logits, targets, weights_.on(logits.device()), at::Reduction::Sum);
    if (teacher_ == nullptr) return {.sum = own, .count = micro_batch.count};
    const at::Tensor wanted = pixel_rows(teacher_->logits(micro_batch.input, micro_batch.batch.indices), targets);
    return {.sum = teacher_->blend(own, pixel_rows(logits, targets), wanted), .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<SegmentationEvaluation>(model, num_classes_, spec.class_names,
                                                    chosen_metrics(config_, spec));
  }

 private:
  /// Returns logits [B, C, H, W] as rows [B H W, C], all zeros where a pixel has no class: there is no loss.
  static at::Tensor pixel_rows(const at::Tensor& logits, const at::Tensor& targets) {
    return logits.mul(targets.ge(0).unsqueeze(1)).permute({0, 2, 3, 1}).flatten(0, 2);
  }

  SemanticSegmentationConfig config_;
  std::int64_t num_classes_;
  ClassWeights weights_;
  TeacherPtr teacher_;
};

}  // namespace

std::unique_ptr<Task> build(const SemanticSegmentationConfig& config, const dataset::SampleSpec& spec,
                            TeacherPtr teacher) {
  check_class_weights("task.class_weights", config.class_weights, spec);
  return std::make_unique<SemanticSegmentation>(config, spec.num_classes, std::move(teacher));
}

}  // namespace trainctl::task
