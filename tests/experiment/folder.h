// A directory of experiment files that goes with the test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "experiment/load.h"

namespace trainctl::experiment {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("trainctl_experiment_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// All problems of an experiment file, a line each, without the file's name.
inline std::string problem_lines(const std::string& text) {
  const Folder folder;
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
