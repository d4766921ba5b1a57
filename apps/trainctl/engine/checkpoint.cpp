#include "checkpoint/checkpoint.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "engine.h"
#include "train/restore.h"

namespace trainctl {

int run_checkpoint_consolidate(const EngineCall& call) {
  const Checkpoint checkpoint(step_directory_of(call.checkpoint));
  consolidate(checkpoint, call.consolidate.output,
              call.consolidate.everything ? Consolidated::everything : Consolidated::model);
  std::printf("%s\n", call.consolidate.output.c_str());
  return kExitDone;
}

int run_checkpoint_verify(const EngineCall& call) {
  std::vector<std::string> damaged;
  nlohmann::ordered_json sound = nlohmann::ordered_json::array();
  for (const Found& found : find_complete(call.checkpoint, &damaged))
    if (find_newest(found.path, &damaged)) sound.push_back(found.path.string());
  if (sound.empty() && damaged.empty()) throw Error("no checkpoint in " + call.checkpoint);
  if (call.json) {
    std::printf("%s\n", nlohmann::ordered_json{{"sound", sound}, {"damaged", damaged}}.dump(2).c_str());
  } else {
    for (const auto& path : sound) std::printf("%s: sound\n", path.get<std::string>().c_str());
    for (const std::string& what : damaged) std::printf("%s\n", what.c_str());
  }
  return damaged.empty() ? kExitDone : kExitFailed;
}

}  // namespace trainctl
