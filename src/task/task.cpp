#include "task/task.h"

#include "task/classification.h"

namespace trainctl {

std::unique_ptr<Task> build(const TaskConfig& config, const SampleSpec& spec) {
  return config.visit([&](const auto& task) { return build(task, spec); });
}

}  // namespace trainctl
