// Image classification: one label a sample.
#pragma once

#include <memory>

#include "task/task.h"

namespace trainctl {

std::unique_ptr<Task> build(const ClassificationConfig& config, const SampleSpec& spec);

}  // namespace trainctl
