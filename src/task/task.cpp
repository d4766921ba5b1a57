#include "task/task.h"

#include "core/error.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

/// Returns the task that fits data with such targets.
std::string_view task_for(dataset::Targets targets) {
  switch (targets) {
    case dataset::Targets::labels:
      return ClassificationConfig::kind;
    case dataset::Targets::values:
      return RegressionConfig::kind;
    case dataset::Targets::token_labels:
      return TokenClassificationConfig::kind;
    case dataset::Targets::next_tokens:
      return CausalLmConfig::kind;
    case dataset::Targets::masked_tokens:
      return MaskedLmConfig::kind;
  }
  throw std::logic_error("unknown targets");
}

}  // namespace

std::int64_t num_targets(const dataset::Batch& batch) {
  return batch.target_positions.defined() ? batch.target_positions.size(0) : batch.targets.numel();
}

std::unique_ptr<Task> build(const TaskConfig& config, const dataset::SampleSpec& spec) {
  const std::string wanted(task_for(spec.targets));
  if (config.kind() != wanted)
    throw core::Error("task.kind is " + std::string(config.kind()) + ", but the dataset's targets are for " + wanted)
        .hint("task: {kind: " + wanted + "}, or another dataset");
  return config.visit([&](const auto& task) { return build(task, spec); });
}

}  // namespace trainctl::task
