// A loader whose batches a test has its way with.
#pragma once

#include <functional>
#include <memory>

#include "dataset/dataset.h"

namespace trainctl::testing {

class ChangedLoader final : public dataset::Loader {
 public:
  ChangedLoader(std::unique_ptr<dataset::Loader> inner, std::function<void(dataset::Batch&)> change)
      : inner_(std::move(inner)), change_(std::move(change)) {}
  std::optional<dataset::Batch> next() override {
    std::optional<dataset::Batch> batch = inner_->next();
    if (batch) change_(*batch);
    return batch;
  }
  void seek(dataset::Position position) override { inner_->seek(position); }
  dataset::Position position() const override { return inner_->position(); }
  std::int64_t num_samples() const override { return inner_->num_samples(); }
  std::int64_t batches_per_epoch() const override { return inner_->batches_per_epoch(); }
  const dataset::SampleSpec& spec() const override { return inner_->spec(); }
  double last_wait_ms() const override { return inner_->last_wait_ms(); }
  dataset::LoaderStats take_stats() override { return inner_->take_stats(); }

 private:
  std::unique_ptr<dataset::Loader> inner_;
  std::function<void(dataset::Batch&)> change_;
};

}  // namespace trainctl::testing
