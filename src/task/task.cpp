#include "task/task.h"

#include "core/error.h"
#include "task/tasks.h"

namespace trainctl::task {

model::ModelInput model_input(const dataset::Batch& batch) {
  return {.values = batch.inputs,
          .token_types = batch.token_types,
          .key_mask = batch.key_mask,
          .documents = batch.documents,
          .decoder_values = batch.decoder_inputs};
}

std::int64_t num_targets(const dataset::Batch& batch) {
  return batch.target_positions.defined() ? batch.target_positions.size(0) : batch.targets.numel();
}

std::unique_ptr<Task> build(const PluggedTaskConfig& config, const dataset::SampleSpec& spec) {
  return config.interface().build(config.config(), spec);
}

std::unique_ptr<Task> build(const TaskConfig& config, const dataset::SampleSpec& spec, const Companions& companions) {
  const std::string wanted(task_for(spec.targets));
  if (!is_for(config, spec.targets))
    throw core::Error("task.kind is " + std::string(config.kind()) + ", but the dataset's targets are for " + wanted)
        .hint("task: {kind: " + wanted + "}, or another dataset");
  return config.visit([&](const auto& task) {
    using Config = std::remove_cvref_t<decltype(task)>;
    if constexpr (std::same_as<Config, DpoConfig>)
      return build(task, spec, companions.reference);
    else if constexpr (*Config::traits.takes_teacher)
      return build(task, spec, companions.teacher);
    else
      return build(task, spec);
  });
}

}  // namespace trainctl::task
