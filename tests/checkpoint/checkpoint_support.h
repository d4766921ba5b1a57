// State to save in the tests of checkpoint/.
#pragma once

#include <ATen/ops/full.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "checkpoint/checkpoint.h"
#include "core/file.h"

namespace trainctl::testing {

/// Weights, a slot of the optimizer and a value that all tell the step.
inline checkpoint::ShownState state_of(std::int64_t step, std::int64_t size = 1000) {
  checkpoint::ShownState state;
  state.tensors["model.fc.weight"] = {at::full({size}, static_cast<double>(step)), {}};
  state.tensors["optimizer.momentum.fc.weight"] = {at::full({size}, static_cast<double>(-step)), {}};
  state.values["step"] = step;
  return state;
}

inline checkpoint::CheckpointInfo info_of(std::int64_t step, std::map<std::string, double> metrics = {}) {
  return {.step = step, .config = {{"seed", "1"}}, .metrics = std::move(metrics), .data_fingerprint = "abc"};
}

inline bool tells(const std::filesystem::path& path, std::int64_t step) {
  const checkpoint::Checkpoint checkpoint(path);
  const checkpoint::TensorMap tensors = checkpoint.read_whole();
  const auto all = [&](const char* name, double value) { return tensors.at(name).eq(value).all().item<bool>(); };
  return checkpoint.info().step == step && std::get<std::int64_t>(checkpoint.values().at("step")) == step &&
         all("model.fc.weight", static_cast<double>(step)) &&
         all("optimizer.momentum.fc.weight", static_cast<double>(-step));
}

inline std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

inline void flip_bit(const std::filesystem::path& path, std::size_t bit) {
  std::string bytes = core::read_file(path);
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace trainctl::testing
