// Pairs of a source and a target text: tokenised once, by all cores.
#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "dataset/seq2seq_prompt.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"
#include "dataset/text/ordered_tasks.h"
#include "dataset/text/reading/text_reader.h"
#include "dataset/text/seq2seq_rows.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kPairsInTask = 1024;
constexpr std::size_t kPairBytesInTask = 1 << 20;

struct TextPair {
  std::string source;
  std::string target;
};

bool has_visible_character(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") != std::string_view::npos;
}

/// Returns the token that ends both texts.
std::int32_t end_token(const tokenizer::Tokenizer& tokenizer, const std::string& name) {
  const std::optional<std::int32_t> end = tokenizer.roles().end;
  if (!end)
    throw core::Error("dataset.tokenizer: " + name +
                      " has no token that ends a text, by which a model tells that a target is complete")
        .hint("take a tokenizer with </s>, [SEP] or <|endoftext|>");
  return *end;
}

class PairTokenizer {
 public:
  PairTokenizer(const tokenizer::Tokenizer& tokenizer, const TextSeq2SeqConfig& config, StoreWriter& writer)
      : tokenizer_(tokenizer),
        config_(config),
        end_(end_token(tokenizer, config.tokenizer)),
        writer_(writer),
        tasks_([&writer](StoreChunk chunk) { writer.add(chunk); }) {}

  void run(const TextPairs& files) {
    std::int64_t num_rows = 0;
    const auto use = [&](const std::vector<std::string_view>& values, std::int64_t) {
      ++num_rows;
      add({.source = config_.prefix + std::string(values[0]), .target = std::string(values[1])});
    };
    for (const std::string& file : files.files)
      read_pair_rows(files, file, use, [this](const std::string& finding) { writer_.add_finding(finding); });
    if (num_rows == 0) throw core::Error("no rows in " + core::list_words(files.files));
    start();
    tasks_.finish();
  }

 private:
  void add(TextPair pair) {
    num_bytes_ += pair.source.size() + pair.target.size();
    pairs_.push_back(std::move(pair));
    if (pairs_.size() >= kPairsInTask || num_bytes_ >= kPairBytesInTask) start();
  }

  void start() {
    num_bytes_ = 0;
    if (pairs_.empty()) return;
    tasks_.start([this, pairs = std::make_shared<const std::vector<TextPair>>(std::exchange(pairs_, {}))] {
      return tokenize(*pairs);
    });
  }

  StoreChunk tokenize(const std::vector<TextPair>& pairs) const {
    StoreChunk chunk;
    for (const TextPair& pair : pairs) {
      const std::size_t begin = chunk.ids.size();
      tokenizer_.append_ids(pair.source, chunk.ids);
      chunk.ids.push_back(end_);
      chunk.targets.push_back(static_cast<std::int64_t>(chunk.ids.size() - begin));
      chunk.types.resize(chunk.ids.size(), 0);
      tokenizer_.append_ids(pair.target, chunk.ids);
      chunk.ids.push_back(end_);
      chunk.types.resize(chunk.ids.size(), 1);
      chunk.document_ends.push_back(chunk.ids.size());
      chunk.num_bytes += static_cast<std::int64_t>(pair.source.size() + pair.target.size());
    }
    return chunk;
  }

  const tokenizer::Tokenizer& tokenizer_;
  const TextSeq2SeqConfig& config_;
  std::int32_t end_;
  StoreWriter& writer_;
  std::vector<TextPair> pairs_;
  std::size_t num_bytes_ = 0;
  OrderedTasks<StoreChunk> tasks_;
};

/// Returns the dataset's pairs, or those that its mixture begins with; null: it has none.
const TextSeq2SeqConfig* first_pairs(const SourceConfig& source) {
  if (const auto* mixture = source.get_if<MixtureConfig>())
    return mixture->sources.empty() ? nullptr : mixture->sources.front().source.get_if<TextSeq2SeqConfig>();
  return source.get_if<TextSeq2SeqConfig>();
}

/// Returns all of the options that decide on the tokens, as text.
std::string reading_of(const TextSeq2SeqConfig& config, const TextPairs& files, const tokenizer::Tokenizer& tokenizer) {
  Reading reading(tokenizer);
  reading.add("seq2seq").add(config.prefix).add(files.format).add(files.quoting).add(files.encoding_errors);
  reading.add(files.header_lines.value.value_or(kHeaderByContent)).add(files.source).add(files.target);
  return reading.text();
}

