#include "train/loop/step.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>

#include "core/stop_signals.h"
#include "runtime/fake_tensor.h"
#include "runtime/random.h"
#include "runtime/sample_randomness.h"
#include "runtime/span.h"
#include "train/loop/own_tokens.h"

namespace trainctl::train {
namespace {

/// A copy of the model's buffers, so that a skipped update leaves no trace in BatchNorm's running statistics.
class BufferSnapshot {
 public:
  enum class Keep { nothing, buffers };

  BufferSnapshot(model::Model& model, Keep keep) {
    if (keep == Keep::nothing) return;
    buffers_ = model::named_buffers(model);
    copies_.reserve(buffers_.size());
    for (const model::NamedTensor& buffer : buffers_) copies_.push_back(buffer.tensor.clone());
  }

  /// Restores the buffers if `skipped` (float [1]) is 1. The device decides.
  void restore_if(const at::Tensor& skipped) const {
    if (buffers_.empty()) return;
    const at::NoGradGuard no_grad;
    const at::Tensor put_back = skipped.reshape({}).to(at::kBool);
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      buffers_[i].tensor.copy_(at::where(put_back.to(copies_[i].device()), copies_[i], buffers_[i].tensor));
  }

 private:
  std::vector<model::NamedTensor> buffers_;
  std::vector<at::Tensor> copies_;
};

/// What a step multiplies gradients by: at once, or by telling the update rule, which has them in hand anyway.
class GradientFactor {
 public:
  enum class When { at_once, in_update };

  GradientFactor(std::vector<at::Tensor> gradients, When when) : gradients_(std::move(gradients)), when_(when) {}

  /// Multiplies by a floating-point [].
  void multiply(const at::Tensor& by) {
    if (when_ == When::at_once) {
      if (by.is_cpu() && by.item<double>() == 1) return;
      optimizer::scale(gradients_, by);
    } else {
      left_ = left_.defined() ? left_.mul(by.to(left_.device())) : by;
    }
  }
  /// Returns what a norm of the gradients as they are would be with all factors: float [].
  at::Tensor of_norm(const at::Tensor& norm) const {
    return left_.defined() ? norm.mul(left_.to(norm.device())).to(norm.scalar_type()) : norm;
  }
  /// What is left for the update rule, a floating-point []; undefined: 1.
  const at::Tensor& left() const { return left_; }

