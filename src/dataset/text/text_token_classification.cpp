// Sentences with a tag for each word: tokenised once, by all cores. Tags go to the words' pieces as in transformers'
// run_ner.py.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "dataset/collate/token_rows.h"
#include "dataset/sources.h"
#include "dataset/text/class_labels.h"
#include "dataset/text/language_source.h"
#include "dataset/text/ordered_tasks.h"
#include "dataset/text/padded_rows.h"
#include "dataset/text/reading/tagged_reader.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kSentencesInTask = 256;

/// A sentence as one text, and each word's range of characters.
struct JoinedWords {
  std::string text;
  std::vector<tokenizer::TextRange> words;  // in code points
};

std::int32_t count_characters(std::string_view text) {
  return static_cast<std::int32_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

JoinedWords join(const std::vector<std::string>& words) {
  JoinedWords joined;
  std::int32_t at = 0;
  for (const std::string& word : words) {
    if (!joined.words.empty()) {
      joined.text += ' ';
      ++at;
    }
    const std::int32_t end = at + count_characters(word);
    joined.text += word;
    joined.words.push_back({.begin = at, .end = end});
    at = end;
  }
  return joined;
}

/// The rule that gives tokens the tags of their words.
class PieceLabels {
 public:
  PieceLabels(const ClassNumbers& classes, bool label_all_tokens) : label_all_tokens_(label_all_tokens) {
    for (std::int64_t i = 0; i < classes.size(); ++i) {
      const std::string& name = classes.names()[static_cast<std::size_t>(i)];
      const std::int64_t inside = name.starts_with("B-") ? classes.find("I-" + name.substr(2)) : -1;
      later_.push_back(static_cast<std::int32_t>(inside >= 0 ? inside : i));
    }
  }

  /// Appends a label per token; `tags` is the number of each word's tag.
  void append(const tokenizer::Encoding& encoding, const std::vector<tokenizer::TextRange>& words,
              const std::vector<std::int32_t>& tags, std::vector<std::int32_t>& labels) const {
    std::size_t word = 0;
    std::size_t labelled = words.size();  // the word that has its first piece already
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
      const tokenizer::TextRange& range = encoding.offsets[i];
      if (encoding.is_special[i] != 0 || range.end <= range.begin) {
        labels.push_back(kNoTarget);
        continue;
      }
      // A piece may begin with the space before its word.
      while (word < words.size() && words[word].end <= range.begin) ++word;
      if (word == words.size() || range.end <= words[word].begin) {
        labels.push_back(kNoTarget);
      } else if (word != labelled) {
        labels.push_back(tags[word]);
        labelled = word;
      } else {
        labels.push_back(label_all_tokens_ ? later_[static_cast<std::size_t>(tags[word])] : kNoTarget);
      }
    }
  }

 private:
  bool label_all_tokens_;
  std::vector<std::int32_t> later_;  // of each class: what later pieces of a word carry
};

/// Returns the tags' numbers. Tags that are numbers are class numbers, and stay.
std::vector<std::int32_t> tag_numbers(const TaggedSentence& sentence, const ClassNumbers& classes) {
  std::vector<std::int32_t> numbers;
  for (std::size_t i = 0; i < sentence.tags.size(); ++i)
    numbers.push_back(static_cast<std::int32_t>(classes.of(sentence.tags[i], sentence.place(i))));
  for (std::size_t i = 0; i < sentence.numbers.size(); ++i) {
    if (sentence.numbers[i] < 0 || sentence.numbers[i] >= classes.size())
      throw core::Error(sentence.place(i) + ": tag " + std::to_string(sentence.numbers[i]) + " of word " +
                        std::to_string(i + 1) + ", but there are " + std::to_string(classes.size()) + " labels");
    numbers.push_back(static_cast<std::int32_t>(sentence.numbers[i]));
  }
  return numbers;
}

std::vector<std::string> classes_in(const TaggedText& files) {
  ClassNames names;
  read_tagged(files, [&](const TaggedSentence& sentence) {
    if (!sentence.numbers.empty())
      throw core::Error(sentence.place(0) + ": the tags are numbers, and nothing says what they count")
          .hint("give dataset.class_names, the names in the order of the numbers");
    for (std::size_t i = 0; i < sentence.tags.size(); ++i) names.add(sentence.tags[i], sentence.place(i));
  });
  return names.sorted();
}

struct NumberedSentence {
  JoinedWords joined;
  std::vector<std::int32_t> tags;
  std::string place;
};

