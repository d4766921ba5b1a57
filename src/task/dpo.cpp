// Direct preference optimisation (https://arxiv.org/abs/2305.18290).
#include <ATen/core/grad_mode.h>

#include "core/error.h"
#include "runtime/fake_tensor.h"
#include "runtime/span.h"
#include "task/choose_metrics.h"
#include "task/dpo_evaluation.h"
#include "task/micro_batch.h"
#include "task/preference_pairs.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

class Dpo final : public Task {
 public:
  Dpo(DpoConfig config, std::shared_ptr<model::Model> reference)
      : config_(std::move(config)), reference_(std::move(reference)) {}

  /// Returns the number of pairs, each of which counts as one.
  std::optional<double> weight_of(const dataset::Batch& batch) const override {
    if (runtime::FakeTensorScope::is_active()) return std::nullopt;
    return static_cast<double>(num_pairs(batch));
  }
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override { return whole_samples(std::move(batch)); }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const AnswerSums reference = sums_of_reference(micro_batch);
    const AnswerSums policy = answer_sums(model, micro_batch.input, micro_batch.batch, chunk_size());
    return {.sum = score_pairs(config_, policy, reference).losses.sum(), .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    require_reference();
    return std::make_unique<DpoEvaluation>(
        model, reference_,
        DpoEvaluation::Options{
            .config = config_, .metrics = chosen_metrics(config_, spec), .chunk_size = chunk_size()});
  }

 private:
  std::int64_t chunk_size() const { return config_.loss_chunk_size.value.value_or(0); }

  AnswerSums sums_of_reference(const MicroBatch& micro_batch) const {
    require_reference();
    const runtime::Span span("reference");
    const at::NoGradGuard no_grad;
    return answer_sums(*reference_, whole_input(micro_batch.input), micro_batch.batch, chunk_size());
  }

  void require_reference() const {
    if (reference_ == nullptr)
      throw core::Error("dpo compares with a reference, and none was named")
          .hint("set model.init_from, or task.reference");
  }

  DpoConfig config_;
  std::shared_ptr<model::Model> reference_;
};

}  // namespace

std::unique_ptr<Task> build(const DpoConfig& config, const dataset::SampleSpec&,
                            std::shared_ptr<model::Model> reference) {
  return std::make_unique<Dpo>(config, std::move(reference));
}

}  // namespace trainctl::task
