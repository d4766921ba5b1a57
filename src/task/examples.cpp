#include "task/examples.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/nanmean.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

namespace trainctl::task {
namespace {

enum Figure : std::int64_t { kSample, kLength, kLoss, kTarget, kAnswer, kScore, kNumFigures };

bool has_token_losses(dataset::Targets targets) {
  return targets == dataset::Targets::next_tokens || targets == dataset::Targets::masked_tokens;
}

/// Pads or cuts the last axis, which has tokens, to a width.
at::Tensor as_wide_as(const at::Tensor& rows, std::int64_t width, double padding) {
  if (rows.size(1) >= width) return rows.narrow(1, 0, width);
  return at::constant_pad_nd(rows, {0, width - rows.size(1)}, padding);
}

}  // namespace

bool ExampleCollector::takes(dataset::Targets targets) {
  return targets == dataset::Targets::labels || targets == dataset::Targets::values || has_token_losses(targets);
}

ExampleCollector::ExampleCollector(std::int64_t count, const dataset::SampleSpec& spec, c10::Device device)
    : count_(count), targets_(spec.targets), shape_(spec.input_shape) {
  std::vector<std::int64_t> shape{0};
  shape.insert(shape.end(), shape_.begin(), shape_.end());
  const auto on_device = at::TensorOptions().device(device);
  const std::int64_t num_token_losses = has_token_losses(targets_) ? shape_.front() : 0;
  first_ = {.figures = at::zeros({0, kNumFigures}, on_device.dtype(at::kDouble)),
            .inputs = at::zeros(shape, on_device.dtype(spec.vocab_size > 0 ? at::kLong : at::kFloat)),
            .token_losses = at::zeros({0, num_token_losses}, on_device.dtype(at::kFloat))};
  worst_ = first_;
}

void ExampleCollector::add(const dataset::Batch& batch, const at::Tensor& answers) {
  const at::NoGradGuard no_grad;
  const std::int64_t count = answers.size(0);
  if (count == 0) return;
  if (first_.size() < count_)
    first_ = joined({first_, rows_of(batch, answers, std::min(count, count_ - first_.size()))});
  const at::Tensor figures = figures_of(batch, answers, count);
  if (!is_worth_keeping(figures.select(1, kLoss))) return;
  worst_ = largest_losses(joined({worst_, rows_of(batch, answers, count)}));
}

/// Whether one of the losses is larger than one that is kept. Asking a device costs more than keeping.
bool ExampleCollector::is_worth_keeping(const at::Tensor& losses) const {
  if (!losses.device().is_cpu() || worst_.size() < count_) return true;
  return losses.max().item<double>() > worst_.figures.select(1, kLoss).min().item<double>();
}

void ExampleCollector::pool(Pool& pool) {
  const auto gathered = [&](const Rows& mine) {
    const std::vector<at::Tensor> figures = pool.gather(mine.figures);
    const std::vector<at::Tensor> inputs = pool.gather(mine.inputs);
    const std::vector<at::Tensor> losses =
        mine.token_losses.size(1) > 0 ? pool.gather(mine.token_losses) : std::vector<at::Tensor>{};
    std::vector<Rows> parts;
    for (std::size_t i = 0; i < figures.size(); ++i)
      parts.push_back(
          {.figures = figures[i],
           .inputs = inputs[i],
           .token_losses = losses.empty() ? mine.token_losses.new_zeros({figures[i].size(0), 0}) : losses[i]});
    return joined(parts);
  };
  first_ = gathered(first_);
  const at::Tensor order = at::argsort(first_.figures.select(1, kSample));
  first_ = chosen(first_, order.narrow(0, 0, std::min(count_, first_.size())));
  worst_ = largest_losses(gathered(worst_));
}

Examples ExampleCollector::examples() const {
  return {.first = on_host(first_), .worst = on_host(worst_)};
}

ExampleCollector::Rows ExampleCollector::joined(const std::vector<Rows>& parts) {
  std::vector<at::Tensor> figures, inputs, losses;
  for (const Rows& part : parts) {
    figures.push_back(part.figures);
    inputs.push_back(part.inputs);
    losses.push_back(part.token_losses);
  }
  return {.figures = at::cat(figures), .inputs = at::cat(inputs), .token_losses = at::cat(losses)};
}

ExampleCollector::Rows ExampleCollector::chosen(const Rows& rows, const at::Tensor& indices) {
  return {.figures = rows.figures.index_select(0, indices),
          .inputs = rows.inputs.index_select(0, indices),
          .token_losses = rows.token_losses.index_select(0, indices)};
}

ExampleCollector::Rows ExampleCollector::largest_losses(const Rows& rows) const {
  return chosen(rows, std::get<1>(at::topk(rows.figures.select(1, kLoss), std::min(count_, rows.size()))));
}

ExampleCollector::Rows ExampleCollector::rows_of(const dataset::Batch& batch, const at::Tensor& answers,
                                                 std::int64_t count) const {
  at::Tensor inputs = batch.inputs.narrow(0, 0, count);
  const bool has_tokens = inputs.dim() == 2 && inputs.scalar_type() == at::kLong;
  if (has_tokens) inputs = as_wide_as(inputs, shape_.front(), 0);
  Rows rows{.figures = figures_of(batch, answers, count),
            .inputs = has_tokens ? inputs : inputs.to(at::kFloat),
            .token_losses = first_.token_losses.new_zeros({count, 0})};
  if (has_token_losses(targets_))
    rows.token_losses = as_wide_as(answers.narrow(0, 0, count).to(at::kFloat), shape_.front(),
                                   std::numeric_limits<double>::quiet_NaN());
  return rows;
}

at::Tensor ExampleCollector::figures_of(const dataset::Batch& batch, const at::Tensor& answers,
                                        std::int64_t count) const {
  const at::Tensor mine = answers.narrow(0, 0, count).to(at::kFloat);
  const auto doubles = mine.options().dtype(at::kDouble);
  at::Tensor figures = at::zeros({count, kNumFigures}, doubles);
  figures.select(1, kSample).copy_(at::arange(count, doubles).add(static_cast<double>(batch.first_sample)));
  const at::Tensor& mask = batch.key_mask;
  if (mask.defined())
    figures.select(1, kLength).copy_(mask.narrow(0, 0, count).sum(1));
  else
    figures.select(1, kLength).fill_(batch.inputs.size(1));
  const at::Tensor targets = batch.targets.narrow(0, 0, count);
  at::Tensor loss;
  if (targets_ == dataset::Targets::labels) {
    const at::Tensor shares = at::softmax(mine, 1);
    loss = at::cross_entropy_loss(mine, targets, /*weight=*/{}, at::Reduction::None);
    figures.select(1, kTarget).copy_(targets);
    figures.select(1, kAnswer).copy_(mine.argmax(1));
    figures.select(1, kScore).copy_(shares.amax(1));
  } else if (targets_ == dataset::Targets::values) {
    loss = mine.sub(targets).square();
    figures.select(1, kTarget).copy_(targets);
    figures.select(1, kAnswer).copy_(mine);
  } else {
    loss = at::nan_to_num(at::nanmean(mine, 1), /*nan=*/0);
  }
  // A loss that is not finite is the largest there is.
  figures.select(1, kLoss).copy_(
      at::where(at::isnan(loss), at::full({}, std::numeric_limits<float>::max(), loss.options()), loss));
  return figures;
}

std::vector<Example> ExampleCollector::on_host(const Rows& rows) {
  const at::Tensor figures = rows.figures.cpu().contiguous();
  const at::Tensor inputs = rows.inputs.cpu().contiguous();
  const at::Tensor losses = rows.token_losses.cpu().to(at::kDouble).contiguous();
  const bool has_tokens = inputs.scalar_type() == at::kLong;
  std::vector<Example> examples;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const double* const row = figures.const_data_ptr<double>() + i * kNumFigures;
    const auto length = static_cast<std::int64_t>(row[kLength]);
    Example example{.sample = static_cast<std::int64_t>(row[kSample]),
                    .input = has_tokens ? inputs[i].narrow(0, 0, std::min(length, inputs.size(1))) : inputs[i],
                    .loss = row[kLoss],
                    .target = row[kTarget],
                    .answer = row[kAnswer],
                    .score = row[kScore]};
    const double* const values = losses.const_data_ptr<double>() + i * losses.size(1);
    if (losses.size(1) > 0) example.token_losses.assign(values, values + std::min(length, losses.size(1)));
    examples.push_back(std::move(example));
  }
  return examples;
}

}  // namespace trainctl::task
