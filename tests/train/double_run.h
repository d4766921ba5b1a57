// A run in double precision, where equalities that rounding hides can be shown.
#pragma once

#include "train/run.h"

namespace trainctl::testing {

/// The same batches in double precision.
class DoubleLoader final : public Loader {
 public:
  explicit DoubleLoader(std::unique_ptr<Loader> inner) : inner_(std::move(inner)) {}
  std::optional<Batch> next() override {
    std::optional<Batch> batch = inner_->next();
    if (batch && batch->inputs.is_floating_point()) batch->inputs = batch->inputs.to(at::kDouble);
    return batch;
  }
  void seek(Position position) override { inner_->seek(position); }
  Position position() const override { return inner_->position(); }
  std::int64_t num_samples() const override { return inner_->num_samples(); }
  std::int64_t batches_per_epoch() const override { return inner_->batches_per_epoch(); }
  const SampleSpec& spec() const override { return inner_->spec(); }
  double last_wait_ms() const override { return inner_->last_wait_ms(); }
  LoaderStats take_stats() override { return inner_->take_stats(); }

 private:
  std::unique_ptr<Loader> inner_;
};

/// What lays the model over the ranks is built anew, by the run's config.
inline void make_double(Run& run) {
  run.model->visit_parameters(
      [](const std::string&, Slot& slot) { slot.value = slot.value.detach().to(at::kDouble).requires_grad_(true); });
  run.model->visit_buffers([](const std::string&, Slot& slot) {
    if (slot.value.is_floating_point()) slot.value = slot.value.to(at::kDouble);
  });
  run.parallel = build(run.experiment.distributed, run.parallel->group(), *run.model);
  run.parameters = run.parallel->optimized();
  run.optimizer = build(run.experiment.optimizer, run.parameters);
  run.data.train = std::make_unique<DoubleLoader>(std::move(run.data.train));
}

}  // namespace trainctl::testing
