// Texts, or pairs of texts, with a label: tokenised once, by all cores.
#include <bit>

#include "core/error.h"
#include "core/text.h"
#include "dataset/sources.h"
#include "dataset/text/class_labels.h"
#include "dataset/text/language_source.h"
#include "dataset/text/ordered_tasks.h"
#include "dataset/text/padded_rows.h"
#include "dataset/text/reading/text_reader.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kRowsInTask = 1024;
constexpr std::size_t kBytesInTask = 1 << 20;

struct Row {
  std::string text;
  std::string pair;
  std::int64_t target = 0;
  std::string place;  // file:line
};

/// Calls `use` with each row's label, text and second text, as `columns` names them.
void read_labelled(const LabelledText& files, const RowColumns& columns,
                   const std::function<void(const std::vector<std::string_view>&, const std::string& place)>& use,
                   const Tell& tell = {}) {
  const TextFileOptions options{files.format,         files.header_lines,    files.quoting,
                                files.max_line_bytes, files.encoding_errors, tell};
  std::int64_t num_rows = 0;
  for (const std::string& file : files.files)
    read_rows(file, options, columns, [&](const std::vector<std::string_view>& values, std::int64_t line) {
      ++num_rows;
      use(values, place_of(file, line));
    });
  if (num_rows == 0) throw core::Error("no rows in " + core::list_words(files.files));
}

/// Returns the classes of the rows; none for values.
std::vector<std::string> classes_in(const LabelledText& files, LabelType type) {
  if (type == LabelType::value) return {};
  ClassNames names;
  read_labelled(files, {{files.label}}, [&](const std::vector<std::string_view>& values, const std::string& place) {
    names.add(values[0], place);
  });
  return names.sorted();
}

StoreChunk tokenize(const tokenizer::Tokenizer& tokenizer, const std::vector<Row>& rows, bool pairs,
                    std::int64_t max_length) {
  StoreChunk chunk;
  const tokenizer::EncodeOptions options{.special_tokens = tokenizer::SpecialTokens::add, .max_length = max_length};
  for (const Row& row : rows) {
    const tokenizer::Encoding encoding =
        pairs ? tokenizer.encode_pair(row.text, row.pair, options) : tokenizer.encode(row.text, options);
    if (encoding.ids.empty()) throw core::Error(row.place + ": the text has no tokens");
    core::ensure(std::ssize(encoding.ids) <= max_length, "a row has at most dataset.max_length tokens");
    chunk.ids.insert(chunk.ids.end(), encoding.ids.begin(), encoding.ids.end());
    for (const std::int32_t type : encoding.type_ids) {
      if (type < 0 || type > 255)
        throw core::Error("the tokenizer gives token type " + std::to_string(type) + ", above 255");
      chunk.types.push_back(static_cast<std::uint8_t>(type));
    }
    chunk.document_ends.push_back(chunk.ids.size());
    chunk.targets.push_back(row.target);
    chunk.num_bytes += static_cast<std::int64_t>(row.text.size() + row.pair.size());
  }
  return chunk;
}

class RowTokenizer {
 public:
  RowTokenizer(const tokenizer::Tokenizer& tokenizer, const TextClassificationConfig& config, const LabelledText& files,
               StoreWriter& writer)
      : tokenizer_(tokenizer), config_(config), files_(files), writer_(writer), tasks_([&writer](StoreChunk chunk) {
          writer.add(chunk);
        }) {}

  void run(const ClassNumbers& classes) {
    RowColumns columns{{files_.label, files_.text}};
    if (files_.text_pair) columns.names.push_back(*files_.text_pair);
    const bool has_classes = config_.label_type == LabelType::class_;
    const auto use = [&](const std::vector<std::string_view>& values, const std::string& place) {
      add({.text = std::string(values[1]),
           .pair = values.size() > 2 ? std::string(values[2]) : "",
           .target =
               has_classes ? classes.of(values[0], place) : std::bit_cast<std::int64_t>(label_value(values[0], place)),
           .place = place});
    };
    read_labelled(files_, columns, use, [this](const std::string& finding) { writer_.add_finding(finding); });
    start();
    tasks_.finish();
  }

