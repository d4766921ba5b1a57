#include "train/loop/pipeline_pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "runtime/span.h"

namespace trainctl::train {
namespace {

using pipeline::Action;
using pipeline::ActionKind;
using pipeline::Operation;

/// Type, number of dims, and up to six sizes.
constexpr std::size_t kFormNumbers = 8;
using Form = std::array<std::int64_t, kFormNumbers>;

/// Returns the sizes of an input that decide on the sizes of what blocks give.
std::vector<std::int64_t> sizes_of(const model::ModelInput& input) {
  std::vector<std::int64_t> sizes = input.values.sizes().vec();
  if (input.decoder_values.defined()) sizes.push_back(input.decoder_values.size(1));
  return sizes;
}

}  // namespace

PipelinePass::PipelinePass(Run& run) : run_(run), row_(run.mesh->over({comm::Axis::pipeline})) {
  operations_ = pipeline::operations_of(run.stages->schedule)[static_cast<std::size_t>(row_.rank())];
  for (const Action& action : run.stages->schedule.ranks[static_cast<std::size_t>(row_.rank())])
    if (action.kind != ActionKind::forward) last_backward_ = action;
}

at::Tensor PipelinePass::operator()(const std::vector<task::MicroBatch>& micro_batches, const PipelineHooks& hooks) {
  micro_batches_ = &micro_batches;
  loss_ = at::zeros({}, run_.window.options());
  for (const Operation& operation : operations_) {
    if (operation.kind == Operation::Kind::send)
      send(operation);
    else if (operation.kind == Operation::Kind::receive)
      receive(operation);
    else if (operation.action.kind == ActionKind::forward)
      forward(operation.action, hooks);
    else
      backward(operation.action);
  }
  {
    const runtime::Span span("send");
    for (auto& [maker, sending] : sending_) sending.work->wait();
  }
  sending_.clear();
  core::ensure(live_.empty() && received_.empty() && made_.empty(), "a schedule uses all that it makes");
  return std::move(loss_);
}

void PipelinePass::forward(const Action& action, const PipelineHooks& hooks) {
  task::MicroBatch here = micro_batch(action.micro_batch);
  Live& live = live_[{action.stage, action.micro_batch}];
  if (action.stage > 0) {
    const Action maker{.kind = ActionKind::forward, .stage = action.stage - 1, .micro_batch = action.micro_batch};
    live.input = take(maker).requires_grad_(true);
  }
  here.input.hidden = live.input;
  here.input.blocks = range(action.stage);
  const runtime::Span span("forward");
  const runtime::Span action_span(std::string(runtime::kActionSpan) + pipeline::text_of(action));
  const amp::Autocast autocast = run_.autocast();
  hooks.forward(action.micro_batch, [&] {
    if (!is_last(action.stage)) {
      live.output = run_.model->forward(here.input);
      return;
    }
    const at::Tensor loss = hooks.loss(here);
    loss_.add_(loss.detach());
    live.output = hooks.scale(loss);
  });
  if (!is_last(action.stage)) made_[action] = live.output.detach();
}

void PipelinePass::backward(const Action& action) {
  const Key key{action.stage, action.micro_batch};
  Live& live = live_.at(key);
  at::Tensor gradient;
  if (action.kind != ActionKind::backward_weight && !is_last(action.stage)) gradient = gradient_of(action);
  const runtime::Span span("backward");
  const runtime::Span action_span(std::string(runtime::kActionSpan) + pipeline::text_of(action));
  const amp::Autocast autocast = run_.autocast();
  const bool reduces = action == last_backward_;
  run_.parallel->before_forward(reduces ? distributed::Gradients::reduce : distributed::Gradients::accumulate,
                                micro_batch(action.micro_batch).batch.size());
  run_.parallel->before_backward(live.output);
  if (action.kind == ActionKind::backward_weight) {
    for (const std::function<void()>& add_gradients : live.weight_gradients) add_gradients();
  } else {
    // A first stage that is frozen as a whole has nothing to do.
    if (live.output.requires_grad()) live.output.backward(std::exchange(gradient, {}));
    if (action.stage > 0) made_[action] = live.input.grad();
    if (run_.deferred_gradients) live.weight_gradients = run_.deferred_gradients->take();
    if (action.kind == ActionKind::backward)
      for (const std::function<void()>& add_gradients : live.weight_gradients) add_gradients();
    live.input.reset();
    live.output = live.output.detach();  // the graph is used up
  }
  run_.parallel->after_backward();
  if (action.kind != ActionKind::backward_input) live_.erase(key);
}

at::Tensor PipelinePass::gradient_of(const Action& action) {
  Action maker{.kind = ActionKind::backward, .stage = action.stage + 1, .micro_batch = action.micro_batch};
  if (!received_.contains(maker) && !made_.contains(maker)) maker.kind = ActionKind::backward_input;
  sending_.erase({.kind = ActionKind::forward, .stage = action.stage, .micro_batch = action.micro_batch});
  return take(maker);
}

at::Tensor PipelinePass::take(const Action& maker) {
  if (auto own = made_.extract(maker)) return std::move(own.mapped());
  const runtime::Span span("receive");
  Receipt receipt = std::move(received_.extract(maker).mapped());
  receipt.work->wait();
  return std::move(receipt.tensor);
}

void PipelinePass::send(const Operation& operation) {
  const Action& maker = operation.action;
  const at::Tensor made = made_.extract(maker).mapped().contiguous();
  if (maker.kind == ActionKind::forward)
    send_form(made, maker.stage, micro_batch(maker.micro_batch).input, operation.peer);
  std::erase_if(sending_, [](const auto& sending) { return sending.second.work->is_done(); });
  sending_[maker] = {.tensor = made, .work = row_.isend(made, operation.peer)};
}

void PipelinePass::receive(const Operation& operation) {
  const Action& maker = operation.action;
  const bool is_output = maker.kind == ActionKind::forward;
  // A gradient is like what it is of.
  const at::Tensor form = is_output ? receive_form(maker.stage, micro_batch(maker.micro_batch).input, operation.peer)
                                    : live_.at({maker.stage - 1, maker.micro_batch}).output;
  const at::Tensor room = at::empty(form.sizes(), at::TensorOptions(run_.device).dtype(form.scalar_type()));
  received_[maker] = {.tensor = room, .work = row_.irecv(room, operation.peer)};
}

at::Tensor PipelinePass::send_form(const at::Tensor& output, std::int64_t stage, const model::ModelInput& input,
                                   std::int64_t peer) {
  at::Tensor& known = forms_[{stage, sizes_of(input)}];
  if (known.defined()) return known;
  core::ensure(output.dim() + 2 <= static_cast<std::int64_t>(kFormNumbers), "a block's output has at most six dims");
  Form numbers{static_cast<std::int64_t>(output.scalar_type()), output.dim()};
  std::copy(output.sizes().begin(), output.sizes().end(), numbers.begin() + 2);
  row_.isend(at::from_blob(numbers.data(), {kFormNumbers}, at::kLong), peer)->wait();
  return known = at::empty(output.sizes(), at::TensorOptions(at::kMeta).dtype(output.scalar_type()));
}

at::Tensor PipelinePass::receive_form(std::int64_t stage, const model::ModelInput& input, std::int64_t peer) {
  at::Tensor& known = forms_[{stage, sizes_of(input)}];
  if (known.defined()) return known;
  Form numbers{};
  row_.irecv(at::from_blob(numbers.data(), {kFormNumbers}, at::kLong), peer)->wait();
  const std::vector<std::int64_t> sizes(numbers.begin() + 2, numbers.begin() + 2 + numbers[1]);
  return known = at::empty(sizes, at::TensorOptions(at::kMeta).dtype(static_cast<at::ScalarType>(numbers[0])));
}

void PipelinePass::evaluate(const model::ModelInput& input,
                            const std::function<void(const model::ModelInput&)>& finish) {
  at::Tensor own;  // what the stage before gave, where this rank has it too
  for (std::int64_t stage = 0; stage < num_stages(); ++stage) {
    if (rank_of(stage) != row_.rank()) continue;
    model::ModelInput here = input;
    here.blocks = range(stage);
    if (stage > 0 && rank_of(stage - 1) == row_.rank()) {
      here.hidden = std::move(own);
    } else if (stage > 0) {
      const std::int64_t peer = rank_of(stage - 1);
      const at::Tensor form = receive_form(stage - 1, input, peer);
      here.hidden = at::empty(form.sizes(), at::TensorOptions(run_.device).dtype(form.scalar_type()));
      row_.irecv(here.hidden, peer)->wait();
    }
    if (is_last(stage)) return finish(here);
    own = run_.model->forward(here).contiguous();
    if (const std::int64_t peer = rank_of(stage + 1); peer != row_.rank()) {
      send_form(own, stage, input, peer);
      row_.isend(own, peer)->wait();
    }
  }
}

}  // namespace trainctl::train
