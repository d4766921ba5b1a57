#include "plan/trial.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "core/error.h"
#include "dataset/dataset.h"
#include "plan/fake/fake_group.h"
#include "plan/memory/memory_tracker.h"
#include "plan/one_rank.h"
#include "plan/out_of_memory.h"
#include "plan/prediction.h"
#include "runtime/device.h"
#include "train/loop/step.h"
#include "train/run/run.h"

namespace trainctl::plan {
namespace {

void make_steps(const experiment::Experiment& experiment, const TrialPlace& place) {
  MemoryTracker unused;
  const std::unique_ptr<comm::Group> group =
      fake_group({.world = place.world, .copies = place.device.is_cpu()}, unused);
  const train::DryRunSetup setup{.device = place.device, .open_data = [&](const dataset::LoaderOptions& loading) {
                                   return dataset::build(experiment.dataset, loading);
                                 }};
  std::vector<tracking::Notice> unheard;  // the run tells them
  const experiment::Experiment one = as_one_rank(experiment, {.world = place.world, .device = planned(place.device)});
  const std::unique_ptr<train::Run> run =
      train::build(one, unheard, {.group = group.get(), .local_world_size = place.local_world, .dry_run = &setup});
  const CommunicationMemory communication = communication_memory(experiment.distributed, *run);
  for (const at::Tensor& gradient : communication.gradients) at::Tensor(gradient).zero_();
  const std::int64_t micro_batches = std::min<std::int64_t>(run->micro_batches, 2);
  train::Step step(*run);
  communication.attach(*run);
  run->micro_batches = 1;
  step(train::GradNorm::measure);
  communication.attach(*run);
  run->micro_batches = micro_batches;
  step(train::GradNorm::only_to_clip);
  runtime::synchronize(place.device);
}

void give_back_caches(c10::Device device) {
  if (device.is_cpu())
    runtime::release_host_cache();
  else
    at::accelerator::emptyCache();
}

}  // namespace

Trial try_steps(const experiment::Experiment& experiment, const TrialPlace& place) {
  if (experiment.distributed.pipeline > 1)
    throw core::Error("a step of a pipeline can't be tried on one rank: its stages need each other's values")
        .hint("'trainctl plan' predicts what each rank of the pipeline holds");
  const auto begin = std::chrono::steady_clock::now();
  if (place.device.is_cpu()) runtime::limit_host_memory(place.limit.for_tensors());
  runtime::reset_device_peak(place.device);
  Trial trial;
  try {
    make_steps(experiment, place);
    trial.outcome = TrialOutcome::fits;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) trial.outcome = TrialOutcome::out_of_memory;
    trial.failure = core::as_error(error).what();
  }
  trial.peak_bytes = runtime::device_memory(place.device).peak;
  give_back_caches(place.device);
  runtime::reset_device_peak(place.device);
  trial.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return trial;
}

}  // namespace trainctl::plan