class SentenceTokenizer {
 public:
  SentenceTokenizer(const tokenizer::Tokenizer& tokenizer, const TextTokenClassificationConfig& config,
                    const ClassNumbers& classes, StoreWriter& writer)
      : tokenizer_(tokenizer),
        max_length_(config.max_length),
        classes_(classes),
        labels_(classes, config.label_all_tokens),
        tasks_([&writer](StoreChunk chunk) { writer.add(chunk); }) {}

  void run(const TaggedText& files) {
    read_tagged(files, [this](const TaggedSentence& sentence) {
      sentences_.push_back({join(sentence.words), tag_numbers(sentence, classes_), sentence.place(0)});
      if (sentences_.size() >= kSentencesInTask) start();
    });
    start();
    tasks_.finish();
  }

 private:
  void start() {
    if (sentences_.empty()) return;
    tasks_.start([this, sentences = std::make_shared<const std::vector<NumberedSentence>>(
                            std::exchange(sentences_, {}))] { return tokenize(*sentences); });
  }

  StoreChunk tokenize(const std::vector<NumberedSentence>& sentences) const {
    StoreChunk chunk;
    for (const NumberedSentence& sentence : sentences) {
      const tokenizer::Encoding encoding = tokenizer_.encode(
          sentence.joined.text, {.special_tokens = tokenizer::SpecialTokens::add, .max_length = max_length_});
      if (encoding.ids.empty()) throw core::Error(sentence.place + ": the sentence has no tokens");
      core::ensure(std::ssize(encoding.ids) <= max_length_, "a sentence has at most dataset.max_length tokens");
      chunk.ids.insert(chunk.ids.end(), encoding.ids.begin(), encoding.ids.end());
      labels_.append(encoding, sentence.joined.words, sentence.tags, chunk.labels);
      chunk.document_ends.push_back(chunk.ids.size());
      chunk.num_bytes += static_cast<std::int64_t>(sentence.joined.text.size());
    }
    return chunk;
  }

  const tokenizer::Tokenizer& tokenizer_;
  std::int64_t max_length_;
  const ClassNumbers& classes_;
  PieceLabels labels_;
  std::vector<NumberedSentence> sentences_;
  OrderedTasks<StoreChunk> tasks_;
};

/// Returns all of the options that decide on the tokens and labels, as text.
std::string reading_of(const TextTokenClassificationConfig& config, const TaggedText& files,
                       const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& labels) {
  Reading reading(tokenizer);
  reading.add(config.max_length).add(config.label_all_tokens).add(files.format).add(files.separator);
  reading.add(files.encoding_errors).add(files.header_lines).add(files.word.value_or("")).add(files.tag.value_or(""));
  return reading.add(files.comment).add_labels(labels).text();
}

}  // namespace

PreparedStores prepare_stores(const TextTokenClassificationConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  check_max_length(tokenizer, config.max_length, /*texts_per_row=*/1);
  // Without labels the classes are those of the sentences.
  const auto prepare_one = [&](const TaggedText& files, const std::vector<std::string>& labels) {
    const auto write = [&](StoreWriter& writer) {
      const ClassNumbers classes(labels.empty() ? classes_in(files) : labels);
      writer.set_class_names(classes.names());
      SentenceTokenizer(tokenizer, config, classes, writer).run(files);
    };
    return prepare_store({.files = files.files,
                          .reading = reading_of(config, files, tokenizer, labels),
                          .layout = {StoreKind::labelled_tokens, tokenizer.vocab_size()},
                          .write = write},
                         config.cache_dir, options);
  };
  PreparedStores stores{
      .train = prepare_one(config.train, config.class_names), .eval = std::nullopt, .test = std::nullopt};
  if (config.eval) stores.eval = prepare_one(*config.eval, stores.train.store->class_names());
  if (config.test && options.tests == TestTexts::prepared)
    stores.test = prepare_one(*config.test, stores.train.store->class_names());
  return stores;
}

Sources build(const TextTokenClassificationConfig& asked, const LoaderOptions& options) {
  TextTokenClassificationConfig config = asked;
  if (options.trained != nullptr) config.class_names = options.trained->class_names;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  const PreparedStores stores = prepare_stores(config, *tokenizer, prepare_options(options));
  return padded_sources(stores, {.max_length = config.max_length,
                                 .vocab_size = tokenizer->vocab_size(),
                                 .pad = tokenizer->roles().pad.value_or(0),
                                 .targets = Targets::token_labels});
}

}  // namespace trainctl::dataset