 private:
  std::vector<at::Tensor> gradients_;
  When when_;
  at::Tensor left_;
};

/// Returns whether BatchNorm takes its statistics of all ranks, also on a rank without samples.
bool synchronizes_batch_norm(const experiment::Experiment& experiment) {
  return config::facts_of(experiment.distributed.how).synchronizes_batch_norm;
}

/// Returns what a sum is divided by: the count, or 1 if nothing was counted.
double positive_count(double count) {
  return count > 0 ? count : 1;
}

/// Returns 1 if any element isn't finite, else 0, as float [1].
at::Tensor non_finite(const at::Tensor& scalar) {
  return scalar.isfinite().logical_not().to(at::kFloat).reshape({1});
}

}  // namespace

Step::Step(Run& run, std::unique_ptr<runtime::DeviceGraph> graph)
    : run_(run),
      batch_ranks_(run.mesh->batch()),
      is_counted_(run.mesh->place(comm::Axis::tensor) == 0),
      counts_samples_(run.mesh->place(comm::Axis::context) == 0),
      feed_(run.device, run.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous,
            run.data.train->spec().to_normalize) {
  if (run.stages) pipeline_.emplace(run);
  if (run.experiment.train.graph == Graph::whole_step && !runtime::FakeTensorScope::is_active())
    graph_.emplace(run, std::move(graph));
}

StepResult Step::operator()(GradNorm grad_norm, const SignalSource& received) {
  StepResult result;
  received_ = received;
  if (run_.quantized_training) run_.quantized_training->begin_step(run_.step);
  result.loss = at::zeros({}, run_.window.options());
  const bool may_be_skipped = run_.experiment.train.on_non_finite == NonFinite::skip || run_.scaler.is_active();
  const bool may_be_abandoned = run_.micro_batches > 1;
  const BufferSnapshot kept(
      *run_.model, may_be_skipped || may_be_abandoned ? BufferSnapshot::Keep::buffers : BufferSnapshot::Keep::nothing);
  if (graph_) {
    run_by_graph(result);
  } else if (pipeline_) {
    run_pipeline(result);
  } else if (run_in_turn(result)) {
    kept.restore_if(at::ones({1}, at::TensorOptions(run_.device).dtype(at::kFloat)));
    run_.parallel->zero_grad();
    result.is_abandoned = true;
    return result;
  }
  if (!graph_) update(grad_norm, result);
  add_to_window(result);
  if (may_be_skipped) kept.restore_if(result.skipped);
  run_.next_sample = run_.data.train->position();
  if (run_.steps_left_in_epoch(run_.next_sample.sample) == 0)  // whatever the data of a resumed run are
    run_.next_sample = {.epoch = run_.next_sample.epoch + 1, .sample = 0};
  ++run_.step;
  return result;
}

bool Step::run_in_turn(StepResult& result) {
  std::optional<dataset::Batch> batch = next_batch(result);
  if (!batch) batch = next_batch(result);  // the first of the next epoch
  for (std::int64_t micro_batch = 0; batch; ++micro_batch) {
    std::optional<dataset::Batch> following;  // none: the last of this step, or of the epoch
    if (micro_batch + 1 < run_.micro_batches) following = next_batch(result);
    if (on_batch) on_batch(*batch);
    forward_backward(*batch, micro_batch,
                     following ? distributed::Gradients::accumulate : distributed::Gradients::reduce, result);
    commit_statistics(micro_batch);
    last_batch_ = std::exchange(batch, std::move(following)).value();
    if (batch && result.signal != 0) return true;
  }
  return false;
}

void Step::run_pipeline(StepResult& result) {
  const std::vector<task::MicroBatch> micro_batches = prepare_all(result);
  Counts counts;
  if (run_.mesh->place(comm::Axis::pipeline) == 0) counts = counts_of(micro_batches);  // other stages have the same
  {
    const runtime::Span span("count");  // a profile counts the pass's time from its end, which ranks reach together
    add_counts(counts, result);
  }
  result.nominal = positive_count(result.count);
  const PipelineHooks hooks{
      .forward =
          [&](std::int64_t number, const std::function<void()>& compute) {
            const dataset::Batch& batch = micro_batches[static_cast<std::size_t>(number)].batch;
            seed_micro_batch(number);
            const runtime::SampleRandomness randomness(
                {.seed = run_.seed(), .epoch = batch.epoch, .first_sample = batch.first_sample});
            compute();
            commit_statistics(number);
          },
      .loss = [&](const task::MicroBatch& micro_batch) { return loss_of(micro_batch).sum; },
      .scale = [&](const at::Tensor& loss) { return run_.scaler.scale(at::div(loss, result.nominal)); }};
  result.loss = (*pipeline_)(micro_batches, hooks);
  if (!is_counted_) result.loss.zero_();
  run_.mesh->world().all_reduce(result.loss, comm::Reduce::sum)->wait();
}

void Step::run_by_graph(StepResult& result) {
  const std::vector<task::MicroBatch> micro_batches = prepare_all(result);
  add_counts(counts_of(micro_batches), result);
  result.nominal = positive_count(result.count);
  (*graph_)(micro_batches, run_.lr_of_step(run_.step + 1), std::bind_front(&Step::compute, this), result);
  last_batch_ = micro_batches.back().batch;
  if (run_.ema) update_averages();
}

void Step::compute(const std::vector<task::MicroBatch>& micro_batches, const at::Tensor& count, StepResult& result) {
  result.loss = at::zeros({}, run_.window.options());
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const task::MicroBatch& micro_batch = micro_batches[i];
    const bool is_last = i + 1 == micro_batches.size();
    const amp::Autocast autocast = run_.autocast();
    task::LossSum loss;
    {
      const runtime::Span span("forward");
      const runtime::SampleRandomness randomness(
          {.seed = run_.seed(), .epoch = micro_batch.batch.epoch, .first_sample = micro_batch.batch.first_sample});
      run_.parallel->before_forward(is_last ? distributed::Gradients::reduce : distributed::Gradients::accumulate,
                                    micro_batch.batch.size());
      loss = loss_of(micro_batch);
      refuse_random_numbers();
    }
    result.loss += loss.sum.detach();
    {
      const runtime::Span span("backward");
      const at::Tensor scaled = run_.scaler.scale(at::div(loss.sum, count.to(loss.sum.scalar_type())));
      run_.parallel->before_backward(scaled);
      scaled.backward();
      run_.parallel->after_backward();
    }
    commit_statistics(static_cast<std::int64_t>(i));
  }
  update(GradNorm::measure, result);
}

