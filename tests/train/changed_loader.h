// A loader whose batches a test has its way with.
#pragma once

#include <functional>
#include <memory>

#include "dataset/dataset.h"

namespace trainctl::testing {

class ChangedLoader final : public Loader {
 public:
  ChangedLoader(std::unique_ptr<Loader> inner, std::function<void(Batch&)> change)
      : inner_(std::move(inner)), change_(std::move(change)) {}
  std::optional<Batch> next() override {
    std::optional<Batch> batch = inner_->next();
    if (batch) change_(*batch);
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
  std::function<void(Batch&)> change_;
};

}  // namespace trainctl::testing
