// The problems of an experiment file that a test writes.
#pragma once

#include <string>

#include "core/error.h"
#include "experiment/load.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment {

/// All problems of an experiment file, a line each, without the file's name.
inline std::string problem_lines(const std::string& text) {
  const testing::TemporaryDirectory folder;
  const auto path = folder.write("f.yaml", text);
  std::string texts;
  try {
    load_experiment(path);
  } catch (const core::ConfigError& error) {
    for (const core::Problem& problem : error.problems())
      texts += problem.text().substr(path.string().size() + 1) + "\n";
  }
  return texts;
}

}  // namespace trainctl::experiment
