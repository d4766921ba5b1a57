#include "train/loop/non_finite.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include "core/error.h"
#include "core/text.h"
#include "runtime/sample_randomness.h"
#include "task/task.h"

namespace trainctl::train {
namespace {

bool all_finite(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || tensor.isfinite().all().item<bool>();
}

/// Returns the name of the first value that isn't finite ("the output of layer1.0"). Repeats the forward pass of the
/// step's last micro-batch, which changes BatchNorm's running statistics: the run ends or rolls back afterwards.
std::string first_non_finite(Run& run, const Step& step) {
  const at::NoGradGuard no_grad;
  const dataset::Batch& batch = step.last_batch();
  if (batch.size() > 0 && !all_finite(batch.inputs)) return "the batch itself";
  for (const optimizer::OptimizedParameter& parameter : run.parameters)
    if (!all_finite(parameter.tensor)) return "the parameter " + parameter.name;
  std::string first;
  const model::BlockRunner usual = run.model->block_runner();
  run.model->set_block_runner(
      [&](const model::Block& block, const at::Tensor& input, const model::SequenceContext& context) {
        at::Tensor output = usual ? usual(block, input, context) : block.forward(input, context);
        if (first.empty() && !all_finite(output)) first = "the output of " + block.name;
        return output;
      });
  const amp::Autocast autocast = run.autocast();
  const runtime::SampleRandomness randomness(
      {.seed = run.seed(), .epoch = batch.epoch, .first_sample = batch.first_sample});
  if (batch.size() > 0) run.model->forward(task::model_input(batch));
  run.model->set_block_runner(usual);
  return first.empty() ? "the loss or a gradient; every block's output is finite" : first;
}

}  // namespace

AfterNonFinite handle_non_finite(Run& run, const Step& step, const StepResult& result, tracking::Sink& sink) {
  if (result.non_finite.item<float>() == 0) return AfterNonFinite::go_on;
  const TrainConfig& config = run.experiment.train;
  const std::string what = "the loss or its gradient is not finite at step " + core::format_count(run.step);
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
