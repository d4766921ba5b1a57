// A step's micro-batches on their way through the stages of a pipeline.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "pipeline/operations.h"
#include "task/task.h"
#include "train/run/run.h"

namespace trainctl::train {

/// What a pass needs of the step that it is part of.
struct PipelineHooks {
  /// Runs `compute` as a forward pass of the micro-batch: its random numbers are those of the samples.
  std::function<void(std::int64_t micro_batch, const std::function<void()>& compute)> forward;
  /// The loss of a micro-batch, which the last stage computes.
  std::function<at::Tensor(const task::MicroBatch& micro_batch)> loss;
  /// What the backward pass of a loss begins with.
  std::function<at::Tensor(const at::Tensor& loss)> scale;
};

/// Works through this rank's list of operations (pipeline::operations_of).
class PipelinePass {
 public:
  explicit PipelinePass(Run& run);

  /// Forward and backward passes of all micro-batches: .grad of the run's parameters is then complete. Returns the sum
  /// of the losses: double [], 0 on ranks without the last stage.
  at::Tensor operator()(const std::vector<task::MicroBatch>& micro_batches, const PipelineHooks& hooks);

  /// Runs an evaluation batch through this rank's stages. `finish` is called with the input of the last stage, on the
  /// rank that has it.
  void evaluate(const model::ModelInput& input, const std::function<void(const model::ModelInput&)>& finish);

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // stage and micro-batch

  /// What a stage keeps of a micro-batch from its forward pass to the end of its backward pass.
  struct Live {
    at::Tensor input;                                       // requires a gradient; undefined: the first stage's
    at::Tensor output;                                      // or the scaled loss
    model::DeferredWeightGradients::Work weight_gradients;  // between backward_input and backward_weight
  };
  struct Receipt {
    at::Tensor tensor;
    std::unique_ptr<comm::Work> work;
  };

  std::int64_t num_stages() const { return run_.stages->schedule.num_stages; }
  bool is_last(std::int64_t stage) const { return stage + 1 == num_stages(); }
  std::int64_t rank_of(std::int64_t stage) const { return run_.stages->ranks[static_cast<std::size_t>(stage)]; }
  const model::BlockRange& range(std::int64_t stage) const {
    return run_.stages->ranges[static_cast<std::size_t>(stage)];
  }

  const task::MicroBatch& micro_batch(std::int64_t number) const {
    return (*micro_batches_)[static_cast<std::size_t>(number)];
  }
  void forward(const pipeline::Action& action, const PipelineHooks& hooks);
  void backward(const pipeline::Action& action);
  /// The gradient of what the action's stage gave, from the stage after it.
  at::Tensor gradient_of(const pipeline::Action& action);
  void send(const pipeline::Operation& operation);
  void receive(const pipeline::Operation& operation);
  /// The tensor that `maker` made, once it is there.
  at::Tensor take(const pipeline::Action& maker);

  /// What a stage gives for a batch with these values: a tensor on no device. The two ranks tell each other the first
  /// time; both know it from then on.
  at::Tensor send_form(const at::Tensor& output, std::int64_t stage, const model::ModelInput& input, std::int64_t peer);
  at::Tensor receive_form(std::int64_t stage, const model::ModelInput& input, std::int64_t peer);

  Run& run_;
  comm::Group& row_;
  std::vector<pipeline::Operation> operations_;
  pipeline::Action last_backward_;                                // the last of the list
  const std::vector<task::MicroBatch>* micro_batches_ = nullptr;  // of the step under way
  std::map<Key, Live> live_;
  std::map<pipeline::Action, Receipt> received_;
  std::map<pipeline::Action, at::Tensor> made_;  // for another stage of this rank, or to be sent
  std::map<pipeline::Action, Receipt> sending_;
  /// By the stage that sends, and the sizes of the batch's inputs.
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, at::Tensor> forms_;
  at::Tensor loss_;
};

}  // namespace trainctl::train
