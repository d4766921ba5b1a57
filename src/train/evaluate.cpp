#include "train/evaluate.h"

#include <ATen/core/grad_mode.h>

#include <chrono>

#include "core/error.h"
#include "runtime/span.h"
#include "train/device_feed.h"

namespace trainctl {
namespace {

/// Evaluation mode, and averaged weights, for as long as it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(Run& run) : run_(run) {
    run_.model->set_training(false);
    if (run_.ema) run_.ema->swap();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    if (run_.ema) run_.ema->swap();
    run_.model->set_training(true);
  }

 private:
  Run& run_;
};

}  // namespace

EvaluationResult evaluate(Run& run, Sink& sink) {
  ensure(run.data.eval != nullptr, "evaluate needs an evaluation set");
  const Span span("evaluate");
  const auto begin = std::chrono::steady_clock::now();
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(run);
  DeviceFeed feed(run.device, run.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  const std::unique_ptr<Evaluation> evaluation = run.task->evaluate(*run.model, run.data.eval->spec());
  Loader& loader = *run.data.eval;
  loader.seek({});
  std::int64_t done = 0;
  while (std::optional<Batch> batch = loader.next()) {
    const Autocast autocast(run.experiment.amp, run.device);
    evaluation->add(feed(std::move(*batch)));
    sink.on(Progress{.step = run.step, .phase = "eval", .done = ++done, .total = loader.batches_per_epoch()});
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {evaluation->metrics(), evaluation->details(), seconds.count()};
}

}  // namespace trainctl
