#include "train/loop/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "core/error.h"
#include "runtime/device.h"
#include "runtime/span.h"
#include "task/metric.h"
#include "task/task.h"
#include "train/loop/device_feed.h"
#include "train/loop/own_tokens.h"
#include "train/loop/pipeline_pass.h"

namespace trainctl::train {
namespace {

/// A scope of evaluation mode, with averaged weights.
class EvaluationMode {
 public:
  explicit EvaluationMode(Run& run) : run_(run) {
    run_.model->set_training(false);
    if (run_.ema) {
      exchange();
      return;
    }
    finish_copies();
    averaged_ = run_.optimizer->eval();
    if (averaged_) run_.parallel->after_update();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    if (!has_ended_) {
      try {
        put_back();                      // after a failure: the ranks can't be relied upon
      } catch (const std::exception&) {  // nor the device; the run ends with the first error
      }
    }
    run_.model->set_training(true);
  }
  void end() {
    if (put_back()) run_.parallel->after_update();
    has_ended_ = true;
  }

 private:
  void exchange() {
    finish_copies();
    run_.ema->swap();
    run_.parallel->after_update();
  }
  /// Returns whether this changes anything.
  bool put_back() {
    finish_copies();
    if (run_.ema) run_.ema->swap();
    if (averaged_) run_.optimizer->train();
    return run_.ema || averaged_;
  }

  /// The device may still copy weights that are kept and now changed in host memory.
  void finish_copies() {
    if (run_.parallel->update_device().is_cpu()) runtime::synchronize(run_.device);
  }

  Run& run_;
  bool averaged_ = false;  // by the optimizer
  bool has_ended_ = false;
};

/// A vote on whether all ranks stop. They decide at the same batch, though each has its own speed and its own signals.
class StopVote {
 public:
  StopVote(comm::Group& group, const SignalSource& received) : group_(group), received_(received) {}

  /// Returns a signal that any rank received, or 0.
  int before_batch(std::int64_t batch) {
    if (!received_) return 0;
    if (group_.size() == 1) return received_();
    if (batch < next_) return 0;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    const double batches_per_s = static_cast<double>(batch) / std::max(passed.count(), 1e-3);
    // The smallest of each rank's batches in a second, and (negative) the largest signal.
    std::array<std::int64_t, 2> votes{std::max<std::int64_t>(1, static_cast<std::int64_t>(batches_per_s)),
                                      -received_()};
    group_.all_reduce(at::from_blob(votes.data(), {2}, at::kLong), comm::Reduce::min)->wait();
    next_ = batch + votes[0];
    return static_cast<int>(-votes[1]);
  }

 private:
  comm::Group& group_;
  const SignalSource& received_;
  std::int64_t next_ = 1;  // the batch before which is voted again
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Returns a collector of samples that can be shown; none for a model whose sequences or layers are split over ranks.
std::optional<task::ExampleCollector> make_collector(const Run& run, std::int64_t count) {
  const dataset::SampleSpec& spec = run.data.eval->spec();
  if (count == 0 || !task::ExampleCollector::takes(spec.targets) || run.mesh->size(comm::Axis::context) > 1 ||
      run.mesh->size(comm::Axis::tensor) > 1)
    return std::nullopt;
  return task::ExampleCollector(count, spec, run.device);
}

/// A pool over a group.
class GroupPool final : public task::Pool {
 public:
  GroupPool(comm::Group& group, c10::Device device) : group_(group), device_(device) {}
  c10::Device device() const override { return device_; }

  void sum(at::Tensor& value) override {
    value = value.to(device_).contiguous();
    group_.all_reduce(value, comm::Reduce::sum)->wait();
  }
  void sum(std::int64_t& value) override {
    group_.all_reduce(at::from_blob(&value, {1}, at::kLong), comm::Reduce::sum)->wait();
  }
  std::vector<at::Tensor> gather(const at::Tensor& rows) override {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(group_.size()), 0);
    sizes[static_cast<std::size_t>(group_.rank())] = rows.size(0);
    group_.all_reduce(at::from_blob(sizes.data(), {group_.size()}, at::kLong), comm::Reduce::sum)->wait();
    const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
    std::vector<std::int64_t> shape = rows.sizes().vec();
    shape[0] = longest;
    const at::Tensor mine = at::zeros(shape, rows.options());
    mine.narrow(0, 0, rows.size(0)).copy_(rows);
    shape[0] = longest * group_.size();
    const at::Tensor all = at::empty(shape, rows.options());
    if (longest > 0) group_.all_gather(all, mine)->wait();
    std::vector<at::Tensor> parts;
    for (std::int64_t rank = 0; rank < group_.size(); ++rank)
      parts.push_back(all.narrow(0, rank * longest, sizes[static_cast<std::size_t>(rank)]));
    return parts;
  }

