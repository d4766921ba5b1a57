#include "train/restore.h"

#include "checkpoint/checkpoint.h"
#include "core/error.h"

namespace trainctl {

void restore(Run& run, const std::filesystem::path& step_directory, const std::map<std::string, std::string>& config,
             Sink& sink) {
  const Loaded loaded = load(step_directory);
  for (const std::string& change : changed_keys(loaded.info, config))
    sink.on(Notice{Level::warning, "changed since the checkpoint: " + change});
  SnapshotReader reader(loaded.snapshot);
  run.visit_state(reader);
  for (const std::string& name : reader.unused())
    sink.on(Notice{Level::warning, "the checkpoint's " + name + " has no place in this run and is left out"});
  if (loaded.info.data_fingerprint != run.data.fingerprint)
    sink.on(Notice{Level::warning, "the training data is not what the checkpoint was trained on"});
  run.data.train->seek(run.next_sample);
}

std::filesystem::path step_directory_of(const std::filesystem::path& path) {
  std::vector<std::string> passed_over;
  if (const std::optional<Found> found = find_newest(path, &passed_over)) return found->path;
  std::string reasons;
  for (const std::string& reason : passed_over) reasons += "\n    " + reason;
  throw Error("no complete checkpoint in " + path.string() + reasons)
      .hint("give a run directory, its checkpoints directory, or one step_… directory");
}

}  // namespace trainctl
