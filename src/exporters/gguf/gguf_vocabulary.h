// A tokenizer inside a GGUF file.
#pragma once

#include <filesystem>

#include "exporters/gguf/gguf_file.h"

namespace trainctl::exporters {

/// Adds the tokens, merges, roles and chat template of a tokenizer of Hugging Face. The file has `vocab_size` tokens:
/// ids that the tokenizer lacks are unused. Throws Error for a tokenizer that isn't byte-level BPE.
void add_vocabulary(GgufFile& file, const std::filesystem::path& tokenizer, std::int64_t vocab_size);

}  // namespace trainctl::exporters
