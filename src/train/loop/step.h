// Exactly one optimizer update.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "train/loop/device_feed.h"
#include "train/loop/pipeline_pass.h"
#include "train/loop/step_graph.h"
#include "train/loop/stop_signal.h"
#include "train/monitor/step_result.h"
#include "train/run/run.h"

namespace trainctl::train {

enum class GradNorm { measure, only_to_clip };

struct Counts {
  double targets = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
};

class Step {
 public:
  /// `graph`: for train.graph: whole_step; null: the device's own.
  explicit Step(Run& run, std::unique_ptr<runtime::DeviceGraph> graph = nullptr);
  /// Micro-batches, backward, unscale, clip, update, average. Advances run.step and run.next_sample. Between
  /// micro-batches it asks what this rank was sent.
  StepResult operator()(GradNorm grad_norm, const SignalSource& received = {});
  /// Called before the ranks compute on a micro-batch together, on each with its own.
  std::function<void(const dataset::Batch&)> on_batch;
  /// Called when the step's gradients are whole, before they are clipped and the weights change.
  std::function<void()> on_gradients;
  /// The last micro-batch, for finding out what went wrong in it.
  const dataset::Batch& last_batch() const { return last_batch_; }
  /// The randomness of one micro-batch: dropout, mixup, cutmix. Seeds the device's generator.
  std::uint64_t seed_micro_batch(std::int64_t micro_batch) const;

 private:
  /// Micro-batch after micro-batch. Returns whether a signal ended the step before its last one.
  bool run_in_turn(StepResult& result);
  /// Through the stages of a pipeline, in the order of its schedule.
  void run_pipeline(StepResult& result);
  /// All of the step, or what is recorded of it.
  void run_by_graph(StepResult& result);
  void commit_statistics(std::int64_t micro_batch) const;
  std::optional<dataset::Batch> next_batch(StepResult& result);
  void forward_backward(const dataset::Batch& batch, std::int64_t micro_batch, distributed::Gradients gradients,
                        StepResult& result);
  task::MicroBatch prepare(const dataset::Batch& batch, std::uint64_t key) const;
  task::LossSum loss_of(const task::MicroBatch& micro_batch) const;
  std::vector<task::MicroBatch> prepare_all(StepResult& result);
  /// Forward and backward passes of prepared micro-batches, and the update. The host's numbers are a recording's.
  void compute(const std::vector<task::MicroBatch>& micro_batches, const at::Tensor& count, StepResult& result);
  Counts counts_of(const dataset::Batch& batch, double targets) const;
  Counts counts_of(const std::vector<task::MicroBatch>& micro_batches) const;
  void add_counts(const Counts& counts, StepResult& result) const;
  /// Adds a micro-batch of this and of all other ranks to the result; returns how many targets they have.
  double add_up(const task::LossSum& loss, const dataset::Batch& batch, StepResult& result);
  void update(GradNorm grad_norm, StepResult& result);
  /// `factor`: what gradients are still to be multiplied by; undefined: 1. `found_inf`: for the loss scaler.
  void update_parameters(const at::Tensor& factor, const at::Tensor& found_inf, const StepResult& result);
  void update_averages();
  void add_to_window(const StepResult& result);

  Run& run_;
  comm::Group& batch_ranks_;
  bool is_counted_;      // else another rank has the same tokens of the same samples
  bool counts_samples_;  // else another rank has other tokens of the same samples
  SignalSource received_;
  DeviceFeed feed_;
  dataset::Batch last_batch_;
  std::optional<PipelinePass> pipeline_;
  std::optional<StepGraph> graph_;
};

}  // namespace trainctl::train
