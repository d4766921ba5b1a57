// Configs whose lists of files may hold directories, globs and braces.
#pragma once

#include <string>
#include <vector>

#include "dataset/files/file_list.h"

namespace trainctl::dataset {

/// Returns each file by its name; of a directory, those with the endings. A plain name stays, whether or not there is
/// such a file: the reader of the file reports it.
std::vector<std::string> named_files(const std::vector<std::string>& patterns, std::string_view key,
                                     const FileEndings& endings = {});

/// Returns the config with the files of `train`, `eval` and `test` named one by one, if it has such lists.
template <class Config>
Config with_files_named(const Config& config) {
  Config named = config;
  if constexpr (requires { config.train.files.size(); }) {
    named.train.files = named_files(config.train.files, "dataset.train.files");
    if (named.eval) named.eval->files = named_files(named.eval->files, "dataset.eval.files");
    if (named.test) named.test->files = named_files(named.test->files, "dataset.test.files");
  }
  return named;
}

}  // namespace trainctl::dataset
