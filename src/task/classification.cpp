// Classification with one label per sample, for images or texts.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/log_softmax.h>

#include "core/error.h"
#include "core/text.h"
#include "runtime/fake_tensor.h"
#include "task/choose_metrics.h"
#include "task/class_weights.h"
#include "task/classification_evaluation.h"
#include "task/micro_batch.h"
#include "task/mixing.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

constexpr double kSure = 1e-8;  // 1 - p at least in the focal loss: a power below one has no gradient at 0

class Classification final : public Task {
 public:
  Classification(const ClassificationConfig& config, std::int64_t num_classes, ClassWeights weights, TeacherPtr teacher)
      : config_(config), num_classes_(num_classes), weights_(std::move(weights)), teacher_(std::move(teacher)) {}

  std::optional<double> weight_of(const dataset::Batch& batch) const override {
    if (weights_.empty() || runtime::FakeTensorScope::is_active()) return std::nullopt;
    const at::Tensor targets = batch.targets.contiguous();
    double sum = 0;
    for (std::int64_t i = 0; i < targets.numel(); ++i) sum += weights_[targets.const_data_ptr<std::int64_t>()[i]];
    return sum;
  }

  MicroBatch prepare(dataset::Batch batch, std::uint64_t key) const override {
    MicroBatch prepared = whole_samples(std::move(batch));
    if (config_.mixup == 0 && config_.cutmix == 0) return prepared;
    const Mixed mixed = mix_images(prepared.batch.inputs, key);
    prepared.input = {.values = mixed.images};
    prepared.share = mixed.share;
    return prepared;
  }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor logits = logits_of(model, micro_batch.input);
    const at::Tensor own = loss_of_targets(logits, micro_batch);
    if (teacher_ == nullptr) return {.sum = own, .count = micro_batch.count};
    return {.sum = teacher_->blend(own, logits, teacher_->logits(micro_batch.input, micro_batch.batch.indices)),
            .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<ClassificationEvaluation>(model, num_classes_, spec.class_names,
                                                      chosen_metrics(config_, spec));
  }

 private:
  at::Tensor loss_of_targets(const at::Tensor& logits, const MicroBatch& micro_batch) const {
    const at::Tensor& targets = micro_batch.batch.targets;
    const at::Tensor own = cross_entropy(logits, targets);
    if (config_.mixup == 0 && config_.cutmix == 0) return own;
    const at::Tensor other = cross_entropy(logits, roll_by_one(targets));
    return own.mul(micro_batch.share).add(other, 1 - micro_batch.share);
  }

  at::Tensor logits_of(model::Model& model, const model::ModelInput& input) const {
    at::Tensor logits = model.forward(input);  // [B, num_classes]
    if (logits.dim() != 2 || logits.size(1) != num_classes_)
      throw core::Error("the model has " + core::format_count(logits.size(-1)) + " outputs, but the dataset has " +
                        core::format_count(num_classes_) + " classes")
          .hint("leave model.num_classes at auto");
    return logits;
  }

  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) const {
    if (config_.focal_gamma > 0) return focal_loss(logits, targets);
    if (weights_.empty())
      return at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::Sum, /*ignore_index=*/-100,
                                    config_.label_smoothing);
    return at::cross_entropy_loss(logits.to(at::kFloat), targets, weights_.on(logits.device()), at::Reduction::Sum,
                                  /*ignore_index=*/-100, config_.label_smoothing);
  }

  /// Returns the sum of -w (1 - p)^gamma log p, p being the probability of a sample's class, w the weight of the class.
  at::Tensor focal_loss(const at::Tensor& logits, const at::Tensor& targets) const {
    const at::Tensor log_p = at::log_softmax(logits.to(at::kFloat), 1).gather(1, targets.unsqueeze(1)).squeeze(1);
    const at::Tensor focus = log_p.expm1().neg().clamp_min(kSure).pow(config_.focal_gamma);
    at::Tensor loss = log_p.mul(focus).neg();
    if (!weights_.empty()) loss = loss.mul(weights_.on(logits.device()).index_select(0, targets));
    return loss.sum();
  }

  Mixed mix_images(const at::Tensor& images, std::uint64_t key) const {
    runtime::Random random(key);
    const bool both = config_.mixup > 0 && config_.cutmix > 0;
    const bool blend = both ? random.uniform() < 0.5 : config_.mixup > 0;
    return blend ? mixup(images, config_.mixup, random) : cutmix(images, config_.cutmix, random);
  }

  ClassificationConfig config_;
  std::int64_t num_classes_;
  ClassWeights weights_;
  TeacherPtr teacher_;
};

std::vector<double> class_weights(const ClassificationConfig& config, const dataset::SampleSpec& spec) {
  check_class_weights("task.class_weights", config.class_weights, spec);
  if (config.class_weighting == ClassWeighting::none) return config.class_weights;
  if (spec.class_counts.empty())
    throw core::Error(
        "task.class_weighting: balanced needs the number of samples of each class, which this dataset "
        "doesn't tell before it reads them")
        .hint("list the weights in task.class_weights");
  double samples = 0;
  for (const std::int64_t count : spec.class_counts) samples += static_cast<double>(count);
  std::vector<double> weights;
  for (const std::int64_t count : spec.class_counts)  // a class without samples is never weighed
    weights.push_back(count == 0 ? 1 : samples / (static_cast<double>(spec.num_classes) * static_cast<double>(count)));
  return weights;
}

}  // namespace

std::unique_ptr<Task> build(const ClassificationConfig& config, const dataset::SampleSpec& spec, TeacherPtr teacher) {
  if (spec.num_classes < 1)
    throw core::Error("classification needs labels, but the dataset's number of classes is unknown")
        .hint("set dataset.num_classes");
  if ((config.mixup > 0 || config.cutmix > 0) && !spec.is_image())
    throw core::Error("mixup and cutmix blend images, but the dataset's samples are no images")
        .hint("set task.mixup and task.cutmix to 0");
  return std::make_unique<Classification>(config, spec.num_classes, ClassWeights(class_weights(config, spec)),
                                          std::move(teacher));
}

}  // namespace trainctl::task
