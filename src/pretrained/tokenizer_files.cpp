#include "pretrained/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The file names of tokenizers, each with its name in an export.
constexpr std::array<std::pair<const char*, const char*>, 13> kTokenizerFiles = {{
    {"tokenizer.json", "tokenizer.json"},
    {"tokenizer_config.json", "tokenizer_config.json"},
    {"special_tokens_map.json", "special_tokens_map.json"},
    {"added_tokens.json", "added_tokens.json"},
    {"chat_template.jinja", "chat_template.jinja"},
    {"vocab.txt", "vocab.txt"},
    {"vocab.json", "vocab.json"},
    {"merges.txt", "merges.txt"},
    {"encoder.json", "vocab.json"},
    {"vocab.bpe", "merges.txt"},
    {"tokenizer.model", "tokenizer.model"},
    {"spiece.model", "spiece.model"},
    {"sentencepiece.bpe.model", "sentencepiece.bpe.model"},
}};

/// Keys of transformers' GenerationConfig that change a text however its tokens are drawn, with the value that doesn't.
constexpr std::array<std::pair<const char*, double>, 21> kTextKeys = {{
    {"repetition_penalty", 1},
    {"encoder_repetition_penalty", 1},
    {"no_repeat_ngram_size", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"num_beams", 1},
    {"guidance_scale", 1},
    {"penalty_alpha", 0},
    {"suppress_tokens", 0},
    {"begin_suppress_tokens", 0},
    {"bad_words_ids", 0},
    {"force_words_ids", 0},
    {"sequence_bias", 0},
    {"forced_bos_token_id", -1},
    {"forced_eos_token_id", -1},
    {"exponential_decay_length_penalty", 0},
    {"stop_strings", 0},
    {"watermarking_config", 0},
    {"max_time", 0},
    {"token_healing", 0},
}};

/// Keys of transformers' GenerationConfig that change which tokens are drawn, with the value that doesn't.
constexpr std::array<std::pair<const char*, double>, 8> kSamplingKeys = {{
    {"temperature", 1},
    {"top_k", 0},
    {"top_p", 1},
    {"min_p", 0},
    {"top_h", 0},
    {"typical_p", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
}};

/// Returns whether a key of a GenerationConfig changes nothing.
bool is_neutral(const Json& value, double neutral) {
  return value.is_null() || value == false || (value.is_structured() && value.empty()) ||
         (value.is_number() && value.get<double>() == neutral);
}

/// Returns a JSON file's object; null if there is no file.
Json object_in(const fs::path& path) {
  if (!fs::is_regular_file(path)) return nullptr;
  Json json = core::parse_json_or_discard<Json>(core::read_file(path));
  if (!json.is_object()) throw core::Error(path.string() + " is no JSON object");
  return json;
}

/// Returns the names of the files of additional chat templates, relative to the tokenizer's directory.
std::vector<std::string> names_of_templates(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& [name, file] : chat_template::additional_templates(directory))
    names.push_back(fs::path(chat_template::kTemplateDirectory) / file.filename());
  return names;
}

/// Names the class of the copied tokenizer if the network beside it would make transformers take another. Returns the
/// file that it wrote, if any.
std::optional<fs::path> keep_class(const fs::path& tokenizer, const fs::path& directory) {
  fs::path copy = directory;
  if (fs::is_regular_file(tokenizer)) {
    const auto usual = std::ranges::find(kTokenizerFiles, tokenizer.filename().string(),
                                         [](const auto& file) { return std::string(file.first); });
    if (usual == kTokenizerFiles.end()) return std::nullopt;  // transformers looks for no such file
    copy /= usual->second;
  }
  std::string problem = "the ids or the special tokens differ";
  const auto fingerprint_of = [&](const fs::path& path) -> std::optional<std::string> {
    try {
      return tokenizer::load_tokenizer(path)->fingerprint();
    } catch (const core::Error& error) {
      problem = error.what();
      return std::nullopt;
    }
  };
  const std::optional<std::string> original = fingerprint_of(tokenizer);
  const auto is_read_alike = [&] { return fingerprint_of(copy) == original; };
  if (!original || is_read_alike()) return std::nullopt;  // one that isn't read here goes along as it is
  const fs::path config = directory / "tokenizer_config.json";
  const fs::path from = fs::is_directory(tokenizer) ? tokenizer : fs::absolute(tokenizer).parent_path();
  std::string own = tokenizer::auto_tokenizer_class(from / "tokenizer.json");
  if (own.empty() && fs::is_regular_file(directory / "tokenizer.json")) own = "PreTrainedTokenizerFast";
  std::optional<fs::path> written;
  if (!own.empty()) {
    Json json = object_in(config);
    json["tokenizer_class"] = own;
    core::write_file_atomically(config, core::indented_json(json) + "\n");
    written = config;
  }
  if (!written || !is_read_alike())
    core::log().warning("beside this network, transformers reads the tokenizer at " + tokenizer.string() +
                        " otherwise than in training: " + problem +
                        "; a tokenizer_config.json beside it with its tokenizer_class helps");
  return written;
}

}  // namespace

std::vector<std::string> names_of_tokenizer_files(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& [name, called] : kTokenizerFiles)
    if (name == std::string_view(called) && fs::is_regular_file(directory / name)) names.emplace_back(name);
  for (const std::string& name : names_of_templates(directory)) names.push_back(name);
  return names;
}

