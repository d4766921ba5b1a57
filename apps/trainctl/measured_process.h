// A call of the engine in a process of its own: what one leaves in memory, another doesn't find.
#pragma once

#include <string>

#include "engine_call.h"

namespace trainctl::cli {

/// What the call writes to standard output. Where it fails, an Error that names `what` and ends with its last
/// message on standard error. Before the engine is loaded into this process.
std::string output_of_process(const EngineCall& call, const std::string& what);

}  // namespace trainctl::cli
