// Classification with one label per sample, for images or texts.
#include <ATen/ops/cross_entropy_loss.h>

#include "core/error.h"
#include "core/text.h"
#include "task/classification_evaluation.h"
#include "task/micro_batch.h"
#include "task/mixing.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

class Classification final : public Task {
 public:
  Classification(const ClassificationConfig& config, std::int64_t num_classes)
      : config_(config), num_classes_(num_classes) {}

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
    const at::Tensor& targets = micro_batch.batch.targets;
    const at::Tensor own = cross_entropy(logits, targets);
    if (config_.mixup == 0 && config_.cutmix == 0) return {.sum = own, .count = micro_batch.count};
    const at::Tensor other = cross_entropy(logits, roll_by_one(targets));
    return {.sum = own.mul(micro_batch.share).add(other, 1 - micro_batch.share), .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<ClassificationEvaluation>(model, num_classes_, spec.class_names);
  }

 private:
  at::Tensor logits_of(model::Model& model, const model::ModelInput& input) const {
    at::Tensor logits = model.forward(input);  // [B, num_classes]
    if (logits.dim() != 2 || logits.size(1) != num_classes_)
      throw core::Error("the model has " + core::format_count(logits.size(-1)) + " outputs, but the dataset has " +
                        core::format_count(num_classes_) + " classes")
          .hint("leave model.num_classes at auto");
    return logits;
  }

  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) const {
    return at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::Sum, /*ignore_index=*/-100,
                                  config_.label_smoothing);
  }

  Mixed mix_images(const at::Tensor& images, std::uint64_t key) const {
    runtime::Random random(key);
    const bool both = config_.mixup > 0 && config_.cutmix > 0;
    const bool blend = both ? random.uniform() < 0.5 : config_.mixup > 0;
    return blend ? mixup(images, config_.mixup, random) : cutmix(images, config_.cutmix, random);
  }

  ClassificationConfig config_;
  std::int64_t num_classes_;
};

}  // namespace

std::unique_ptr<Task> build(const ClassificationConfig& config, const dataset::SampleSpec& spec) {
  if (spec.num_classes < 1)
    throw core::Error("classification needs labels, but the dataset's number of classes is unknown")
        .hint("set dataset.num_classes");
  if ((config.mixup > 0 || config.cutmix > 0) && !spec.is_image())
    throw core::Error("mixup and cutmix blend images, but the dataset's samples are no images")
        .hint("set task.mixup and task.cutmix to 0");
  return std::make_unique<Classification>(config, spec.num_classes);
}

}  // namespace trainctl::task
