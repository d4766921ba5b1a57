// Configs whose lists of files may hold directories, globs and braces.
#pragma once

#include <string>
#include <vector>

namespace trainctl::dataset {

/// Each file by its name. A plain name stays, whether or not there is such a file: who reads it says so.
std::vector<std::string> named_files(const std::vector<std::string>& patterns, std::string_view key);

/// Returns the config with the files of `train` and `eval` named one by one, if it has such lists.
template <class Config>
Config with_files_named(const Config& config) {
  Config named = config;
  if constexpr (requires { config.train.files.size(); }) {
    named.train.files = named_files(config.train.files, "dataset.train.files");
    if (named.eval) named.eval->files = named_files(named.eval->files, "dataset.eval.files");
  }
  return named;
}

}  // namespace trainctl::dataset
