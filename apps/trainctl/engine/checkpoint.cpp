#include "checkpoint/checkpoint.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "engine.h"
#include "train/run/restore.h"

namespace trainctl::engine {

int run_checkpoint_consolidate(const cli::EngineCall& call) {
  const cli::ConsolidateOptions& options = call.options<cli::ConsolidateOptions>();
  const checkpoint::Checkpoint checkpoint(train::step_directory_of(call.checkpoint));
  checkpoint::consolidate(checkpoint, options.output,
                          options.everything ? checkpoint::Consolidated::everything : checkpoint::Consolidated::model);
  std::printf("%s\n", options.output.c_str());
  return core::kExitDone;
}

int run_checkpoint_verify(const cli::EngineCall& call) {
  std::vector<std::string> damaged;
  nlohmann::ordered_json sound = nlohmann::ordered_json::array();
  for (const checkpoint::Found& found : checkpoint::find_complete(call.checkpoint, &damaged))
    if (checkpoint::find_newest(found.path, &damaged)) sound.push_back(found.path.string());
  if (sound.empty() && damaged.empty()) throw core::Error("no checkpoint in " + call.checkpoint);
  if (call.json) {
    std::printf("%s\n", nlohmann::ordered_json{{"sound", sound}, {"damaged", damaged}}.dump(2).c_str());
  } else {
    for (const auto& path : sound) std::printf("%s: sound\n", path.get<std::string>().c_str());
    for (const std::string& what : damaged) std::printf("%s\n", what.c_str());
  }
  return damaged.empty() ? core::kExitDone : core::kExitFailed;
}

}  // namespace trainctl::engine
