// Small runs for the tests of the training loop.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "support/temporary_directory.h"
#include "train/run/run.h"

namespace trainctl::testing {

/// 8×8 images of 4 classes, a small cnn with BatchNorm and dropout, adamw, batches of 32.
inline experiment::Experiment small_experiment() {
  experiment::Experiment experiment;
  experiment.name = "small";
  experiment.seed = 7;
  experiment.device.kind = runtime::DeviceKind::cpu;
  experiment.dataset.source = dataset::SyntheticImagesConfig{
      .num_samples = 256, .num_eval_samples = 64, .channels = 1, .height = 8, .width = 8, .num_classes = 4};
  experiment.dataset.batch_size = 32;
  experiment.dataset.num_workers = std::int64_t{0};
  experiment.model.network = model::CnnConfig{.channels = {4, 8}, .batch_norm = true, .hidden = 16, .dropout = 0.2};
  experiment.train.steps = 16;
  experiment.train.log_every = 4;
  return experiment;
}

inline std::unique_ptr<train::Run> build_run(const experiment::Experiment& experiment) {
  std::vector<tracking::Notice> notices;
  return train::build(experiment, notices);
}

/// Remembers everything it hears, also from the thread that writes a checkpoint.
class EventLog final : public tracking::Sink {
 public:
  void on(const tracking::Event& event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  template <class T>
  std::vector<T> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<T> found;
    for (const tracking::Event& event : events_)
      if (const T* one = std::get_if<T>(&event)) found.push_back(*one);
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<tracking::Event> events_;
};

/// Every parameter and buffer, copied.
inline std::vector<at::Tensor> weights_of(train::Run& run) {
  std::vector<at::Tensor> weights;
  for (const model::NamedTensor& named : model::named_parameters(*run.model))
    weights.push_back(named.tensor.detach().clone());
  for (const model::NamedTensor& named : model::named_buffers(*run.model)) weights.push_back(named.tensor.clone());
  return weights;
}

inline double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, (a[i].to(at::kDouble).sub(b[i].to(at::kDouble))).abs().max().item<double>());
  return largest;
}

}  // namespace trainctl::testing
