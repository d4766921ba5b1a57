// Reads tiktoken's rank files. A line holds a token's bytes in base64 and its rank, which is also its id. Each pair of
// tokens that forms a token is a merge of that token's rank.
#include <algorithm>
#include <charconv>

#include "core/base64.h"
#include "core/error.h"
#include "core/file.h"
#include "tokenizer/formats/formats.h"
#include "tokenizer/pipeline/pipeline.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

constexpr std::uint32_t kLlama3Tokens = 128000;

struct Rank {
  std::string bytes;
  std::uint32_t rank;
};

std::optional<Rank> parse_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = line.find(' ');
  if (space > 4096) return std::nullopt;
  std::uint32_t rank = 0;
  const std::string_view number = line.substr(space + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (error != std::errc{} || end != number.data() + number.size() || rank > kMaxTokenId) return std::nullopt;
  auto bytes = core::from_base64(line.substr(0, space));
  if (!bytes || bytes->empty()) return std::nullopt;
  return Rank{std::move(*bytes), rank};
}

std::vector<Rank> parse_ranks(const std::filesystem::path& path, std::string_view text) {
  std::vector<Rank> ranks;
  for (std::size_t at = 0, number = 1; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) {
      auto rank = parse_line(text.substr(at, end - at));
      if (!rank)
        throw core::Error(path.string() + ":" + std::to_string(number) +
                          ": malformed line; expected a token in base64 and its rank");
      ranks.push_back(std::move(*rank));
    }
    at = end + 1;
  }
  std::sort(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
  const auto twice =
      std::adjacent_find(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) { return a.rank == b.rank; });
  if (twice != ranks.end())
    throw core::Error(path.string() + ": two tokens have the rank " + std::to_string(twice->rank) +
                      "; expected one token for each rank");
  return ranks;
}

std::vector<std::string> llama3_special_tokens() {
  std::vector<std::string> names{"<|begin_of_text|>",
                                 "<|end_of_text|>",
                                 "<|reserved_special_token_0|>",
                                 "<|reserved_special_token_1|>",
                                 "<|finetune_right_pad_id|>",
                                 "<|step_id|>",
                                 "<|start_header_id|>",
                                 "<|end_header_id|>",
                                 "<|eom_id|>",
                                 "<|eot_id|>",
                                 "<|python_tag|>"};
  for (int number = 2; names.size() < 256; ++number)
    names.push_back("<|reserved_special_token_" + std::to_string(number) + "|>");
  return names;
}

BpeOptions bpe_options(const std::vector<Rank>& ranks, const std::filesystem::path& path) {
  BpeOptions options;
  options.where = path.string();
  for (const Rank& rank : ranks) options.vocabulary.add(bytes_to_chars(rank.bytes), rank.rank);
  options.vocabulary.finish();
  if (!has_all_bytes(options.vocabulary)) throw core::Error(path.string() + " lacks tokens of single bytes");
  for (const Rank& rank : ranks)
    for (std::size_t cut = 1; cut < rank.bytes.size(); ++cut) {
      std::string left = bytes_to_chars(std::string_view(rank.bytes).substr(0, cut));
      std::string right = bytes_to_chars(std::string_view(rank.bytes).substr(cut));
      if (!options.vocabulary.find(left) || !options.vocabulary.find(right)) continue;
      options.merges.emplace_back(std::move(left), std::move(right));
      options.ranks.push_back(rank.rank);
    }
  options.ignore_merges = true;
  options.form = WordForm::bytes;
  return options;
}

}  // namespace

bool is_tiktoken(const std::string& bytes) {
  return parse_line(std::string_view(bytes).substr(0, std::min(bytes.find('\n'), bytes.size()))).has_value();
}

std::unique_ptr<Tokenizer> read_tiktoken(const std::filesystem::path& path, const std::string& bytes) {
  const std::vector<Rank> ranks = parse_ranks(path, bytes);
  if (ranks.size() != kLlama3Tokens || ranks.back().rank != kLlama3Tokens - 1)
    throw core::Error(path.string() + " has " + std::to_string(ranks.size()) +
                      " ranks; expected those of Llama 3, since the file does not hold the split pattern")
        .hint("use the model's tokenizer.json");
  PipelineParts parts;
  parts.characters = std::make_shared<const Characters>();
  parts.pre_tokenizers.push_back(pattern_pre_tokenizer(llama3_pattern(parts.characters, 3)));
  parts.decoder = byte_level_decoder();
  parts.model = bpe_model(bpe_options(ranks, path));
  std::uint32_t id = kLlama3Tokens;
  for (std::string& name : llama3_special_tokens()) {
    AddedToken token;
    token.id = id++;
    token.content = token.pattern = std::move(name);
    token.special = true;
    parts.added.push_back(std::move(token));
  }
  parts.post_processor = begin_template(kLlama3Tokens);
  parts.roles = roles_by_name(parts.model->vocabulary(), parts.added, std::nullopt);
  parts.fingerprint = "tiktoken:" + core::checksum(std::string_view(bytes));
  return make_pipeline(std::move(parts));
}

}  // namespace trainctl::tokenizer
