// What goes along with a language model, for whoever gets it: tokenizer, chat template and settings of generation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chat_template/template_files.h"
#include "pretrained/model_info.h"

namespace trainctl::pretrained {

constexpr const char* kGenerationConfig = "generation_config.json";

/// Returns the names of the files in a directory that others read as a tokenizer.
std::vector<std::string> names_of_tokenizer_files(const std::filesystem::path& directory);

/// Returns the files that a tokenizer is kept in, by the names that others look for. `tokenizer` is one of them, or
/// their directory.
std::map<std::string, std::filesystem::path> tokenizer_copies(const std::filesystem::path& tokenizer);

/// Copies the files that tokenizer_copies() names, beside a network's config.json. Where that would make transformers
/// take another class, the copy names its own; warns if this doesn't help. Returns the copies.
std::vector<std::filesystem::path> copy_tokenizer(const std::filesystem::path& tokenizer,
                                                  const std::filesystem::path& directory);

/// Returns the checksum of all files that a tokenizer is kept in; "" if there are none.
std::string checksum_of_tokenizer(const std::filesystem::path& tokenizer);

/// Returns the file name of a chat template, relative to the tokenizer's directory.
std::string name_of_template(const std::string& name);

/// Writes chat templates beside a tokenizer's copied files, in the place of its own; returns the files.
std::vector<std::filesystem::path> write_chat_templates(const chat_template::NamedTemplates& templates,
                                                        const std::filesystem::path& directory);

/// What a published directory says of generated texts.
struct GenerationSettings {
  std::filesystem::path file{};                   // generation_config.json; where there is none, config.json
  std::vector<std::int32_t> ends{};               // of `file`'s eos_token_id
  std::vector<std::string> not_computed{};        // keys of `file` that change texts, and have no effect here
  std::map<std::string, std::string> sampling{};  // keys of `file` with which transformers draws, and their values
  std::optional<std::int64_t> decoder_start{};    // token that a decoder begins with
};

/// Reads generation_config.json and config.json; a directory without them says nothing.
GenerationSettings read_generation_settings(const std::filesystem::path& directory);

/// Returns whether generation_config.json says more than config.json: `base` has one, or several tokens end a text.
bool needs_generation_config(const std::filesystem::path& base, const ModelInfo& facts);

/// Writes generation_config.json: the settings of the one in `base`, if any, with the tokens that end an answer here.
/// Writes nothing, and returns nothing, if it isn't needed.
std::optional<std::filesystem::path> write_generation_config(const std::filesystem::path& base, const ModelInfo& facts,
                                                             const std::filesystem::path& directory);

}  // namespace trainctl::pretrained