 private:
  comm::Group& group_;
  c10::Device device_;
};

/// What is told the model's answers: samples that are shown, and the metrics beside the task's.
class AnswerListeners {
 public:
  AnswerListeners(const Run& run, std::int64_t num_examples)
      : collector_(make_collector(run, num_examples)), metrics_(run.experiment.metrics) {}
  void listen_to(task::Evaluation& evaluation) {
    if (collector_ || !metrics_.empty())
      evaluation.on_answers = [this](const dataset::Batch& batch, const at::Tensor& answers) {
        if (collector_) collector_->add(batch, answers);
        metrics_.add(batch, answers);
      };
  }
  void pool(task::Pool& pool) {
    if (collector_) collector_->pool(pool);
    metrics_.pool(pool);
  }
  void append_to(task::Metrics& metrics) { metrics_.append_to(metrics); }
  task::Examples examples() { return collector_ ? collector_->examples() : task::Examples{}; }

 private:
  std::optional<task::ExampleCollector> collector_;
  task::ExtraMetrics metrics_;
};

}  // namespace

EvaluationResult evaluate(Run& run, tracking::Sink& sink, const SignalSource& received, std::int64_t num_examples) {
  core::ensure(run.data.eval != nullptr, "evaluate needs an evaluation set");
  const runtime::Span span("evaluate");
  const auto begin = std::chrono::steady_clock::now();
  const at::NoGradGuard no_grad;
  EvaluationMode mode(run);
  DeviceFeed feed(run.device, run.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous,
                  run.data.eval->spec().to_normalize);
  const std::unique_ptr<task::Evaluation> evaluation = run.task->evaluate(*run.model, run.data.eval->spec());
  AnswerListeners listeners(run, num_examples);
  listeners.listen_to(*evaluation);
  dataset::Loader& loader = *run.data.eval;
  loader.seek({});
  std::optional<PipelinePass> pipeline;
  if (run.stages) pipeline.emplace(run);
  std::int64_t done = 0;
  StopVote vote(run.mesh->world(), received);
  const std::int64_t num_batches =
      std::min(loader.batches_per_epoch(), run.experiment.train.eval_steps.value_or(loader.batches_per_epoch()));
  while (done < num_batches) {
    std::optional<dataset::Batch> batch = loader.next();
    if (!batch) break;
    if (const int signal = vote.before_batch(done)) {
      mode.end();
      return {.signal = signal};
    }
    const amp::Autocast autocast = run.autocast();
    dataset::Batch here = feed(own_tokens(std::move(*batch), *run.mesh));
    const bool counts = here.size() > 0;
    if (!counts) here = placeholder(here);  // parameters are gathered, and stages are passed, by all ranks together
    const auto finish = [&](const model::ModelInput& input) {
      if (counts)
        evaluation->add(here, input);
      else
        run.model->forward(input);
    };
    if (pipeline)
      pipeline->evaluate(task::model_input(here), finish);
    else
      finish(task::model_input(here));
    sink.on(tracking::Progress{.step = run.step, .phase = "eval", .done = ++done, .total = num_batches});
  }
  // Ranks that share layers have the same samples.
  if (comm::Group& group =
          run.mesh->over({comm::Axis::pipeline, comm::Axis::data, comm::Axis::shard, comm::Axis::context});
      group.size() > 1) {
    GroupPool pool(group, run.device);
    evaluation->pool(pool);
    listeners.pool(pool);
  }
  mode.end();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  task::Metrics metrics = evaluation->metrics();
  listeners.append_to(metrics);
  return {.metrics = std::move(metrics),
          .details = evaluation->details(),
          .seconds = seconds.count(),
          .examples = run.is_first() ? listeners.examples() : task::Examples{}};
}

}  // namespace trainctl::train
