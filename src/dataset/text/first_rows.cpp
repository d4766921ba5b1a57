// The first rows of texts, read as training would.
#include "core/error.h"
#include "dataset/files/file_list.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sources.h"
#include "dataset/text/class_labels.h"
#include "dataset/text/reading/tagged_reader.h"
#include "dataset/text/reading/text_reader.h"
#include "dataset/text/seq2seq_rows.h"

namespace trainctl::dataset {
namespace {

/// Ends the reading of a file.
struct EnoughRows {};

/// Counts rows, and ends the reading at the last one that is wanted.
class RowLimit {
 public:
  explicit RowLimit(std::int64_t num_rows) : num_rows_(num_rows) {}
  void count() {
    if (--num_rows_ <= 0) throw EnoughRows{};
  }

 private:
  std::int64_t num_rows_;
};

template <class Read>
void read_until_enough(const Read& read) {
  try {
    read();
  } catch (const EnoughRows&) {
  }
}

template <class Files>
std::string first_file(const Files& files) {
  return expand_files(files.files, {}, "files").front().string();
}

template <class Files>
TextFileOptions options_of(const Files& files, std::int64_t max_line_bytes) {
  return {files.format, files.header_lines, files.quoting, max_line_bytes, files.encoding_errors};
}

/// Reads rows of texts without labels. Plain text has no rows.
void read_texts(const TextFiles& files, std::int64_t num_rows) {
  const std::string file = first_file(files);
  if (format_of(file, files.format) == TextFormat::text) return;
  RowLimit limit(num_rows);
  const TextFileOptions options =
      options_of(files, files.max_line_bytes.value.value_or(TextFileOptions{}.max_line_bytes));
  read_until_enough([&] {
    read_rows(file, options, {{files.text}},
              [&](const std::vector<std::string_view>&, std::int64_t) { limit.count(); });
  });
}

}  // namespace

void read_first_rows(const TextClassificationConfig& config, Phase phase, std::int64_t num_rows) {
  const LabelledText& files = phase == Phase::training ? config.train : *config.eval;
  const std::string file = first_file(files);
  RowColumns columns{{files.label, files.text}};
  if (files.text_pair) columns.names.push_back(*files.text_pair);
  const ClassNumbers classes(config.class_names);
  RowLimit limit(num_rows);
  read_until_enough([&] {
    read_rows(file, options_of(files, files.max_line_bytes), columns,
              [&](const std::vector<std::string_view>& values, std::int64_t line) {
                if (config.label_type == LabelType::value)
                  label_value(values[0], place_of(file, line));
                else if (classes.size() > 0)
                  classes.of(values[0], place_of(file, line));
                limit.count();
              });
  });
}

void read_first_rows(const TextTokenClassificationConfig& config, Phase phase, std::int64_t num_rows) {
  TaggedText files = phase == Phase::training ? config.train : *config.eval;
  files.files = {first_file(files)};
  RowLimit limit(num_rows);
  read_until_enough([&] { read_tagged(files, [&](const TaggedSentence&) { limit.count(); }); });
}

void read_first_rows(const TextSeq2SeqConfig& config, Phase phase, std::int64_t num_rows) {
  const TextPairs& files = phase == Phase::training ? config.train : *config.eval;
  RowLimit limit(num_rows);
  read_until_enough([&] {
    read_pair_rows(files, first_file(files),
                   [&](const std::vector<std::string_view>&, std::int64_t) { limit.count(); });
  });
}

void read_first_rows(const TextLmConfig& config, Phase phase, std::int64_t num_rows) {
  read_texts(phase == Phase::training ? config.train : *config.eval, num_rows);
}

void read_first_rows(const TextMlmConfig& config, Phase phase, std::int64_t num_rows) {
  read_texts(phase == Phase::training ? config.train : *config.eval, num_rows);
}

}  // namespace trainctl::dataset