std::vector<task::MicroBatch> Step::prepare_all(StepResult& result) {
  std::vector<task::MicroBatch> micro_batches;
  std::optional<dataset::Batch> batch = next_batch(result);
  if (!batch) batch = next_batch(result);  // the first of the next epoch
  for (std::int64_t number = 0; number < run_.micro_batches; ++number) {
    if (on_batch && batch) on_batch(*batch);
    if (batch) {
      micro_batches.push_back(prepare(*batch, seed_micro_batch(number)));
      if (number + 1 < run_.micro_batches) batch = next_batch(result);
    } else {  // the epoch has ended, and the schedule hasn't
      micro_batches.push_back(micro_batches.front());
      micro_batches.back().is_placeholder = true;
      micro_batches.back().count = 0;
    }
  }
  return micro_batches;
}

/// Updates BatchNorm's running statistics as many times per step as the config's accumulation. A run that resumes with
/// other ranks has another number of micro-batches. Then one micro-batch counts as several, or several are pooled.
void Step::commit_statistics(std::int64_t micro_batch) const {
  const AccumulationConfig& accumulation = run_.experiment.accumulation;
  if (accumulation.batch_norm_update == BatchNormUpdate::per_step || run_.micro_batches == accumulation.steps) return;
  const auto due_before = [&](std::int64_t batches) { return batches * accumulation.steps / run_.micro_batches; };
  const std::int64_t updates = due_before(micro_batch + 1) - due_before(micro_batch);
  if (updates > 0) model::commit_running_statistics(*run_.model, updates);
}

std::optional<dataset::Batch> Step::next_batch(StepResult& result) {
  std::optional<dataset::Batch> batch;
  {
    const runtime::Span span("data");
    batch = run_.data.train->next();
    result.data_wait_ms += run_.data.train->last_wait_ms();
  }
  if (!batch) return batch;
  batch->weight = run_.task->weight_of(*batch);
  if (run_.loss_spikes) result.samples.insert(result.samples.end(), batch->indices.begin(), batch->indices.end());
  const auto begin = std::chrono::steady_clock::now();
  batch = feed_(own_tokens(std::move(*batch), *run_.mesh));
  result.copy_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return batch;
}

void Step::forward_backward(const dataset::Batch& batch, std::int64_t micro_batch, distributed::Gradients gradients,
                            StepResult& result) {
  const std::uint64_t key = seed_micro_batch(micro_batch);
  const amp::Autocast autocast = run_.autocast();
  task::LossSum loss;
  {
    const runtime::Span span("forward");
    const runtime::SampleRandomness randomness(
        {.seed = run_.seed(), .epoch = batch.epoch, .first_sample = batch.first_sample});
    run_.parallel->before_forward(gradients, batch.size());
    loss = loss_of(prepare(batch, key));
  }
  const double count = add_up(loss, batch, result);
  {
    const runtime::Span span("backward");
    // As if each micro-batch had the first one's count; where they differ, update() sets it right.
    if (micro_batch == 0) result.nominal = positive_count(count) * run_.micro_batches;
    const at::Tensor scaled = run_.scaler.scale(at::div(loss.sum, result.nominal));
    run_.parallel->before_backward(scaled);
    scaled.backward();
    run_.parallel->after_backward();
  }
}

