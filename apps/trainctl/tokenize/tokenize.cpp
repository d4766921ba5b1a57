// The library behind `trainctl tokenize`: the front loads it, so that no other command needs ICU and SentencePiece.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/terminal.h"
#include "core/text.h"
#include "tokenize_call.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

tokenizer::SpecialTokens special_tokens(const TokenizeOptions& options) {
  const std::string fallback = options.decode ? "leave_out" : "add";
  return (options.special_tokens.empty() ? fallback : options.special_tokens) == "add"
             ? tokenizer::SpecialTokens::add
             : tokenizer::SpecialTokens::leave_out;
}

/// Returns {"ids": [...], "offsets": [[begin, end], ...]}.
std::string encoded_line(const tokenizer::Tokenizer& tokenizer, std::string_view line, const TokenizeOptions& options) {
  const tokenizer::Encoding encoding = tokenizer.encode(line, {special_tokens(options), options.max_length});
  std::string text = "{\"ids\": [";
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(encoding.ids[i]);
  text += "], \"offsets\": [";
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const tokenizer::TextRange& range = encoding.offsets[i];
    text += (i > 0 ? ", [" : "[") + std::to_string(range.begin) + ", " + std::to_string(range.end) + "]";
  }
  text += "]";
  if (options.tokens) {
    text += ", \"tokens\": [";
    for (std::size_t i = 0; i < encoding.ids.size(); ++i)
      text += (i > 0 ? ", " : "") + nlohmann::json(tokenizer.token_of(encoding.ids[i])).dump();
    text += "]";
  }
  return text + "}";
}

/// Decodes [1, 2, ...] or {"ids": [1, 2, ...]}.
std::string decoded_line(const tokenizer::Tokenizer& tokenizer, std::string_view line, const TokenizeOptions& options) {
  const auto json = core::parse_json_or_discard(line);
  const nlohmann::json* const list = json.is_object() && json.contains("ids") ? &json["ids"] : &json;
  if (!list->is_array()) throw core::Error("expected a list of ids, got " + std::string(line.substr(0, 80)));
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& id : *list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(tokenizer.vocab_size()))
      throw core::Error("unknown token id " + id.dump() + "; expected a number below " +
                        std::to_string(tokenizer.vocab_size()));
    ids.push_back(id.get<std::int32_t>());
  }
  return tokenizer.decode(ids, special_tokens(options));
}

void each_line(std::istream& input, const std::string& name, const tokenizer::Tokenizer& tokenizer,
               const TokenizeOptions& options) {
  std::string line;
  for (std::size_t number = 1; std::getline(input, line); ++number) {
    try {
      std::string result =
          options.decode ? decoded_line(tokenizer, line, options) : encoded_line(tokenizer, line, options);
      result += '\n';
      std::fwrite(result.data(), 1, result.size(), stdout);
      if (std::ferror(stdout) != 0) core::flush_standard_output();
    } catch (core::Error& error) {
      throw std::move(error.during("reading " + name + ":" + std::to_string(number)));
    }
  }
  // std::cin takes what C's stdin reads, and doesn't see its errors.
  if (input.bad() || (&input == &std::cin && std::ferror(stdin) != 0)) throw core::system_error("read", name);
}

int usage(const char* message) {
  core::print(stderr, "trainctl: %s\n", message);
  return core::kExitUsage;
}

int train(const TokenizeOptions& options) {
  if (options.files.empty() || options.output.empty())
    return usage("--train-bpe needs --output DIR and FILEs to learn from");
  const std::vector<fs::path> files(options.files.begin(), options.files.end());
  const std::string json = tokenizer::train_bpe(files, options.training);
  fs::create_directories(options.output);
  const fs::path path = fs::path(options.output) / "tokenizer.json";
  core::write_file_atomically(path, json);
  core::print(stdout, "%s: %s tokens\n", path.c_str(),
              core::format_count(tokenizer::load_tokenizer(path)->vocab_size()).c_str());
  return core::kExitDone;
}

int tokenize(const TokenizeOptions& options) {
  if (options.train) return train(options);
  if (options.tokenizer.empty()) return usage("which tokenizer? --tokenizer PATH, or --train-bpe to make one");
  const auto tokenizer = tokenizer::load_tokenizer(options.tokenizer);
  if (options.files.empty()) each_line(std::cin, "standard input", *tokenizer, options);
  for (const std::string& file : options.files) {
    if (std::filesystem::is_directory(file)) throw core::Error(file + " is a directory; expected a file of text");
    std::ifstream input(file, std::ios::binary);
    if (!input) throw core::system_error("open", file);
    each_line(input, file, *tokenizer, options);
  }
  return core::kExitDone;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int trainctl_tokenize_main(const TokenizeOptions& options) {
  return tokenize(options);
}

}  // namespace trainctl::cli
