// state.json: what a checkpoint holds besides tensors.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"

namespace trainctl {

/// Numbers read back bit for bit, those that aren't finite too.
std::string write_values(const Snapshot& snapshot, const CheckpointInfo& info);

struct Values {
  decltype(Snapshot::values) values;
  CheckpointInfo info;
};
Values read_values(const std::filesystem::path& path);

}  // namespace trainctl
