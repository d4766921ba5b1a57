// Classes of a published network, in the order of its outputs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::pretrained {

/// Throws Error if the config.json of the weights at `path` has the classes `ours` in another order. Every metric would
/// be wrong, and no shape would differ.
void check_class_order(const std::filesystem::path& path, const std::vector<std::string>& ours);

}  // namespace trainctl::pretrained
