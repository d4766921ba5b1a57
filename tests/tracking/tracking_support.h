// What the tests of tracking/ share: a run directory of their own, and events to send.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/temporary_directory.h"
#include "tracking/event.h"

namespace trainctl::testing {

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Each line parsed; a line that is no JSON fails the test.
inline std::vector<nlohmann::ordered_json> lines_of_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  std::vector<nlohmann::ordered_json> records;
  for (std::string line; std::getline(file, line);) records.push_back(nlohmann::ordered_json::parse(line));
  return records;
}

inline tracking::StepLogged step_at(std::int64_t number) {
  tracking::StepLogged step;
  step.step = number;
  step.epoch = 1;
  step.loss = 0.43125;
  step.lr = 0.0012;
  step.samples_per_s = 21034.4;
  step.step_ms = 6;
  step.data_wait_ms = 0.018;
  step.memory_mib = 812.4;
  return step;
}

inline tracking::RunStarted started(std::int64_t total_steps, std::int64_t first_step = 0) {
  tracking::RunStarted run;
  run.name = "demo";
  run.total_steps = total_steps;
  run.first_step = first_step;
  run.num_parameters = 421642;
  run.device = "cpu";
  return run;
}

inline tracking::RunFinished ended(tracking::Outcome outcome, std::int64_t steps) {
  tracking::RunFinished run;
  run.outcome = outcome;
  run.steps = steps;
  run.wall_s = 3;
  run.samples_per_s = 100;
  run.peak_memory_mib = 5;
  return run;
}

inline tracking::Evaluated evaluation_at(std::int64_t number) {
  return {.step = number, .metrics = {{"loss", 0.29}, {"accuracy", 0.9162}}, .details = "", .seconds = 1.4};
}

}  // namespace trainctl::testing
