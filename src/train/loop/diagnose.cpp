#include "train/loop/diagnose.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include "runtime/sample_randomness.h"
#include "task/model_input.h"

namespace trainctl::train {
namespace {

bool all_finite(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || tensor.isfinite().all().item<bool>();
}

}  // namespace

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

}  // namespace trainctl::train