std::map<std::string, fs::path> tokenizer_copies(const fs::path& tokenizer) {
  const fs::path from = fs::is_directory(tokenizer) ? tokenizer : fs::absolute(tokenizer).parent_path();
  std::map<std::string, fs::path> copies;
  for (const auto& [name, called] : kTokenizerFiles)
    if (fs::is_regular_file(from / name)) copies[called] = from / name;
  const std::string own = tokenizer.filename();
  if (fs::is_regular_file(tokenizer) && own != "encoder.json" && own != "vocab.bpe") copies.emplace(own, tokenizer);
  for (const std::string& name : names_of_templates(from)) copies[name] = from / name;
  if (copies.empty()) throw core::Error("no tokenizer files in " + from.string()).hint("look at dataset.tokenizer");
  return copies;
}

std::vector<fs::path> copy_tokenizer(const fs::path& tokenizer, const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& [name, source] : tokenizer_copies(tokenizer)) {
    files.push_back(directory / name);
    fs::create_directories(files.back().parent_path());
    core::write_file_atomically(files.back(), core::read_file(source));
  }
  if (const std::optional<fs::path> written = keep_class(tokenizer, directory))
    if (std::ranges::find(files, *written) == files.end()) files.push_back(*written);
  return files;
}

std::string checksum_of_tokenizer(const fs::path& tokenizer) {
  const fs::path directory = fs::is_directory(tokenizer) ? tokenizer : tokenizer.parent_path();
  std::string sums;
  if (fs::is_regular_file(tokenizer)) sums += core::checksum_file(tokenizer);
  for (const auto& [name, called] : kTokenizerFiles)
    if (fs::is_regular_file(directory / name)) sums += std::string(name) + " " + core::checksum_file(directory / name);
  return sums.empty() ? sums : core::checksum(sums);
}

std::string name_of_template(const std::string& name) {
  if (name == chat_template::kDefaultTemplate) return chat_template::kTemplateFile;
  if (fs::path(name).filename() != name)
    throw core::Error("the tokenizer has a chat template called `" + name + "`, which is no name of a file");
  return fs::path(chat_template::kTemplateDirectory) / (name + ".jinja");
}

std::vector<fs::path> write_chat_templates(const chat_template::NamedTemplates& templates, const fs::path& directory) {
  std::error_code none;  // that are there
  fs::remove(directory / chat_template::kTemplateFile, none);
  for (const std::string& name : names_of_templates(directory)) fs::remove(directory / name, none);
  std::vector<fs::path> files;
  for (const auto& [name, source] : templates) {
    files.push_back(directory / name_of_template(name));
    fs::create_directories(files.back().parent_path());
    core::write_file_atomically(files.back(), source);
  }
  // Programs that know the older form alone would read another template.
  const fs::path config = directory / "tokenizer_config.json";
  if (Json json = object_in(config); json.contains("chat_template")) {
    json.erase("chat_template");
    core::write_file_atomically(config, core::indented_json(json) + "\n");
  }
  return files;
}

GenerationSettings read_generation_settings(const fs::path& directory) {
  GenerationSettings settings{.file = directory / kGenerationConfig};
  if (!fs::is_regular_file(settings.file)) settings.file = directory / "config.json";  // as transformers does
  const Json json = object_in(settings.file);
  Json ends = json.is_object() ? json.value("eos_token_id", Json()) : Json();
  if (ends.is_number_integer()) ends = Json::array({ends});
  for (const Json& id : ends)
    if (id.is_number_integer()) settings.ends.push_back(id.get<std::int32_t>());
  if (!json.is_object()) return settings;
  for (const auto& [key, neutral] : kTextKeys)
    if (!is_neutral(json.value(key, Json()), neutral)) settings.not_computed.emplace_back(key);
  for (const char* key : {"bos_token_id", "decoder_start_token_id"})
    if (const Json id = json.value(key, Json()); id.is_number_integer())
      settings.decoder_start = id.get<std::int64_t>();
  if (json.value("do_sample", Json()) != true) return settings;
  for (const auto& [key, neutral] : kSamplingKeys)
    if (const Json value = json.value(key, Json()); !is_neutral(value, neutral)) settings.sampling[key] = value.dump();
  if (json.value("top_k", Json()).is_null()) settings.sampling["top_k"] = "50";  // transformers' default
  return settings;
}

bool needs_generation_config(const fs::path& base, const ModelInfo& facts) {
  if (facts.end_of_answer) return true;
  return !base.empty() &&
         (fs::is_regular_file(base / kGenerationConfig) || read_generation_settings(base).ends.size() >= 2);
}

std::optional<fs::path> write_generation_config(const fs::path& base, const ModelInfo& facts,
                                                const fs::path& directory) {
  if (!needs_generation_config(base, facts)) return std::nullopt;
  Json json = base.empty() ? Json() : object_in(base / kGenerationConfig);
  Json ends = base.empty() ? Json::array() : Json(read_generation_settings(base).ends);
  if (json.is_null()) json = Json::object();
  const auto add = [&](const std::optional<std::int32_t>& id) {
    if (id && std::ranges::find(ends, Json(*id)) == ends.end()) ends.push_back(*id);
  };
  if (ends.empty()) add(facts.roles.end);
  add(facts.end_of_answer);
  if (!ends.empty()) json["eos_token_id"] = ends.size() == 1 ? ends.front() : ends;
  json.erase("_from_model_config");  // else transformers takes config.json's
  if (facts.decoder_start) json["decoder_start_token_id"] = *facts.decoder_start;
  const fs::path file = directory / kGenerationConfig;
  core::write_file_atomically(file, core::indented_json(json) + "\n");
  return file;
}

}  // namespace trainctl::pretrained
