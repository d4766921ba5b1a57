// A tokenizer inside a GGUF file.
#pragma once

#include <filesystem>

#include <optional>
#include <string>

#include "exporters/gguf/gguf_file.h"
#include "pretrained/model_info.h"

namespace trainctl::exporters {

/// Adds the tokens, merges, roles and chat template of a tokenizer of Hugging Face; `chat_template` takes the place of
/// its own. The file has facts.vocab_size tokens: ids that the tokenizer lacks are unused. Throws Error for a tokenizer
/// that isn't byte-level BPE, and for one that llama.cpp has no name for, which would give other ids.
void add_vocabulary(GgufFile& file, const std::filesystem::path& tokenizer, const pretrained::ModelInfo& facts,
                    const std::optional<std::string>& chat_template);

}  // namespace trainctl::exporters
