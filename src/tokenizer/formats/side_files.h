// What the files beside a tokenizer's say: tokenizer_config.json, special_tokens_map.json and added_tokens.json, as
// AutoTokenizer of transformers reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_cursor.h"
#include "tokenizer/pipeline/added_tokens.h"
#include "tokenizer/post_processor/truncate.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::tokenizer {

/// A special token that a class of transformers has unless a file says otherwise.
struct UsualToken {
  const char* key;  // "eos_token"
  std::string_view content;
};

/// Returns those of a class; none for a class that has none or isn't known here.
std::span<const UsualToken> usual_tokens_of(std::string_view tokenizer_class);

/// A token beside the vocabulary.
struct SideToken {
  AddedToken token;
  std::optional<std::uint32_t> id{};  // that the file gives
  std::string place;                  // the file and the key
  bool has_own_role = false;          // a role that only the model's own class knows, such as image_token
};

/// Returns tokenizer_config.json in the directory of `path`; an empty object if there is none.
Json tokenizer_config_beside(const std::filesystem::path& path);

/// Returns tokenizer_config.json in the directory of `path`, with the keys of special_tokens_map.json where
/// transformers reads them: unless tokenizer_config.json has added_tokens_decoder. An empty object if there is neither.
Json config_beside(const std::filesystem::path& path);

/// Returns the network's config.json in the directory of `path`; an empty object if there is none.
Json model_config_beside(const std::filesystem::path& path);

/// Returns the class of transformers that tokenizer_config.json or config.json names, or else that follows from the
/// model_type in config.json. It is without "Fast", and the first of its names; empty: no file says it.
std::string tokenizer_class_beside(const std::filesystem::path& path, const Json& config);

/// Returns the class with which AutoTokenizer reads the directory of `path`; empty: none, so that a tokenizer.json is
/// read as it is.
std::string auto_tokenizer_class(const std::filesystem::path& path, const Json& config);

inline constexpr std::string_view kSaveAsJson =
    "save it as a tokenizer.json: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers";

/// Refuses a class that isn't one of `expected`, since its files mean something else. `form` names the files.
void require_class(const std::string& found, std::span<const std::string_view> expected,
                   const std::filesystem::path& path, std::string_view form, std::string_view hint = kSaveAsJson);

/// Returns the content of a token that a configuration names, as a text or an object.
std::optional<std::string> named_token(const Json& config, const char* key);
/// Returns the content of a token with a role that the class can't do without; `usual` if the file has no such key.
/// Throws core::Error if it is null.
std::string needed_token(const Json& config, const char* key, const std::string& usual,
                         const std::filesystem::path& path);

/// Returns the contents of the tokens that have a role in the configuration, or else in their class.
std::set<std::string> contents_with_roles(const Json& config, std::span<const UsualToken> usual);

/// Returns the tokens of all side files in the order in which transformers adds them.
std::vector<SideToken> side_tokens(const std::filesystem::path& path, const Json& config,
                                   std::span<const UsualToken> usual);
/// Returns those with an id in a file alone: of added_tokens_decoder or added_tokens.json.
std::vector<SideToken> side_tokens_with_ids(const std::filesystem::path& path, const Json& config);

/// The vocabulary that side tokens come beside.
struct KnownTokens {
  std::function<std::optional<std::uint32_t>(std::string_view)> find;
  std::uint32_t size = 0;
};

/// Appends to `added` the tokens that it lacks, with the ids that transformers gives: the vocabulary's, or the next
/// ones. An id of a file that differs from it is an Error.
void add_side_tokens(const std::vector<SideToken>& tokens, const KnownTokens& known, const Normalizer* normalizer,
                     std::vector<AddedToken>& added);

/// Sets the roles that the configuration gives to tokens, or else their class does.
void set_roles(const Json& config, std::span<const UsualToken> usual, const KnownTokens& known,
               const std::vector<AddedToken>& added, SpecialTokenIds& roles);

/// Returns the end of a text that truncation removes, as the configuration states it; `otherwise`: if it doesn't.
TruncationSide truncation_side(const std::filesystem::path& path, const Json& config,
                               TruncationSide otherwise = TruncationSide::right);

/// Returns whether transformers removes spaces before punctuation of a decoded text, which it does for no BPE.
bool cleans_up_text(const Json& config);

/// Returns a text that differs where any of the tokens does; empty: there are none.
std::string fingerprint_of(const std::vector<AddedToken>& added);

}  // namespace trainctl::tokenizer
