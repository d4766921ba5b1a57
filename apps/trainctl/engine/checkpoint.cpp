#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/average.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "engine.h"
#include "train/run/restore.h"

namespace trainctl::engine {
namespace {

void warn_of(const std::vector<std::string>& passed_over) {
  for (const std::string& reason : passed_over) core::log().warning("a checkpoint is passed over: " + reason);
}

}  // namespace

int run_checkpoint_consolidate(const cli::EngineCall& call) {
  const cli::ConsolidateOptions& options = call.options<cli::ConsolidateOptions>();
  std::vector<std::string> passed_over;
  const checkpoint::Checkpoint checkpoint(train::step_directory_of(call.checkpoint, &passed_over));
  warn_of(passed_over);
  checkpoint::consolidate(checkpoint, options.output,
                          options.everything ? checkpoint::Consolidated::everything : checkpoint::Consolidated::model);
  core::print(stdout, "%s\n", options.output.c_str());
  return core::kExitDone;
}

int run_checkpoint_average(const cli::EngineCall& call) {
  namespace fs = std::filesystem;
  const cli::AverageOptions& options = call.options<cli::AverageOptions>();
  std::vector<fs::path> sources;
  std::vector<std::string> passed_over;
  const std::vector<checkpoint::Found> complete = checkpoint::find_complete(call.checkpoint, &passed_over);
  warn_of(passed_over);
  for (const checkpoint::Found& found : complete)
    if (!found.is_withdrawn && static_cast<std::int64_t>(sources.size()) < options.last) sources.push_back(found.path);
  if (static_cast<std::int64_t>(sources.size()) < options.last)
    throw core::Error(call.checkpoint + " has " + core::format_count(sources.size()) +
                      " checkpoints, and --last asks for " + core::format_count(options.last))
        .hint("--last " + std::to_string(std::max<std::size_t>(2, sources.size())) +
              ", or train with a larger checkpoint.keep_last");
  const fs::path output = options.output.empty() ? sources.front().parent_path() / "average" : fs::path(options.output);
  // Links such as `latest` lead to steps, too.
  std::error_code unreadable;
  if (fs::weakly_canonical(output, unreadable).filename().string().starts_with("step_"))
    throw core::Error(output.string() + " is the name of a checkpoint of a run, which the average would replace")
        .hint("choose another --output");
  if (fs::exists(output) && !fs::exists(output / "manifest.json"))
    throw core::Error(output.string() + " exists, and is no checkpoint").hint("choose another --output");
  if (checkpoint::write_average(sources, output) == checkpoint::RunningStatistics::averaged)
    core::log().warning(
        "BatchNorm's running statistics are the mean of the checkpoints', which is only near the "
        "statistics of the averaged weights; compare 'trainctl eval' with the last checkpoint");
  for (const fs::path& source : sources) core::print(stdout, "averaged %s\n", source.c_str());
  core::print(stdout, "written to %s\n", output.c_str());
  return core::kExitDone;
}

int run_checkpoint_verify(const cli::EngineCall& call) {
  const cli::VerifyCheckpointOptions& options = call.options<cli::VerifyCheckpointOptions>();
  std::vector<std::string> damaged;
  nlohmann::ordered_json sound = nlohmann::ordered_json::array();
  for (const checkpoint::Found& found : checkpoint::find_complete(call.checkpoint, &damaged))
    if (checkpoint::find_newest(found.path, &damaged)) sound.push_back(found.path.string());
  if (sound.empty() && damaged.empty()) throw core::Error("no checkpoint in " + call.checkpoint);
  if (options.damaged != nullptr) {
    *options.damaged = std::move(damaged);
    return core::kExitDone;
  }
  if (call.json) {
    std::printf("%s\n", core::indented_json(nlohmann::ordered_json{{"sound", sound}, {"damaged", damaged}}).c_str());
  } else {
    for (const auto& path : sound) core::print(stdout, "%s: sound\n", path.get<std::string>().c_str());
    for (const std::string& what : damaged) core::print(stdout, "%s\n", what.c_str());
  }
  return damaged.empty() ? core::kExitDone : core::kExitFailed;
}

}  // namespace trainctl::engine