/// The epoch's last samples are fewer than the ranks. One that has none computes on a placeholder, because it must take
/// part in the sums.
task::MicroBatch Step::prepare(const dataset::Batch& batch, std::uint64_t key) const {
  if (batch.size() > 0) return run_.task->prepare(batch, key);
  task::MicroBatch micro_batch = run_.task->prepare(placeholder(batch), key);
  micro_batch.count = 0;
  micro_batch.is_placeholder = true;
  return micro_batch;
}

task::LossSum Step::loss_of(const task::MicroBatch& micro_batch) const {
  if (!micro_batch.is_placeholder) return run_.task->loss(*run_.model, micro_batch);
  const BufferSnapshot kept(*run_.model, synchronizes_batch_norm(run_.experiment) ? BufferSnapshot::Keep::nothing
                                                                                  : BufferSnapshot::Keep::buffers);
  const task::LossSum loss = run_.task->loss(*run_.model, micro_batch);
  kept.restore_if(at::ones({1}, loss.sum.options().requires_grad(false).dtype(at::kFloat)));
  return {.sum = loss.sum.mul(0), .count = 0};
}

Counts Step::counts_of(const std::vector<task::MicroBatch>& micro_batches) const {
  Counts counts;
  for (const task::MicroBatch& micro_batch : micro_batches) {
    if (micro_batch.is_placeholder) continue;
    const Counts more = counts_of(micro_batch.batch, micro_batch.count);
    counts.targets += more.targets;
    counts.samples += more.samples;
    counts.tokens += more.tokens;
  }
  return counts;
}

/// What a micro-batch of this rank adds to a step's counts.
Counts Step::counts_of(const dataset::Batch& batch, double targets) const {
  if (!is_counted_) return {};
  const bool has_tokens = batch.inputs.dim() == 2 && !batch.inputs.is_floating_point();
  const std::int64_t decoder_tokens = batch.decoder_inputs.defined() ? batch.decoder_inputs.numel() : 0;
  return {.targets = targets,
          .samples = counts_samples_ ? batch.size() : 0,
          .tokens = has_tokens ? batch.inputs.numel() + decoder_tokens : 0};
}

/// Sums the counts and signals of all members, and adds them to the result. The counts are the host's: a device isn't
/// waited for.
void Step::add_counts(const Counts& counts, StepResult& result) const {
  const int signal = received_ ? received_() : 0;
  constexpr std::size_t kSignals = core::kStopSignals.size();
  std::array<double, 3 + kSignals> sums{counts.targets, static_cast<double>(counts.samples),
                                        static_cast<double>(counts.tokens)};
  for (std::size_t i = 0; i < kSignals; ++i) sums[3 + i] = signal == core::kStopSignals[i] ? 1 : 0;
  run_.mesh->world()
      .all_reduce(at::from_blob(sums.data(), {static_cast<std::int64_t>(sums.size())}, at::kDouble), comm::Reduce::sum)
      ->wait();
  result.count += sums[0];
  result.work.samples += static_cast<std::int64_t>(sums[1]);
  result.work.tokens += static_cast<std::int64_t>(sums[2]);
  for (std::size_t i = 0; i < kSignals; ++i)
    if (sums[3 + i] > 0) result.signal = core::kStopSignals[i];
}

double Step::add_up(const task::LossSum& loss, const dataset::Batch& batch, StepResult& result) {
  at::Tensor sum = loss.sum.detach().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  const double before = result.count;
  std::optional<runtime::Span> span;
  comm::Group& world = run_.mesh->world();
  if (world.size() > 1) span.emplace("count");
  if (!is_counted_) sum.zero_();
  const std::unique_ptr<comm::Work> summing = world.all_reduce(sum, comm::Reduce::sum);
  add_counts(counts_of(batch, loss.count), result);
  summing->wait();
  result.loss += sum;
  return result.count - before;
}

