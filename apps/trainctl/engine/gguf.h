// `trainctl export --format gguf`.
#pragma once

#include "../engine_call.h"

namespace trainctl::engine {

/// Writes the checkpoint as one GGUF file, with the tokenizer of the dataset. Returns the exit status.
int export_gguf_file(const cli::EngineCall& given);

}  // namespace trainctl::engine
