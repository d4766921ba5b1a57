#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train_bpe.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

struct TokenizeOptions {
  std::string tokenizer;
  std::vector<std::string> files;
  std::string special_tokens;
  std::optional<std::int64_t> max_length;
  bool tokens = false;
  bool decode = false;
  bool train = false;
  tokenizer::BpeTraining training;
  std::string output;
};

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
  const auto json = nlohmann::json::parse(line, nullptr, false);
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
}

int usage(const char* message) {
  std::fprintf(stderr, "trainctl: %s\n", message);
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
  std::printf("%s: %s tokens\n", path.c_str(),
              core::format_count(tokenizer::load_tokenizer(path)->vocab_size()).c_str());
  return core::kExitDone;
}

int tokenize(const TokenizeOptions& options) {
  if (options.train) return train(options);
  if (options.tokenizer.empty()) return usage("which tokenizer? --tokenizer PATH, or --train-bpe to make one");
  const auto tokenizer = tokenizer::load_tokenizer(options.tokenizer);
  if (options.files.empty()) each_line(std::cin, "standard input", *tokenizer, options);
  for (const std::string& file : options.files) {
    std::ifstream input(file, std::ios::binary);
    if (!input) throw core::system_error("open", file);
    each_line(input, file, *tokenizer, options);
  }
  return core::kExitDone;
}

}  // namespace

Action declare_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  app.add_option("FILE", options->files, "Text files, read in order (default: standard input)");
  app.add_option("--tokenizer", options->tokenizer,
                 "tokenizer.json, vocab.txt, encoder.json, SentencePiece model, or a directory with one")
      ->type_name("PATH");
  app.add_flag("--tokens", options->tokens, "Also print the tokens' texts");
  app.add_flag("--decode", options->decode, "Convert lines of ids back to text");
  app.add_option("--special-tokens", options->special_tokens,
                 "Add special tokens to each line (default), or print them when decoding (default: leave out)")
      ->check(CLI::IsMember({"add", "leave_out"}));
  app.add_option("--max-length", options->max_length,
                 "Truncate lines to this number of tokens, including special tokens")
      ->check(CLI::PositiveNumber);
  app.add_flag("--train-bpe", options->train, "Learn a byte-level BPE from the files and write OUTPUT/tokenizer.json");
  app.add_option("--vocab-size", options->training.vocab_size, "Tokens to learn")->capture_default_str();
  app.add_option("--min-frequency", options->training.min_frequency, "Rarer pairs are not merged")
      ->capture_default_str();
  app.add_option("--output", options->output, "Directory of the learned tokenizer")->type_name("DIR");
  return [options] { return tokenize(*options); };
}

}  // namespace trainctl::cli
