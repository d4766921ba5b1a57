#include "tokenizer/formats/side_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "tokenizer/formats/formats.h"
#include "tokenizer/formats/registered_classes.h"

namespace trainctl::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytesBeside = std::uint64_t{1} << 30;
constexpr const char* kMap = "special_tokens_map.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kDecoder = "added_tokens_decoder";
constexpr const char* kListed = "extra_special_tokens";
constexpr const char* kOldListed = "additional_special_tokens";

/// transformers' order.
constexpr std::array kNamedTokens{"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

/// Returns an object; an empty one if there is no such file, or it holds something else.
Json object_beside(const fs::path& path, const char* name) {
  const fs::path file = path.parent_path() / name;
  if (!fs::exists(file)) return Json::object();
  Json json = parse_json(file, core::read_file(file, kMostBytesBeside));
  return json.is_object() ? json : Json::object();
}

AddedToken special_named(std::string content) {
  AddedToken token;
  token.content = std::move(content);
  token.special = true;
  return token;
}

/// Reads a token that is written as an object.
AddedToken read_token(const JsonCursor& json, bool is_special) {
  AddedToken token;
  token.content = json.text("content");
  token.single_word = json.flag_or("single_word", false);
  token.left_strip = json.flag_or("lstrip", false);
  token.right_strip = json.flag_or("rstrip", false);
  token.special = is_special;
  token.normalized = json.flag_or("normalized", !is_special);
  return token;
}

/// Reads a special token that is written as a text or an object; none for another value.
std::optional<AddedToken> read_special(const Json& value, const std::string& place) {
  if (value.is_string()) return special_named(value.get<std::string>());
  if (value.is_object() && value.contains("content")) return read_token(JsonCursor(value, place), true);
  return std::nullopt;
}

std::uint32_t read_id(const std::string& text, const std::string& place) {
  std::uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id > kMaxTokenId)
    throw core::Error(place + ": expected the id of a token, got '" + text + "'");
  return id;
}

/// Returns the tokens that the configuration lists without a role. One that is an object is special if it says so.
std::vector<AddedToken> listed_tokens(const Json& config, const char* key, const std::string& place) {
  std::vector<AddedToken> tokens;
  const auto list = config.find(key);
  if (list == config.end() || !list->is_structured()) return tokens;
  for (const Json& value : *list) {
    if (list->is_array() && value.is_object() && value.contains("content"))
      tokens.push_back(read_token(JsonCursor(value, place + key), value.value("special", Json()) == true));
    else if (auto token = read_special(value, place + key))
      tokens.push_back(std::move(*token));
  }
  return tokens;
}

/// Returns the class that tokenizer_config.json names, or config.json, without "Fast"; empty: neither does.
std::string named_class(const Json& config, const Json& model) {
  std::string found = core::text_member(config, "tokenizer_class");
  if (found.empty()) found = core::text_member(model, "tokenizer_class");
  if (found.ends_with("Fast")) found.resize(found.size() - std::string_view("Fast").size());
  return found;
}

std::string place_in(const fs::path& path, const char* name) {
  return (path.parent_path() / name).string() + ": ";
}

/// Returns the contents of the tokens that make one of added_tokens.json special. As in transformers, those that
/// special_tokens_map.json lists without a role don't.
std::set<std::string> special_contents(const Json& config, const fs::path& path) {
  std::set<std::string> contents = contents_with_roles(config, /*usual=*/{});
  for (const AddedToken& token : listed_tokens(config, kListed, place_in(path, kConfig)))
    if (token.special) contents.insert(token.content);
  return contents;
}

std::vector<SideToken> sorted_by_id(std::vector<SideToken> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const SideToken& one, const SideToken& other) { return *one.id < *other.id; });
  return tokens;
}

/// Gives a token the flags with which transformers adds it anew. A special token stays one.
void take_flags(const AddedToken& last, const Normalizer* normalizer, AddedToken& same) {
  const std::uint32_t id = same.id;
  const bool was_special = same.special;
  same = last;
  same.id = id;
  same.special = last.special || was_special;
  same.pattern = same.normalized ? normalized(normalizer, same.content) : same.content;
}

/// Gives a token that tokenizer.json has the flags of added_tokens_decoder, which transformers takes.
void take_decoder_flags(const SideToken& side, const Normalizer* normalizer, AddedToken& same) {
  if (!side.id || !side.place.ends_with(kDecoder)) return;
  if (*side.id != same.id)
    throw core::Error(side.place + ": '" + side.token.content + "' has id " + std::to_string(*side.id) + ", and " +
                      std::to_string(same.id) + " in tokenizer.json");
  take_flags(side.token, normalizer, same);
}

}  // namespace

