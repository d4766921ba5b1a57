// Whether what a config names is there, and can be built: files and their first rows, patterns that must match a layer,
// published weights.
#include <filesystem>

#include "config/problems.h"
#include "core/hub_name.h"
#include "dataset/first_rows.h"
#include "dataset/missing_inputs.h"
#include "engine.h"
#include "plan/plan.h"

namespace trainctl::engine {
namespace {

void add(config::Problems& problems, const config::Node& experiment, const dataset::InputProblem& problem) {
  const config::Node* written = config::find_path(experiment, problem.key);
  problems.add(written == nullptr ? experiment.origin : written->origin, problem.key, problem.message);
}

}  // namespace

void check_experiment(const experiment::LoadedExperiment& loaded) {
  const experiment::Experiment& experiment = loaded.experiment;
  config::Problems problems;
  for (const dataset::InputProblem& missing : dataset::missing_inputs(experiment.dataset))
    add(problems, loaded.node, missing);
  if (problems.empty())
    for (const dataset::InputProblem& wrong : dataset::wrong_first_rows(experiment.dataset))
      add(problems, loaded.node, wrong);
  std::error_code ignored;
  if (const auto& weights = experiment.model.init_from; weights && !std::filesystem::exists(*weights, ignored))
    add(problems, loaded.node, {"model.init_from", core::missing_weights(*weights)});
  if (const auto& lora = experiment.model.lora;
      lora && lora->init_from && !std::filesystem::exists(*lora->init_from, ignored))
    add(problems, loaded.node, {"model.lora.init_from", core::missing_weights(*lora->init_from)});
  if (const std::string* file = file_of(experiment.model.network);
      file != nullptr && !std::filesystem::exists(*file, ignored))
    add(problems, loaded.node, {"model.path", "there is no file " + *file});
  problems.throw_if_any();
  plan::dry_build(experiment);
}

int run_check(const cli::EngineCall& call) {
  check_experiment(call.loaded);
  return call.options<cli::CheckOptions>().coordinates ? run_coordinate_check(call) : core::kExitDone;
}

}  // namespace trainctl::engine
