// Parts of what evaluations report, shared by the tasks with classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "task/class_counts.h"

namespace trainctl::task {

/// A tensor of int64 as a list on the host.
std::vector<std::int64_t> host_counts(const at::Tensor& counts);

/// Adds class_names (where there are any), per_class_accuracy and per_class_f1; null where a class doesn't occur.
void add_per_class(nlohmann::ordered_json& document, const ClassCounts& counts, const std::vector<std::string>& names);

}  // namespace trainctl::task
