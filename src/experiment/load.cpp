#include "experiment/load.h"

#include <optional>
#include <utility>

#include "config/emit.h"
#include "config/flatten.h"
#include "config/overlay.h"
#include "config/read.h"
#include "config/write.h"
#include "experiment/check.h"
#include "experiment/renamed.h"
#include "experiment/shape.h"

namespace trainctl::experiment {

namespace {

/// Lets a length that `--set` gives, in steps or epochs, take the place of the file's in the other unit.
void replace_length(config::Node& written) {
  config::Node* const train = written.find("train");
  config::Node* const steps = train == nullptr ? nullptr : train->find("steps");
  config::Node* const epochs = train == nullptr ? nullptr : train->find("epochs");
  if (steps == nullptr || epochs == nullptr) return;
  if (steps->kind == config::NodeKind::null || epochs->kind == config::NodeKind::null) return;
  const bool sets_steps = steps->origin.kind == config::OriginKind::command_line;
  const bool sets_epochs = epochs->origin.kind == config::OriginKind::command_line;
  if (sets_steps == sets_epochs) return;
  config::Node& replaced = sets_steps ? *epochs : *steps;
  replaced = config::Node{.origin = (sets_steps ? steps : epochs)->origin};
}

LoadedExperiment resolve(config::Node written, std::span<const std::string> sets, config::Problems& problems) {
  const config::Shape& shape = experiment_shape();
  for (const std::string& assignment : sets) config::apply_set(shape, written, assignment, problems);
  config::refuse_renamed(written, kRenamed, problems);
  replace_length(written);

  LoadedExperiment loaded;
  config::read_into(shape, written, &loaded.experiment, problems);
  loaded.node = config::write_value(shape, &loaded.experiment);
  config::adopt_origins(loaded.node, written);
  check_experiment(loaded.experiment, loaded.node, problems);
  problems.throw_if_any();

  loaded.resolved_yaml = config::emit(loaded.node);
  loaded.flat = config::flatten(loaded.node);
  return loaded;
}

}  // namespace

LoadedExperiment load_experiment(const std::filesystem::path& path, std::span<const std::string> sets) {
  config::Problems problems;
  std::optional<config::Node> written = config::load_with_bases(experiment_shape(), path, problems);
  if (!written) problems.throw_if_any();
  return resolve(std::move(*written), sets, problems);
}

LoadedExperiment with_settings(const LoadedExperiment& loaded, std::span<const std::string> sets) {
  config::Problems problems;
  return resolve(loaded.node, sets, problems);
}

}  // namespace trainctl::experiment
