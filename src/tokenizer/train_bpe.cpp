#include "tokenizer/train_bpe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/file.h"
#include "core/utf8.h"
#include "tokenizer/pattern/pattern.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

using Id = std::uint32_t;
using Pair = std::uint64_t;  // left id, right id

Pair pair_of(Id left, Id right) {
  return Pair{left} << 32 | right;
}
Id left_of(Pair pair) {
  return static_cast<Id>(pair >> 32);
}
Id right_of(Pair pair) {
  return static_cast<Id>(pair);
}

struct Word {
  std::vector<Id> symbols;
  std::int64_t count;
};

/// A pair, with its count when queued and the words that held it then.
struct Candidate {
  Pair pair;
  std::int64_t count;
  std::vector<std::uint32_t> words;
};
struct IsLater {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

/// Change of a pair's count by a merge in one word.
struct Change {
  Pair pair;
  std::int64_t by;
};

/// Merges every occurrence of the pair in the word, from left to right.
void merge(Word& word, Pair pair, Id merged, std::vector<Change>& changes) {
  std::vector<Id>& symbols = word.symbols;
  std::size_t out = 0;
  for (std::size_t i = 0; i < symbols.size(); ++out) {
    if (i + 1 >= symbols.size() || symbols[i] != left_of(pair) || symbols[i + 1] != right_of(pair)) {
      symbols[out] = symbols[i++];
      continue;
    }
    if (out > 0) {
      changes.push_back({pair_of(symbols[out - 1], left_of(pair)), -word.count});
      changes.push_back({pair_of(symbols[out - 1], merged), word.count});
    }
    if (i + 2 < symbols.size()) {
      changes.push_back({pair_of(right_of(pair), symbols[i + 2]), -word.count});
      changes.push_back({pair_of(merged, symbols[i + 2]), word.count});
    }
    symbols[out] = merged;
    i += 2;
  }
  symbols.resize(out);
}

class Trainer {
 public:
  Trainer(const BpeTraining& training) : training_(training) {
    for (const std::string& token : training.special_tokens) add_token(token);
    std::vector<char32_t> alphabet(byte_chars().begin(), byte_chars().end());
    std::sort(alphabet.begin(), alphabet.end());
    for (const char32_t code : alphabet) add_token(core::to_utf8({&code, 1}));
    if (static_cast<std::int64_t>(tokens_.size()) > training.vocab_size)
      throw core::Error("a vocabulary of " + std::to_string(training.vocab_size) +
                        " tokens is too small; expected at least " + std::to_string(tokens_.size()) +
                        ", for bytes and special tokens");
  }

  void count_words(std::string_view text) {
    std::vector<Match> matches;
    splitter_->find(text, matches);
    for (const Match& match : matches) ++counts_[std::string(text.substr(match.begin, match.end - match.begin))];
  }

  void train() {
    make_words();
    count_pairs();
    while (static_cast<std::int64_t>(tokens_.size()) < training_.vocab_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t count = pair_counts_.at(top.pair);
      if (top.count != count) {
        top.count = count;
        queue_.push(std::move(top));
        continue;
      }
      if (count < 1 || count < training_.min_frequency) break;
      apply(top);
    }
  }

  nlohmann::ordered_json model() const {
    auto vocabulary = nlohmann::ordered_json::object();
    for (std::size_t id = 0; id < tokens_.size(); ++id) vocabulary[tokens_[id]] = id;
    auto merges = nlohmann::ordered_json::array();
    std::unordered_map<Pair, std::size_t> last;  // rank of a pair; a pair merged twice has its later rank
    for (std::size_t i = 0; i < merges_.size(); ++i) last[merges_[i]] = i;
    for (std::size_t i = 0; i < merges_.size(); ++i)
      if (last.at(merges_[i]) == i) merges.push_back({tokens_[left_of(merges_[i])], tokens_[right_of(merges_[i])]});
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}};
  }

 private:
  Id add_token(const std::string& token) {
    const auto [found, is_new] = ids_.emplace(token, static_cast<Id>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return found->second;
  }

  void make_words() {
    for (const auto& [text, count] : counts_) {
      Word word{{}, count};
      for (const char byte : text) {
        const char32_t code = byte_chars()[static_cast<unsigned char>(byte)];
        word.symbols.push_back(ids_.at(core::to_utf8({&code, 1})));
      }
      words_.push_back(std::move(word));
    }
    counts_.clear();
  }

  void count_pairs() {
    for (std::uint32_t index = 0; index < words_.size(); ++index) {
      const Word& word = words_[index];
      for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
        const Pair pair = pair_of(word.symbols[i], word.symbols[i + 1]);
        pair_counts_[pair] += word.count;
        note(pair, index);
      }
    }
    queue_noted();
  }

  void note(Pair pair, std::uint32_t word) {
    std::vector<std::uint32_t>& words = noted_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void queue_noted() {
    for (auto& [pair, words] : noted_)
      if (const std::int64_t count = pair_counts_.at(pair); count > 0) queue_.push({pair, count, std::move(words)});
    noted_.clear();
  }

  void apply(const Candidate& top) {
    const Id merged = add_token(tokens_[left_of(top.pair)] + tokens_[right_of(top.pair)]);
    merges_.push_back(top.pair);
    std::vector<Change> changes;
    for (const std::uint32_t index : top.words) {
      changes.clear();
      merge(words_[index], top.pair, merged, changes);
      for (const Change& change : changes) {
        pair_counts_[change.pair] += change.by;
        if (change.by > 0) note(change.pair, index);
      }
    }
    queue_noted();
  }

  BpeTraining training_;
  std::unique_ptr<Pattern> splitter_ = gpt2_pattern(std::make_shared<const Characters>());
  std::unordered_map<std::string, std::int64_t> counts_;  // counts of the text's words
  std::unordered_map<std::string, Id> ids_;
  std::vector<std::string> tokens_;
  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t> pair_counts_;
  std::unordered_map<Pair, std::vector<std::uint32_t>> noted_;  // pairs to queue, and the words that hold them
  std::priority_queue<Candidate, std::vector<Candidate>, IsLater> queue_;
  std::vector<Pair> merges_;
};

}  // namespace

std::string train_bpe(const std::vector<std::filesystem::path>& files, const BpeTraining& training) {
  Trainer trainer(training);
  for (const std::filesystem::path& file : files) {
    const std::string bytes = core::read_file(file);
    trainer.count_words(core::valid_utf8(bytes) ? bytes : core::replace_invalid(bytes));
  }
  trainer.train();
  const nlohmann::ordered_json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", true}};
  auto added = nlohmann::ordered_json::array();
  for (std::size_t id = 0; id < training.special_tokens.size(); ++id)
    added.push_back({{"id", id},
                     {"content", training.special_tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const nlohmann::ordered_json document{{"version", "1.0"},
                                        {"truncation", nullptr},
                                        {"padding", nullptr},
                                        {"added_tokens", std::move(added)},
                                        {"normalizer", nullptr},
                                        {"pre_tokenizer", byte_level},
                                        {"post_processor", byte_level},
                                        {"decoder", byte_level},
                                        {"model", trainer.model()}};
  return document.dump(1) + "\n";
}

}  // namespace trainctl::tokenizer
