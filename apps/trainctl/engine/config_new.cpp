// An experiment for the user's data, with a batch that fits this machine's memory.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

#include "core/error.h"
#include "core/file.h"
#include "core/terminal.h"
#include "core/text.h"
#include "data_tools/inspect.h"
#include "dataset/sources.h"
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

/// Returns whether opening the samples takes about as long as looking at them did.
bool is_seen_whole(const data_tools::SeenData& seen) {
  constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
  if (const auto* rows = std::get_if<data_tools::SeenRows>(&seen)) return !rows->is_part;
  if (const auto* chat = std::get_if<data_tools::SeenChat>(&seen)) return !chat->is_part;
  if (const auto* texts = std::get_if<data_tools::SeenTexts>(&seen)) return texts->num_bytes <= kMostBytes;
  return true;
}

/// A directory that lives as long as the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "trainctl-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw core::system_error("make", path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Opens the samples as training does, with a cache that is thrown away.
void open_samples(dataset::SourceConfig source) {
  const TemporaryDirectory cache;
  std::visit(
      [&](auto& kind) {
        if constexpr (requires { kind.cache_dir = cache.path(); }) kind.cache_dir = cache.path();
      },
      source.value);
  dataset::open_sources(source, {.evaluated = dataset::EvaluatedSet::test});
}

/// Refuses data of which no experiment can be made that trains.
void check_suggestion(const data_tools::Suggestion& suggestion, const data_tools::SeenData& seen,
                      const cli::ConfigNewOptions& call) {
  std::string problem;
  try {
    const experiment::LoadedExperiment loaded = call.load(suggestion.text());
    check_experiment(loaded);
    if (is_seen_whole(seen)) open_samples(loaded.experiment.dataset.source);
    return;
  } catch (const core::ConfigError& error) {
    problem = error.problems().front().message;
  } catch (const core::Error& error) {
    problem = error.text();
  }
  core::Error error("an experiment for " + call.from + " would not train: " + problem);
  if (problem.find("try: ") == std::string::npos)
    error.hint(std::holds_alternative<data_tools::SeenChat>(seen)
                   ? "correct the row; where turns have tools or parts, chatml can't write them, and the template of a "
                     "trained model may: docs/guides/chat.md"
                   : "correct the data, or name other columns by --label and --text: docs/own_data.md");
  throw error;
}

}  // namespace

int run_config_new(const cli::EngineCall& call) {
  const auto& options = call.options<cli::ConfigNewOptions>();
  const data_tools::SeenData seen =
      data_tools::inspect(options.from, {.eval = options.eval, .label = options.label, .text = options.text});
  check_suggestion(data_tools::suggested_experiment(seen, {.name = options.name}), seen, options);
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