Json tokenizer_config_beside(const fs::path& path) {
  return object_beside(path, kConfig);
}

Json config_beside(const fs::path& path) {
  Json config = tokenizer_config_beside(path);
  if (const auto old = config.find(kOldListed); old != config.end()) {
    const Json list = *old;
    config.erase(kOldListed);
    if (!config.contains(kListed)) config[kListed] = list;
  }
  if (config.value("split_special_tokens", Json()) == true)
    throw core::Error(place_in(path, kConfig) +
                      "split_special_tokens: true takes special tokens of a text apart, which is not done here")
        .hint("remove the key, if special tokens of texts may stay whole");
  if (const Json files = config.value("fast_tokenizer_files", Json()); files.is_array())
    for (const Json& file : files)
      if (file.is_string() && file.get<std::string>().starts_with("tokenizer.") && file != "tokenizer.json")
        throw core::Error(place_in(path, kConfig) + "fast_tokenizer_files names " + file.dump() +
                          ", which some versions of transformers read in place of tokenizer.json")
            .hint("rename the file that is meant to tokenizer.json, and remove the key");
  if (config.contains(kDecoder)) return config;
  const Json map = object_beside(path, kMap);
  for (const auto& [key, value] : map.items()) {
    const Json listed = config.value(kListed, Json());
    if (key != kListed || !value.is_array() || !(listed.is_array() || listed.is_null())) {
      config[key] = value;
      continue;
    }
    for (Json token : value) {
      if (token.is_object()) token["special"] = true;
      if (std::ranges::find(listed, token) == listed.end()) config[kListed].push_back(token);
    }
  }
  if (config.contains(kListed)) config.erase(kOldListed);
  return config;
}

Json model_config_beside(const fs::path& path) {
  return object_beside(path, "config.json");
}

std::string tokenizer_class_beside(const fs::path& path, const Json& config) {
  const Json model = model_config_beside(path);
  if (const std::string named = named_class(config, model); !named.empty()) return std::string(class_of_alias(named));
  static const std::map<std::string, std::string> kClasses = {{"bert", "BertTokenizer"},
                                                              {"distilbert", "BertTokenizer"},
                                                              {"electra", "BertTokenizer"},
                                                              {"gpt2", "GPT2Tokenizer"},
                                                              {"roberta", "RobertaTokenizer"},
                                                              {"qwen2", "Qwen2Tokenizer"},
                                                              {"qwen3", "Qwen2Tokenizer"},
                                                              {"t5", "T5Tokenizer"},
                                                              {"llama", "LlamaTokenizer"},
                                                              {"mistral", "LlamaTokenizer"},
                                                              {"gemma", "GemmaTokenizer"},
                                                              {"gemma2", "GemmaTokenizer"},
                                                              {"xlm-roberta", "XLMRobertaTokenizer"}};
  const auto found = kClasses.find(core::text_member(model, "model_type"));
  return found == kClasses.end() ? "" : found->second;
}

std::string auto_tokenizer_class(const fs::path& path, const Json& config) {
  constexpr std::string_view kAsItIs = "TokenizersBackend";
  const Json model = model_config_beside(path);
  const std::string model_type = core::text_member(model, "model_type");
  const std::string_view registered = registered_class(model_type);
  const std::string named = named_class(config, model);
  // Code that the directory brings isn't run, but makes transformers go by the named class.
  const bool brings_code =
      config.contains("auto_map") && (config["auto_map"].is_array() || config["auto_map"].contains("AutoTokenizer"));
  if (brings_code && !named.empty()) return std::string(class_of_alias(named));
  if (registered == kAsItIs) return "";
  // transformers knows that the files of Qwen 2 name a wrong class.
  const bool takes_registered = named.empty() || model_type == "qwen2";
  return std::string(class_of_alias(takes_registered ? registered : named));
}

std::string auto_tokenizer_class(const fs::path& file) {
  return auto_tokenizer_class(file, tokenizer_config_beside(file));
}

void require_class(const std::string& found, std::span<const std::string_view> expected, const fs::path& path,
                   std::string_view form, std::string_view hint) {
  if (found.empty() || std::find(expected.begin(), expected.end(), found) != expected.end()) return;
  throw core::Error(path.parent_path().string() + ": the tokenizer_class is " + found + ", whose " + std::string(form) +
                    " isn't read here; expected " +
                    core::list_words(std::vector<std::string>(expected.begin(), expected.end()), "or"))
      .hint(std::string(hint));
}

std::optional<std::string> named_token(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    return (*found)["content"].get<std::string>();
  return std::nullopt;
}