/// Tells how many texts of a set lost tokens.
void tell_cuts(const std::string& set, const TokenStore& store, const TextSeq2SeqConfig& config,
               const PrepareOptions& options) {
  if (!options.tell) return;
  std::int64_t sources = 0;
  std::int64_t targets = 0;
  for (std::int64_t row = 0; row < store.num_documents(); ++row) {
    const StoredPair pair(store, row);
    sources += pair.source_length() > config.max_source_length ? 1 : 0;
    targets += pair.target_length() > config.max_target_length ? 1 : 0;
  }
  const auto tell = [&](std::int64_t count, const char* what, std::int64_t length, const char* key) {
    if (count > 0)
      options.tell("dataset." + set + ": " + core::format_count(count) + " of " +
                   core::format_count(store.num_documents()) + " " + what + " are cut to " +
                   core::format_count(length) + " tokens (dataset." + key + ")");
  };
  tell(sources, "sources", config.max_source_length, "max_source_length");
  tell(targets, "targets", config.max_target_length, "max_target_length");
}

}  // namespace

void read_pair_rows(const TextPairs& files, const std::string& file, const RowUse& use, const Tell& tell) {
  const TextFileOptions options{files.format,         files.header_lines,    files.quoting,
                                files.max_line_bytes, files.encoding_errors, tell};
  read_rows(file, options, {{files.source, files.target}},
            [&](const std::vector<std::string_view>& values, std::int64_t line) {
              for (const std::size_t i : {0, 1})
                if (!has_visible_character(values[i]))
                  throw core::Error(place_of(file, line) + ": the " + (i == 0 ? "source" : "target") + " ('" +
                                    (i == 0 ? files.source : files.target) + "') is empty; expected a text");
              use(values, line);
            });
}

std::optional<Seq2SeqPrompt> seq2seq_prompt(const SourceConfig& source, const tokenizer::Tokenizer& tokenizer,
                                            const std::string& text) {
  const TextSeq2SeqConfig* const config = first_pairs(source);
  if (config == nullptr) return std::nullopt;
  Seq2SeqPrompt prompt{.source = {}, .start = static_cast<std::int32_t>(config->start_token(tokenizer.roles().pad))};
  tokenizer.append_ids(config->prefix + text, prompt.source);
  const std::int64_t num_cut = std::max<std::int64_t>(0, std::ssize(prompt.source) - (config->max_source_length - 1));
  const auto first_cut = tokenizer.truncation_side() == tokenizer::TruncationSide::left ? prompt.source.begin()
                                                                                        : prompt.source.end() - num_cut;
  prompt.source.erase(first_cut, first_cut + num_cut);
  prompt.source.push_back(end_token(tokenizer, config->tokenizer));
  return prompt;
}

PreparedStores prepare_stores(const TextSeq2SeqConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  const auto prepare_one = [&](const std::string& set, const TextPairs& files) {
    const auto write = [&](StoreWriter& writer) { PairTokenizer(tokenizer, config, writer).run(files); };
    PreparedStore prepared = prepare_store({.files = files.files,
                                            .reading = reading_of(config, files, tokenizer),
                                            .layout = {StoreKind::labelled_rows, tokenizer.vocab_size()},
                                            .write = write},
                                           config.cache_dir, options);
    tell_cuts(set, *prepared.store, config, options);
    return prepared;
  };
  PreparedStores stores{.train = prepare_one("train", config.train), .eval = std::nullopt, .test = std::nullopt};
  if (config.eval) stores.eval = prepare_one("eval", *config.eval);
  if (config.test && options.tests == TestTexts::prepared) stores.test = prepare_one("test", *config.test);
  return stores;
}

Sources build(const TextSeq2SeqConfig& config, const LoaderOptions& options) {
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  const std::int64_t start = config.start_token(tokenizer->roles().pad);
  if (start >= tokenizer->vocab_size())
    throw core::Error("dataset.decoder_start_token_id is " + std::to_string(start) + ", but the tokenizer has " +
                      core::format_count(tokenizer->vocab_size()) + " tokens");
  const PreparedStores stores = prepare_stores(config, *tokenizer, prepare_options(options));
  return seq2seq_sources(stores, {.max_source_length = config.max_source_length,
                                  .max_target_length = config.max_target_length,
                                  .vocab_size = tokenizer->vocab_size(),
                                  .pad = tokenizer->roles().pad.value_or(0),
                                  .start = start,
                                  .truncation_side = tokenizer->truncation_side(),
                                  .split = {.eval_fraction = config.eval_fraction,
                                            .test_fraction = config.test_fraction,
                                            .seed = static_cast<std::uint64_t>(config.split_seed),
                                            .fold = options.fold}});
}

}  // namespace trainctl::dataset
