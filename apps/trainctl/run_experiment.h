// From a command's options to a call of the engine.
#pragma once

#include "command.h"
#include "engine_call.h"

namespace trainctl::cli {

/// Loads and checks the experiment before anything heavy is touched.
EngineCall engine_call(EngineCommand command, const ExperimentOptions& experiment, const RunOptions& run);

}  // namespace trainctl::cli
