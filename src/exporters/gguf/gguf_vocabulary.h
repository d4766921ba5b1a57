// A tokenizer inside a GGUF file.
#pragma once

#include <filesystem>

#include "chat_template/template_files.h"
#include "exporters/gguf/gguf_file.h"
#include "pretrained/model_info.h"

namespace trainctl::exporters {

/// Adds the tokens, merges, roles and chat templates of a tokenizer of Hugging Face. Templates of training, if there
/// are any, take the place of its own. The file has facts.vocab_size tokens: ids that the tokenizer lacks are unused.
/// Throws Error for a tokenizer that isn't byte-level BPE, and for one that llama.cpp has no name for, which would give
/// other ids.
void add_vocabulary(GgufFile& file, const std::filesystem::path& tokenizer, const pretrained::ModelInfo& facts,
                    const chat_template::NamedTemplates& of_training);

}  // namespace trainctl::exporters
