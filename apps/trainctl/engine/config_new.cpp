// An experiment for the user's data, with a batch that fits this machine's memory.
#include <cstdio>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/terminal.h"
#include "core/text.h"
#include "data_tools/inspect.h"
#include "engine.h"
#include "plan/memory/kernel_workspaces.h"
#include "plan/plan.h"
#include "plan/prediction.h"
#include "plan/time/device_rates.h"
#include "runtime/device.h"

namespace trainctl::engine {
namespace {

/// Returns the plan of a step, with the sizes that only the data tells taken as small ones.
plan::MemoryPlan plan_of(const experiment::Experiment& experiment) {
  const c10::Device device = runtime::open_device(experiment.device);
  plan::KernelWorkspaces workspaces(plan::MeasuredRates::default_directory());
  const plan::DryRunOptions options{.device = plan::planned(device), .workspaces = &workspaces, .assumes_sizes = true};
  return plan::plan_memory(experiment, options, plan::memory_of(experiment, device, 1), plan::FitSearch::none);
}

/// Returns the first line of what the planner can't do.
std::string reason_of(const core::Error& error) {
  const std::string what = error.what();
  return what.substr(0, what.find_first_of("\n."));
}

/// Writes an experiment whose step fits into this machine's memory: the batch is halved until it does. An experiment
/// that can't be planned is written as it is.
data_tools::Suggestion sized_experiment(const data_tools::SeenData& seen, const cli::ConfigNewOptions& call) {
  constexpr std::int64_t kMostHalvings = 1 << 10;
  data_tools::SuggestionOptions options{.name = call.name};
  data_tools::Suggestion suggestion;
  std::string planned;
  for (; options.batch_divisor <= kMostHalvings; options.batch_divisor *= 2) {
    suggestion = data_tools::suggested_experiment(seen, options);
    std::optional<plan::MemoryPlan> plan;
    try {
      plan = plan_of(call.load(suggestion.text()).experiment);
    } catch (const core::Error& error) {
      planned = "# not planned: " + reason_of(error);
      break;
    }
    planned = "# planned: a step needs about " + core::format_bytes(static_cast<double>(plan->step.at_peak.total())) +
              " of the " + core::format_bytes(static_cast<double>(plan->limit.bytes)) + " of memory";
    if (plan->fits()) break;
  }
  if (options.batch_divisor > 1)
    planned += "; the usual batch is " + std::to_string(options.batch_divisor) + " times as large";
  suggestion.remarks += planned + "\n";
  return suggestion;
}

}  // namespace

int run_config_new(const cli::EngineCall& call) {
  const auto& options = call.options<cli::ConfigNewOptions>();
  const data_tools::SeenData seen =
      data_tools::inspect(options.from, {.eval = options.eval, .label = options.label, .text = options.text});
  const data_tools::Suggestion suggestion = sized_experiment(seen, options);
  const std::string text = suggestion.text();
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return core::kExitDone;
  }
  core::write_file_atomically(options.output, text);
  core::print(stdout, "%s", suggestion.remarks.c_str());
  core::print(stdout, "written to %s; next: trainctl train %s\n", options.output.c_str(), options.output.c_str());
  return core::kExitDone;
}

}  // namespace trainctl::engine
