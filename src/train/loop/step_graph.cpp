#include "train/loop/step_graph.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "runtime/sample_randomness.h"
#include "runtime/span.h"
#include "train/loop/device_feed.h"

namespace trainctl::train {
namespace {

// Libraries make their plans and workspaces in the first steps. torch.cuda.make_graphed_callables() waits as long.
constexpr int kStepsBefore = 3;
constexpr int kStepsWithout = 100;

/// The tensors that a model and a task are given.
std::vector<at::Tensor*> given_tensors(task::MicroBatch& micro_batch) {
  model::ModelInput& input = micro_batch.input;
  std::vector<at::Tensor*> tensors = tensors_of(micro_batch.batch);
  tensors.insert(tensors.end(), {&input.values, &input.token_types, &input.key_mask, &input.documents,
                                 &input.decoder_values, &input.hidden});
  return tensors;
}

bool is_alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

/// Whether the device has the same to do for both.
bool is_alike(task::MicroBatch a, task::MicroBatch b) {
  const std::vector<at::Tensor*> of_a = given_tensors(a);
  const std::vector<at::Tensor*> of_b = given_tensors(b);
  return !a.is_placeholder && !b.is_placeholder && a.share == b.share &&
         std::ranges::equal(of_a, of_b, [](const at::Tensor* x, const at::Tensor* y) { return is_alike(*x, *y); });
}

bool are_alike(const std::vector<task::MicroBatch>& a, const std::vector<task::MicroBatch>& b) {
  return std::ranges::equal(a, b, [](const task::MicroBatch& x, const task::MicroBatch& y) { return is_alike(x, y); });
}

at::Tensor pack(const StepResult& result) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& value : {result.loss, result.grad_norm, result.non_finite, result.skipped})
    values.push_back(value.to(at::kDouble).reshape({}));
  return at::stack(values);
}

void unpack(const at::Tensor& values, StepResult& result) {
  result.loss = values[0];
  result.grad_norm = values[1].to(at::kFloat);
  result.non_finite = values.narrow(0, 2, 1).to(at::kFloat);
  result.skipped = values.narrow(0, 3, 1).to(at::kFloat);
}

std::unique_ptr<runtime::DeviceGraph> graph_of(const Run& run) {
  if (run.device.is_cpu())
    throw core::Error("train.graph: whole_step records the work of a GPU, and this run is on a CPU")
        .hint("leave train.graph out, or set device: cuda");
  if (run.mesh->world().size() > 1)
    throw core::Error("train.graph: whole_step is for one rank, and this run has " +
                      core::format_count(run.mesh->world().size()))
        .hint("leave train.graph out, or start one process");
  return runtime::new_device_graph(run.device);
}

}  // namespace

StepGraph::StepGraph(Run& run, std::unique_ptr<runtime::DeviceGraph> graph)
    : graph_(graph ? std::move(graph) : graph_of(run)) {
  const auto options = at::TensorOptions(run.device).dtype(at::kDouble);
  lr_ = at::zeros({}, options);
  count_ = at::zeros({}, options);
  outputs_ = at::zeros({4}, options);
  if (!run.optimizer->reads_device_lr())
    throw core::Error("train.graph: whole_step needs an update rule that is fused, and this one isn't")
        .hint("optimizer.kind: adamw, adam or sgd, with fused: true");
  run.optimizer->read_lr_from(lr_);
}

void StepGraph::operator()(const std::vector<task::MicroBatch>& micro_batches, double lr, const Compute& compute,
                           StepResult& result) {
  const at::NoGradGuard no_grad;
  lr_.fill_(lr);
  count_.fill_(result.nominal);
  const bool fits = result.count > 0 && are_alike(micro_batches, inputs_);
  if (!is_recorded_) {
    if (fits && steps_without_ >= kStepsBefore) record(micro_batches, compute, result);
    if (!is_recorded_) inputs_ = micro_batches;
  } else if (fits) {
    const runtime::Span span("graph");
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      task::MicroBatch given = micro_batches[i];
      const std::vector<at::Tensor*> from = given_tensors(given);
      const std::vector<at::Tensor*> to = given_tensors(inputs_[i]);
      for (std::size_t t = 0; t < from.size(); ++t)
        if (from[t]->defined()) to[t]->copy_(*from[t], /*non_blocking=*/true);
    }
    graph_->replay();
  }
  if (is_recorded_ && fits) {
    steps_without_ = 0;
    return unpack(outputs_.clone(), result);
  }
  if (++steps_without_ > kStepsWithout)
    throw core::Error("train.graph: whole_step found nothing to repeat in " + core::format_count(kStepsWithout) +
                      " steps: their batches differ in shape, or in how many of their tokens have a target")
        .hint("leave train.graph out");
  const at::AutoGradMode with_grad(true);
  compute(micro_batches, count_, result);
}

void StepGraph::record(const std::vector<task::MicroBatch>& micro_batches, const Compute& compute,
                       const StepResult& result) {
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    inputs_[i] = micro_batches[i];
    for (at::Tensor* tensor : given_tensors(inputs_[i]))
      if (tensor->defined()) *tensor = tensor->clone();
  }
  try {
    graph_->record([&] {
      StepResult recorded{.count = result.count, .nominal = result.nominal};
      {
        const at::AutoGradMode with_grad(true);
        compute(inputs_, count_, recorded);
      }
      outputs_.copy_(pack(recorded));
    });
  } catch (const c10::Error& error) {
    throw core::Error(std::string("train.graph: whole_step can't record this step: ") + error.what_without_backtrace())
        .hint("leave train.graph out: something in the step waits for the device, or is copied from the host");
  }
  is_recorded_ = true;
}

void refuse_random_numbers() {
  if (!runtime::SampleRandomness::state()->has_drawn) return;
  throw core::Error(
      "train.graph: whole_step would repeat the random numbers of the step that it records, and this model draws some: "
      "dropout, or drop path")
      .hint("leave train.graph out, or set the model's dropout and drop_path to 0");
}

}  // namespace trainctl::train
