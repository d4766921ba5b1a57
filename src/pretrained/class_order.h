// Classes of a published network, in the order of its outputs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pretrained/weights_source.h"

namespace trainctl::pretrained {

/// Who says which of the data's classes is which output.
enum class ClassesBy { user, data };

/// Throws Error if config.json, or the run, of the weights has one of the classes `ours` at another output.
/// Every metric would be wrong, and no shape would differ. Case is ignored where it tells no classes apart. With
/// ClassesBy::data it throws for other names, too, since nobody says which output they are. LABEL_0 is no name, nor is
/// 0 beside classes that are no such numbers.
void check_class_order(const WeightsSource& weights, const std::vector<std::string>& ours, ClassesBy by);

/// Compares the classes that an export at `path` lists with the data's. Throws for another number of classes, too.
void check_exported_classes(const std::filesystem::path& path, const std::vector<std::string>& theirs,
                            const std::vector<std::string>& ours, ClassesBy by);

}  // namespace trainctl::pretrained