 private:
  void add(Row row) {
    num_bytes_ += row.text.size() + row.pair.size();
    rows_.push_back(std::move(row));
    if (rows_.size() >= kRowsInTask || num_bytes_ >= kBytesInTask) start();
  }

  void start() {
    num_bytes_ = 0;
    if (rows_.empty()) return;
    tasks_.start([this, rows = std::make_shared<const std::vector<Row>>(std::exchange(rows_, {}))] {
      return tokenize(tokenizer_, *rows, files_.text_pair.has_value(), config_.max_length);
    });
  }

  const tokenizer::Tokenizer& tokenizer_;
  const TextClassificationConfig& config_;
  const LabelledText& files_;
  StoreWriter& writer_;
  std::vector<Row> rows_;
  std::size_t num_bytes_ = 0;
  OrderedTasks<StoreChunk> tasks_;
};

/// Returns all of the options that decide on the tokens and targets, as text.
std::string reading_of(const TextClassificationConfig& config, const LabelledText& files,
                       const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& labels) {
  Reading reading(tokenizer);
  reading.add(config.max_length).add(config.label_type).add(files.format).add(files.quoting).add(files.encoding_errors);
  reading.add(files.header_lines.value.value_or(kHeaderByContent)).add(files.label).add(files.text);
  if (files.text_pair) reading.add(*files.text_pair);
  return reading.add_labels(labels).text();
}

}  // namespace

PreparedStores prepare_stores(const TextClassificationConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  // Without labels the classes are those of the rows.
  const auto prepare_one = [&](const LabelledText& files, const std::vector<std::string>& labels) {
    check_max_length(tokenizer, config.max_length, files.text_pair ? 2 : 1);
    const auto write = [&](StoreWriter& writer) {
      const ClassNumbers classes(labels.empty() ? classes_in(files, config.label_type) : labels);
      writer.set_class_names(classes.names());
      RowTokenizer(tokenizer, config, files, writer).run(classes);
    };
    return prepare_store({.files = files.files,
                          .reading = reading_of(config, files, tokenizer, labels),
                          .layout = {StoreKind::labelled_rows, tokenizer.vocab_size()},
                          .write = write},
                         config.cache_dir, options);
  };
  const bool has_classes = config.label_type == LabelType::class_;
  PreparedStores stores{
      .train = prepare_one(config.train, has_classes ? config.class_names : std::vector<std::string>()),
      .eval = std::nullopt,
      .test = std::nullopt};
  if (config.eval) stores.eval = prepare_one(*config.eval, stores.train.store->class_names());
  if (config.test && options.tests == TestTexts::prepared)
    stores.test = prepare_one(*config.test, stores.train.store->class_names());
  return stores;
}

Sources build(const TextClassificationConfig& asked, const LoaderOptions& options) {
  TextClassificationConfig config = asked;
  if (options.trained != nullptr && config.label_type == LabelType::class_)
    config.class_names = options.trained->class_names;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  const PreparedStores stores = prepare_stores(config, *tokenizer, prepare_options(options));
  return padded_sources(
      stores, {.max_length = config.max_length,
               .vocab_size = tokenizer->vocab_size(),
               .pad = tokenizer->roles().pad.value_or(0),
               .targets = config.label_type == LabelType::value ? Targets::values : Targets::labels,
               .label_scaling = config.label_scaling,
               .known_labels = options.trained == nullptr ? std::nullopt : std::optional(options.trained->labels),
               .split = {.eval_fraction = config.eval_fraction,
                         .test_fraction = config.test_fraction,
                         .seed = static_cast<std::uint64_t>(config.split_seed),
                         .fold = options.fold}});
}

}  // namespace trainctl::dataset
