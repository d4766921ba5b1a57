// What `compare` asks of a process of its own: a few steps, timed, and nothing written.
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/units.h"
#include "engine.h"
#include "runtime/device.h"
#include "train/loop/step.h"

namespace trainctl::engine {
int run_measure(const cli::EngineCall& call) {
  const cli::MeasureOptions& options = call.options<cli::MeasureOptions>();
  std::vector<tracking::Notice> notices;
  const std::unique_ptr<train::Run> run = train::build(call.loaded.experiment, notices);
  train::Step step(*run);
  nlohmann::ordered_json times = nlohmann::ordered_json::array();
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  std::int64_t samples = 0;
  for (std::int64_t i = 0; i < options.warmup + options.steps; ++i) {
    runtime::synchronize(run->device);
    const auto begin = std::chrono::steady_clock::now();
    const train::StepResult result = step(train::GradNorm::only_to_clip);
    runtime::synchronize(run->device);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    losses.push_back(result.loss.item<double>() / static_cast<double>(std::max<std::int64_t>(result.count, 1)));
    if (i < options.warmup) continue;
    times.push_back(time.count());
    samples += result.work.samples;
  }
  const nlohmann::ordered_json document{
      {"device", runtime::describe(run->device)},
      {"step_ms", std::move(times)},
      {"samples_per_step", static_cast<double>(samples) / static_cast<double>(options.steps)},
      {"losses", std::move(losses)},
      {"peak_memory_mib", static_cast<double>(runtime::device_memory(run->device).peak) / core::kMiB}};
  std::printf("%s\n", document.dump().c_str());
  return 0;
}

}  // namespace trainctl::engine