void Step::update(GradNorm grad_norm, StepResult& result) {
  // Histograms show gradients without the loss's scale, so those are multiplied at once.
  const bool in_update = run_.optimizer->works_on_the_way() && run_.experiment.tracking.histogram_every == 0;
  const std::vector<at::Tensor> gradients = optimizer::gradients_of(run_.parameters);
  GradientFactor factor(gradients, in_update ? GradientFactor::When::in_update : GradientFactor::When::at_once);
  at::Tensor found_inf;
  {
    const runtime::Span span("unscale");
    if (in_update) {
      if (run_.scaler.is_active()) factor.multiply(run_.scaler.inverse());
    } else {
      found_inf = run_.scaler.unscale(gradients);  // where the update is made; so is the norm
      if (found_inf.defined()) run_.parallel->max_over_parts(found_inf);
    }
    if (result.count != result.nominal && result.count > 0)
      factor.multiply(at::scalar_tensor(result.nominal / result.count,
                                        at::TensorOptions(run_.parallel->update_device()).dtype(at::kDouble)));
  }
  if (on_gradients) on_gradients();
  result.non_finite = non_finite(result.loss);
  const std::optional<double> clip_norm = run_.experiment.optimizer.clip_norm;
  const bool finds_inf = in_update && run_.scaler.is_active();  // the norm of all parts tells
  if (clip_norm || grad_norm == GradNorm::measure || finds_inf) {
    const runtime::Span span("clip");
    const at::Tensor norm = factor.of_norm(optimizer::grad_norm(run_.parameters, [&](at::Tensor& sum) {
      // A pipeline's stage may be frozen as a whole. All ranks sum on the same kind of device.
      if (run_.parameters.empty()) sum = sum.to(run_.parallel->update_device());
      run_.parallel->sum_over_parts(sum);
    }));
    if (clip_norm) factor.multiply(optimizer::clip_factor(norm, *clip_norm));
    if (finds_inf) found_inf = non_finite(norm).reshape({}).to(run_.parallel->update_device());
    result.grad_norm = norm.to(run_.device);
    if (!run_.scaler.is_active()) result.non_finite = at::maximum(result.non_finite, non_finite(result.grad_norm));
  }
  result.skipped =
      found_inf.defined() ? at::maximum(result.non_finite, found_inf.reshape({1}).to(run_.device)) : result.non_finite;
  if (result.count == 0) result.skipped = at::ones_like(result.skipped);
  update_parameters(factor.left(), found_inf, result);
  if (run_.experiment.accumulation.batch_norm_update == BatchNormUpdate::per_step)
    model::commit_running_statistics(*run_.model);
}

void Step::add_to_window(const StepResult& result) {
  run_.num_skipped += result.skipped.sum();
  const at::Tensor kept = at::eq(result.skipped.reshape({}), 0);
  run_.window[0] += at::where(kept, result.loss, 0.0);
  run_.window[1] += at::mul(kept, result.count);
}

void Step::update_parameters(const at::Tensor& factor, const at::Tensor& found_inf, const StepResult& result) {
  std::optional<optimizer::FollowingAverages> averages;
  {
    const runtime::Span span("optimizer");
    const double lr = run_.lr_of_step(run_.step + 1);
    const at::Tensor skipped = result.skipped.to(run_.parallel->update_device());
    if (run_.optimizer->works_on_the_way()) {
      if (run_.ema && !graph_) averages = run_.ema->begin_update(run_.step);
      run_.optimizer->step_on_the_way(lr, skipped, {.factor = factor, .averages = averages ? &*averages : nullptr});
    } else {
      run_.optimizer->step(lr, skipped);
    }
    run_.parallel->after_update();
    run_.scaler.update(found_inf);
    run_.parallel->zero_grad();
  }
  if (run_.ema && !averages && !graph_) update_averages();
}

void Step::update_averages() {
  const runtime::Span span("ema");
  const optimizer::AveragedWeights averaged(*run_.optimizer);
  run_.ema->update(run_.step);
}

std::uint64_t Step::seed_micro_batch(std::int64_t micro_batch) const {
  const std::int64_t number = micro_batch * batch_ranks_.size() + batch_ranks_.rank();  // as one rank would count them
  const std::uint64_t key = runtime::mix(run_.seed(), runtime::key_of("micro-batch"),
                                         static_cast<std::uint64_t>(run_.step), static_cast<std::uint64_t>(number));
  if (runtime::FakeTensorScope::is_active()) return key;  // nothing is drawn
  at::Generator generator = at::globalContext().defaultGenerator(run_.device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(key);
  return key;
}

}  // namespace trainctl::train
