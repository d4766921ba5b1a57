#include "experiment/auto_values.h"

#include <charconv>
#include <type_traits>
#include <utility>

#include "experiment/resolve.h"

namespace trainctl::experiment {
namespace {

using activation_checkpointing::BlocksConfig;

/// Returns the kind with this name among those that `auto` may stand for, none of which has keys.
template <class... Kinds>
std::optional<BlocksConfig> kind_named(std::string_view name, const config::OneOf<Kinds...>*) {
  std::optional<BlocksConfig> found;
  const auto look = [&]<class Kind>(const Kind& kind) {
    if (std::is_empty_v<Kind> && !Kind::traits.is_chosen_by_plan && Kind::kind == name) found = kind;
  };
  (look(Kinds{}), ...);
  return found;
}

std::optional<std::int64_t> recorded_integer(const std::map<std::string, std::string>& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const std::string& text = found->second;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

bool chooses_batch_size(const Experiment& experiment) {
  return experiment.dataset.batch_size.is_auto();
}

bool chooses_recomputation(const Experiment& experiment) {
  return config::traits_of(experiment.activation_checkpointing.blocks).is_chosen_by_plan;
}

Experiment with_values(Experiment experiment, const AutoValues& values) {
  if (values.batch_size) experiment.dataset.batch_size = *values.batch_size;
  if (values.blocks) experiment.activation_checkpointing.blocks = *values.blocks;
  return experiment;
}

LoadedExperiment with_values(const LoadedExperiment& loaded, const AutoValues& values) {
  config::Problems problems;
  return resolve(with_values(loaded.experiment, values), loaded.node, problems);
}

std::optional<BlocksConfig> recomputation_named(std::string_view kind) {
  return kind_named(kind, static_cast<const BlocksConfig*>(nullptr));
}

AutoValues recorded_values(const std::map<std::string, std::string>& config) {
  AutoValues values;
  values.batch_size = recorded_integer(config, "dataset.batch_size");
  if (const auto kind = config.find("activation_checkpointing.kind"); kind != config.end())
    values.blocks = recomputation_named(kind->second);
  return values;
}

bool has_same_batches(const Experiment& experiment, const std::map<std::string, std::string>& config) {
  return recorded_integer(config, "dataset.batch_size") == experiment.dataset.samples_per_batch() &&
         recorded_integer(config, "accumulation.steps") == experiment.accumulation.steps;
}

}  // namespace trainctl::experiment
