#include "train/loop/coordinate_check.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "train/loop/own_tokens.h"
#include "train/loop/step.h"

namespace trainctl::train {
namespace {

/// Returns the experiment at a width, without what would change the sizes or the blocks.
experiment::Experiment at_one_width(experiment::Experiment experiment, std::int64_t width, std::int64_t seed,
                                    std::int64_t steps) {
  experiment.model.network = model::at_width(experiment.model.network, width);
  experiment.model.init_from = std::nullopt;
  experiment.seed += seed;
  experiment.optimizer.lr_scheduler = {};
  experiment.optimizer.ema = std::nullopt;
  experiment.distributed.how = distributed::NotDistributedConfig{};
  experiment.activation_checkpointing = {};
  experiment.quantization.training = {};
  experiment.train.epochs = std::nullopt;
  experiment.train.steps = steps;
  return experiment;
}

/// Returns what each block gives for the batch, on the CPU.
std::vector<at::Tensor> outputs_of(Run& run, const dataset::Batch& batch) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> outputs;
  run.model->set_training(false);
  run.model->set_block_runner(
      [&](const model::Block& block, const at::Tensor& input, const model::SequenceContext& context) {
        const at::Tensor output = block.forward(input, context);
        outputs.push_back(output.detach().to(at::kCPU, at::kFloat));
        return output;
      });
  run.model->forward(task::model_input(batch));
  run.model->set_block_runner({});
  run.model->set_training(true);
  return outputs;
}

/// Returns the first batch, on the device; training begins with it, too.
dataset::Batch first_batch(Run& run) {
  const dataset::Position begin = run.data.train->position();
  std::optional<dataset::Batch> batch = run.data.train->next();
  if (!batch) throw core::Error("the training set has no batch");
  run.data.train->seek(begin);
  DeviceFeed feed(run.device, run.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous,
                  run.data.train->spec().to_normalize);
  return feed(std::move(*batch));
}

/// Returns the slope of the line through the logarithms (least squares).
double slope_of(const std::vector<std::int64_t>& widths, const std::vector<double>& values) {
  double x_mean = 0;
  double y_mean = 0;
  const auto count = static_cast<double>(widths.size());
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (!(values[i] > 0) || !std::isfinite(values[i])) return std::numeric_limits<double>::quiet_NaN();
    x_mean += std::log(static_cast<double>(widths[i])) / count;
    y_mean += std::log(values[i]) / count;
  }
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const double x = std::log(static_cast<double>(widths[i])) - x_mean;
    products += x * (std::log(values[i]) - y_mean);
    squares += x * x;
  }
  return products / squares;
}

}  // namespace

const BlockCoordinates* CoordinateCheck::failure() const {
  const BlockCoordinates* worst = nullptr;
  for (const BlockCoordinates& block : blocks) {
    if (std::abs(block.slope) <= kLargestSlope) continue;
    if (worst == nullptr || std::isnan(block.slope) || std::abs(block.slope) > std::abs(worst->slope)) worst = &block;
  }
  return worst;
}

CoordinateCheck check_coordinates(const experiment::Experiment& experiment, const CoordinateOptions& options,
                                  std::vector<tracking::Notice>& notices) {
  core::ensure(options.widths.size() > 1 && options.steps > 0 && options.seeds > 0, "no widths to compare");
  CoordinateCheck check{.options = options};
  const std::size_t count = options.widths.size();
  const double share = 1 / static_cast<double>(options.seeds);
  for (std::size_t i = 0; i < count; ++i)
    for (std::int64_t seed = 0; seed < options.seeds; ++seed) {
      std::vector<tracking::Notice> told;
      const std::unique_ptr<Run> run = build(at_one_width(experiment, options.widths[i], seed, options.steps), told);
      if (i == 0 && seed == 0) notices = std::move(told);
      const dataset::Batch batch = first_batch(*run);
      const std::vector<at::Tensor> before = outputs_of(*run, batch);
      Step step(*run);
      for (std::int64_t number = 0; number < options.steps; ++number) step(GradNorm::only_to_clip);
      const std::vector<at::Tensor> after = outputs_of(*run, batch);
      if (check.blocks.empty())
        for (const model::Block& block : run->model->blocks())
          check.blocks.push_back(
              {.name = block.name, .first = std::vector(count, 0.0), .change = std::vector(count, 0.0)});
      for (std::size_t block = 0; block < before.size(); ++block) {
        check.blocks[block].first[i] += share * before[block].abs().mean().item<double>();
        check.blocks[block].change[i] += share * after[block].sub(before[block]).abs().mean().item<double>();
      }
    }
  for (BlockCoordinates& block : check.blocks) block.slope = slope_of(options.widths, block.change);
  return check;
}

}  // namespace trainctl::train