std::string needed_token(const Json& config, const char* key, const std::string& usual, const fs::path& path) {
  // transformers goes on with a token of the name "None".
  if (const auto found = config.find(key); found != config.end() && found->is_null())
    throw core::Error(path.string() + " needs a " + key + ", and the files beside it say null")
        .hint(std::string("remove ") + key + " from tokenizer_config.json and special_tokens_map.json to take " +
              usual);
  return named_token(config, key).value_or(usual);
}

std::span<const UsualToken> usual_tokens_of(std::string_view tokenizer_class) {
  static constexpr UsualToken kGpt2[] = {
      {"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}};
  static constexpr UsualToken kGptNeoX[] = {{"bos_token", "<|endoftext|>"},
                                            {"eos_token", "<|endoftext|>"},
                                            {"unk_token", "<|endoftext|>"},
                                            {"pad_token", "<|padding|>"}};
  static constexpr UsualToken kQwen[] = {
      {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};
  static constexpr UsualToken kRoberta[] = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"unk_token", "<unk>"},
                                            {"sep_token", "</s>"},   {"pad_token", "<pad>"}, {"cls_token", "<s>"},
                                            {"mask_token", "<mask>"}};
  static constexpr UsualToken kBert[] = {{"unk_token", "[UNK]"},
                                         {"sep_token", "[SEP]"},
                                         {"pad_token", "[PAD]"},
                                         {"cls_token", "[CLS]"},
                                         {"mask_token", "[MASK]"}};
  static constexpr UsualToken kLlama[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  static constexpr UsualToken kT5[] = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
  static constexpr UsualToken kGemma[] = {{"bos_token", "<bos>"},
                                          {"eos_token", "<eos>"},
                                          {"unk_token", "<unk>"},
                                          {"pad_token", "<pad>"},
                                          {"mask_token", "<mask>"}};
  if (tokenizer_class == "GPT2Tokenizer" || tokenizer_class == "CodeGenTokenizer") return kGpt2;
  if (tokenizer_class == "GPTNeoXTokenizer") return kGptNeoX;
  if (tokenizer_class == "Qwen2Tokenizer") return kQwen;
  if (tokenizer_class == "RobertaTokenizer") return kRoberta;
  if (tokenizer_class == "BertTokenizer") return kBert;
  if (tokenizer_class == "LlamaTokenizer") return kLlama;
  if (tokenizer_class == "T5Tokenizer") return kT5;
  if (tokenizer_class == "GemmaTokenizer") return kGemma;
  return {};
}

std::vector<SideToken> side_tokens_with_ids(const fs::path& path, const Json& config) {
  std::vector<SideToken> tokens;
  if (const auto decoder = config.find(kDecoder); decoder != config.end() && decoder->is_object()) {
    const std::string place = place_in(path, kConfig) + kDecoder;
    for (const auto& [id, value] : decoder->items()) {
      const JsonCursor json(value, place + "." + id);
      AddedToken token = read_token(json, json.flag_or("special", false));
      tokens.push_back({.token = std::move(token), .id = read_id(id, place), .place = place});
    }
    return sorted_by_id(std::move(tokens));
  }
  const Json listed = object_beside(path, kAdded);
  const std::set<std::string> special = special_contents(config, path);
  for (const auto& [content, id] : listed.items()) {
    AddedToken token;
    token.content = content;
    token.special = special.contains(content);
    token.normalized = !token.special;
    const std::string place = place_in(path, kAdded) + "'" + content + "'";
    tokens.push_back({.token = std::move(token), .id = read_id(id.dump(), place), .place = place});
  }
  return sorted_by_id(std::move(tokens));
}

std::set<std::string> contents_with_roles(const Json& config, std::span<const UsualToken> usual) {
  std::set<std::string> contents;
  // A network has roles of its own, such as image_token.
  for (const auto& [key, value] : config.items())
    if (key.ends_with("_token"))
      if (auto name = named_token(config, key.c_str())) contents.insert(std::move(*name));
  for (const UsualToken& one : usual)
    if (!config.contains(one.key)) contents.emplace(one.content);
  return contents;
}

std::vector<SideToken> side_tokens(const fs::path& path, const Json& config, std::span<const UsualToken> usual) {
  std::vector<SideToken> tokens = side_tokens_with_ids(path, config);
  const std::set<std::string> with_roles = contents_with_roles(config, usual);
  for (SideToken& side : tokens) side.token.special = side.token.special || with_roles.contains(side.token.content);
  const std::string place = place_in(path, kConfig);
  const auto add = [&](std::optional<AddedToken> token, const std::string& key, bool has_own_role = false) {
    if (token) tokens.push_back({.token = std::move(*token), .place = place + key, .has_own_role = has_own_role});
  };
  for (const char* key : kNamedTokens) {
    const auto given = config.find(key);
    if (given != config.end()) {
      add(read_special(*given, place + key), key);
      continue;
    }
    for (const UsualToken& one : usual)
      if (std::string_view(one.key) == key) add(special_named(std::string(one.content)), key);
  }
  // Tokens with roles that only the model's own class knows.
  for (const auto& [key, value] : config.items())
    if (key.ends_with("_token") && (value.is_string() || value.is_object()) &&
        std::find(kNamedTokens.begin(), kNamedTokens.end(), std::string_view(key)) == kNamedTokens.end())
      add(read_special(value, place + key), key, /*has_own_role=*/true);
  for (const char* key : {kListed, kOldListed})
    for (AddedToken& token : listed_tokens(config, key, place))
      add(std::move(token), key, /*has_own_role=*/config[key].is_object());
  return tokens;
}

void add_side_tokens(const std::vector<SideToken>& tokens, const KnownTokens& known, const Normalizer* normalizer,
                     std::vector<AddedToken>& added) {
  std::set<std::string> contents;
  std::set<std::string> named;  // that only roles add
  std::uint32_t next = known.size;
  int num_new_roles = 0;
  for (const AddedToken& token : added) {
    contents.insert(token.content);
    next = std::max(next, token.id + 1);
  }
  for (const SideToken& side : tokens) {
    if (side.token.content.empty()) continue;
    if (!contents.insert(side.token.content).second) {
      AddedToken& same = *std::ranges::find(added, side.token.content, &AddedToken::content);
      if (!side.id && named.contains(side.token.content)) take_flags(side.token, normalizer, same);
      take_decoder_flags(side, normalizer, same);
      continue;
    }
    if (!side.id) named.insert(side.token.content);
    AddedToken token = side.token;
    const std::optional<std::uint32_t> id = known.find(token.content);
    token.id = id ? *id : next++;
    if (!id && side.has_own_role && ++num_new_roles > 1)
      throw core::Error(side.place + ": '" + token.content +
                        "' has no id, and neither has another token with a role of " +
                        "its own; transformers numbers them by their order in the file, which isn't read here")
          .hint("list these tokens and their ids under added_tokens_decoder");
    if (token.id > kMaxTokenId) throw core::Error(side.place + ": too many tokens");
    if (side.id && *side.id != token.id)
      throw core::Error(side.place + ": '" + token.content + "' has id " + std::to_string(*side.id) +
                        ", but transformers gives it " + std::to_string(token.id) +
                        (id ? ", its id in the vocabulary" : ", the first one behind the vocabulary"))
          .hint("use the tokenizer.json of the model, or the vocabulary that these tokens were added to");
    token.pattern = token.normalized ? normalized(normalizer, token.content) : token.content;
    added.push_back(std::move(token));
  }
}

void set_roles(const Json& config, std::span<const UsualToken> usual, const KnownTokens& known,
               const std::vector<AddedToken>& added, SpecialTokenIds& roles) {
  const auto set = [&](std::optional<std::int32_t>& role, const char* key) {
    std::optional<std::string> name = named_token(config, key);
    if (!config.contains(key))
      for (const UsualToken& one : usual)
        if (std::string_view(one.key) == key) name = one.content;
    if (!name) return;
    for (const AddedToken& token : added)
      if (token.content == *name) role = static_cast<std::int32_t>(token.id);
    if (const auto id = known.find(*name)) role = static_cast<std::int32_t>(*id);
  };
  set(roles.pad, "pad_token");
  set(roles.unknown, "unk_token");
  set(roles.begin, "cls_token");
  set(roles.begin, "bos_token");
  set(roles.end, "sep_token");
  set(roles.end, "eos_token");
  set(roles.mask, "mask_token");
}

TruncationSide truncation_side(const fs::path& path, const Json& config, TruncationSide otherwise) {
  const auto found = config.find("truncation_side");
  if (found == config.end()) return otherwise;
  if (*found == "left") return TruncationSide::left;
  if (*found == "right") return TruncationSide::right;
  throw core::Error(place_in(path, kConfig) + "truncation_side: expected \"left\" or \"right\", got " + found->dump());
}

bool cleans_up_text(const Json& config) {
  return config.value("clean_up_tokenization_spaces", Json()) == true;
}

std::string fingerprint_of(const std::vector<AddedToken>& added) {
  if (added.empty()) return "";
  std::string all;
  for (const AddedToken& token : added)
    all += std::to_string(token.id) + (token.single_word ? 'w' : '-') + (token.left_strip ? 'l' : '-') +
           (token.right_strip ? 'r' : '-') + (token.normalized ? 'n' : '-') + (token.special ? 's' : '-') +
           token.content + '\n';
  return ":" + core::checksum(std::string_view(all));
}

}  // namespace trainctl::tokenizer
