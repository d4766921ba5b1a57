// What the front hands to the engine library, which is built with it and never without.
#pragma once

#include <chrono>
#include <string>

#include "experiment/load.h"

namespace trainctl {

enum class Show { progress, lines, warnings };

struct EngineCall {
  std::string command;  // train, profile, eval
  LoadedExperiment loaded;
  std::string run_dir = "";
  std::string resume = "auto";
  std::string checkpoint = "";
  Show show = Show::lines;
  bool json = false;
  std::chrono::steady_clock::time_point process_start;
};

/// The engine's only exported symbol: `int trainctl_engine_main(const EngineCall&)`. Returns the exit code, or throws.
inline constexpr const char* kEngineMain = "trainctl_engine_main";
using EngineMain = int (*)(const EngineCall&);

/// Loads the engine (and LibTorch with it) and calls it.
int call_engine(const EngineCall& call);

}  // namespace trainctl
