// What the classes of transformers make of a tokenizer.json. Most of them take the vocabulary and the merges alone, and
// build the rest themselves.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/pipeline/added_tokens.h"

namespace trainctl::tokenizer {

/// Puts into a tokenizer.json the parts that AutoTokenizer reads in the place of the file's, because of the class that
/// the files beside it name. What can't be followed is an Error. `config` is config_beside() of the path. Returns the
/// parts that ids depend on, as a text; empty: they are those of the file.
std::string take_pipeline_of_class(Json& document, const Json& config, const std::string& tokenizer_class,
                                   const std::filesystem::path& path);

/// Refuses special tokens whose flags the class drops.
void require_plain_special_tokens(const std::vector<AddedToken>& added, const std::string& tokenizer_class,
                                  const std::filesystem::path& path);

}  // namespace trainctl::tokenizer
