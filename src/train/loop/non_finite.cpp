#include "train/loop/non_finite.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>

#include <algorithm>
#include <utility>

#include "checkpoint/gather_texts.h"
#include "core/error.h"
#include "core/text.h"
#include "runtime/sample_randomness.h"
#include "task/task.h"
#include "train/loop/device_feed.h"

namespace trainctl::train {
namespace {

bool all_finite(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || tensor.isfinite().all().item<bool>();
}

/// Returns the name of the first value of this rank that isn't finite ("the output of layer1.0"); "" if there is none.
/// Repeats the forward pass of the step's last micro-batch, which changes BatchNorm's running statistics: the run ends
/// or rolls back afterwards. A rank without samples computes on a placeholder, because ranks gather weights together.
std::string own_non_finite(Run& run, const Step& step) {
  const at::NoGradGuard no_grad;
  const dataset::Batch& batch = step.last_batch();
  std::string first;
  if (batch.size() > 0 && !all_finite(batch.inputs)) first = "the batch itself";
  for (const optimizer::OptimizedParameter& parameter : run.parameters)
    if (first.empty() && !all_finite(parameter.tensor)) first = "the parameter " + parameter.name;
  if (run.stages) return first;  // a stage's blocks read what the stage before gives
  const model::BlockRunner usual = run.model->block_runner();
  run.model->set_block_runner(
      [&](const model::Block& block, const at::Tensor& input, const model::SequenceContext& context) {
        at::Tensor output = usual ? usual(block, input, context) : block.forward(input, context);
        if (first.empty() && batch.size() > 0 && !all_finite(output)) first = "the output of " + block.name;
        return output;
      });
  const amp::Autocast autocast = run.autocast();
  const runtime::SampleRandomness randomness(
      {.seed = run.seed(), .epoch = batch.epoch, .first_sample = batch.first_sample});
  run.model->forward(task::model_input(batch.size() > 0 ? batch : placeholder(batch)));
  run.model->set_block_runner(usual);
  return first;
}

/// Returns the name that the first rank with one has. All ranks call it.
std::string first_non_finite(Run& run, const Step& step) {
  const std::vector<std::string> names = checkpoint::gather_texts(run.mesh->world(), own_non_finite(run, step));
  const auto found = std::ranges::find_if(names, [](const std::string& name) { return !name.empty(); });
  if (found == names.end()) return "the loss or a gradient; the blocks' outputs for the last micro-batch are finite";
  if (names.size() == 1) return *found;
  return *found + " of rank " + std::to_string(found - names.begin());
}

}  // namespace

void NonFiniteSteps::add(const StepResult& result) {
  any_ = any_.defined() ? at::maximum(any_, result.non_finite) : result.non_finite.clone();
  ++count_;
}

std::int64_t NonFiniteSteps::take() {
  const bool is_one = any_.defined() && any_.item<float>() != 0;
  any_.reset();
  return std::exchange(count_, 0) * (is_one ? 1 : 0);
}

AfterNonFinite handle_non_finite(Run& run, const Step& step, std::int64_t num_steps, tracking::Sink& sink) {
  if (num_steps == 0) return AfterNonFinite::go_on;
  const TrainConfig& config = run.experiment.train;
  const std::string first_step =
      num_steps == 1 ? "" : "one of the steps " + core::format_count(run.step - num_steps + 1) + " to ";
  const std::string what = "the loss or its gradient is not finite at " + (first_step.empty() ? "step " : first_step) +
                           core::format_count(run.step);
  if (config.on_non_finite == NonFinite::skip) {
    sink.on(tracking::Notice{tracking::Level::warning, what + "; its update is skipped"});
    return AfterNonFinite::go_on;
  }
  const std::string where = first_non_finite(run, step);
  if (config.on_non_finite == NonFinite::stop || run.num_rollbacks == config.max_rollbacks)
    throw core::Error(what + ": first in " + where)
        .hint(config.on_non_finite == NonFinite::stop
                  ? "lower optimizer.lr, set optimizer.clip_norm, or choose train.on_non_finite: skip or rollback"
                  : "train.max_rollbacks is reached; lower optimizer.lr or set optimizer.clip_norm");
  sink.on(tracking::Notice{tracking::Level::warning, what + ": first in " + where});
  return AfterNonFinite::roll_back;
}

}  // namespace trainctl::train
