// The run directory's provenance.json: the command, the machine, the versions, and which file or option each value of
// the config is from.
#pragma once

#include <filesystem>

#include "experiment/load.h"
#include "train/run/run.h"

namespace trainctl::engine {

/// Describes the start that begins now. A run that went on after a stop has the description of its last start. Logs a
/// warning if the file can't be written.
void write_provenance(const std::filesystem::path& run_directory, const train::Run& run,
                      const experiment::LoadedExperiment& loaded);

/// The commit that a directory's repository stands at.
struct GitCommit {
  std::string commit;  // "" if there is no repository, or none that can be read
  std::string branch;  // "" if no branch is checked out
};

/// Reads the repository that `directory` lies in, without a git program. Changes that are not committed are not seen.
GitCommit git_commit_of(std::filesystem::path directory);

}  // namespace trainctl::engine
