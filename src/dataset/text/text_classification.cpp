// Texts, or pairs of texts, with a label. All rows are tokenised when the set is opened, by all cores; batches are as
// wide as their longest text.
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <future>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/text/language_source.h"
#include "dataset/text/text_reader.h"
#include "dataset/text/token_rows.h"
#include "dataset/transform.h"

namespace trainctl {
namespace {

struct Row {
  std::string text;
  std::string pair;
  std::string label;
  std::string place;  // file:line
};

std::vector<Row> read_rows_of(const LabelledText& files) {
  RowColumns columns{{files.label, files.text}};
  if (files.text_pair) columns.names.push_back(*files.text_pair);
  std::vector<Row> rows;
  for (const std::string& file : files.files)
    read_rows(file, {files.format, files.header_lines, files.invalid_utf8}, columns,
              [&](const std::vector<std::string_view>& values, std::int64_t line) {
                rows.push_back({.text = std::string(values[1]),
                                .pair = values.size() > 2 ? std::string(values[2]) : "",
                                .label = std::string(values[0]),
                                .place = place_of(file, line)});
              });
  if (rows.empty()) throw Error("no rows in " + list_words(files.files));
  return rows;
}

/// A double's bits as a target.
std::int64_t value_target(const Row& row) {
  double value = 0;
  const char* end = row.label.data() + row.label.size();
  const auto [stop, problem] = std::from_chars(row.label.data(), end, value);
  if (problem != std::errc() || stop != end || !std::isfinite(value))
    throw Error(row.place + ": the label should be a number, but is '" + row.label + "'")
        .hint("dataset.label_type: class takes names");
  return std::bit_cast<std::int64_t>(value);
}

std::int64_t class_target(const Row& row, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), row.label);
  if (found != names.end()) return found - names.begin();
  throw Error(row.place + ": the label '" + row.label + "' is none of the classes: " + list_words(names, "or"))
      .hint("dataset.labels lists them; without it, they are those of the training texts");
}

std::vector<std::string> class_names(const TextClassificationConfig& config, const std::vector<Row>& rows) {
  if (config.label_type == LabelType::value) return {};
  if (!config.labels.empty()) return config.labels;
  std::set<std::string> names;
  for (const Row& row : rows) names.insert(row.label);
  return {names.begin(), names.end()};
}

/// Tokenised rows, one after another.
struct TokenRows {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;
  std::vector<std::size_t> ends;      // of each row, in ids
  std::vector<std::int32_t> lengths;  // of each row
  std::vector<std::int64_t> targets;

  void append(const TokenRows& more) {
    const std::size_t begin = ids.size();
    ids.insert(ids.end(), more.ids.begin(), more.ids.end());
    types.insert(types.end(), more.types.begin(), more.types.end());
    for (const std::size_t end : more.ends) ends.push_back(begin + end);
    lengths.insert(lengths.end(), more.lengths.begin(), more.lengths.end());
  }
};

TokenRows tokenize_part(const Tokenizer& tokenizer, std::span<const Row> rows, bool pairs, std::int64_t max_length) {
  TokenRows part;
  const EncodeOptions options{.special_tokens = SpecialTokens::add, .max_length = max_length};
  for (const Row& row : rows) {
    const Encoding encoding =
        pairs ? tokenizer.encode_pair(row.text, row.pair, options) : tokenizer.encode(row.text, options);
    if (encoding.ids.empty()) throw Error(row.place + ": the text has no tokens");
    part.ids.insert(part.ids.end(), encoding.ids.begin(), encoding.ids.end());
    part.types.insert(part.types.end(), encoding.type_ids.begin(), encoding.type_ids.end());
    part.ends.push_back(part.ids.size());
    part.lengths.push_back(static_cast<std::int32_t>(encoding.ids.size()));
  }
  return part;
}

TokenRows tokenize(const Tokenizer& tokenizer, const std::vector<Row>& rows, bool pairs, std::int64_t max_length) {
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<TokenRows>> parts;
  for (std::size_t i = 0; i < threads; ++i) {
    const std::size_t begin = rows.size() * i / threads;
    const std::span<const Row> part(rows.data() + begin, rows.size() * (i + 1) / threads - begin);
    parts.push_back(std::async(std::launch::async, [&tokenizer, part, pairs, max_length] {
      return tokenize_part(tokenizer, part, pairs, max_length);
    }));
  }
  TokenRows all;
  for (auto& part : parts) all.append(part.get());
  return all;
}

class TextClassification final : public Source {
 public:
  TextClassification(TokenRows rows, SampleSpec spec, std::int64_t pad, std::string fingerprint)
      : rows_(std::move(rows)), spec_(std::move(spec)), pad_(pad), fingerprint_(std::move(fingerprint)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.lengths.size()); }
  const SampleSpec& spec() const override { return spec_; }
  std::span<const std::int32_t> lengths() const override { return rows_.lengths; }
  /// The length, then ids and types, each padded to the longest that may be: int64 [1 + 2 T].
  std::int64_t sample_bytes() const override { return stride() * static_cast<std::int64_t>(sizeof(std::int64_t)); }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    const auto row = static_cast<std::size_t>(index);
    auto* values = reinterpret_cast<std::int64_t*>(sample);
    const auto length = static_cast<std::size_t>(rows_.lengths[row]);
    const std::size_t begin = rows_.ends[row] - length;
    values[0] = rows_.lengths[row];
    std::fill(std::copy_n(rows_.ids.begin() + static_cast<std::ptrdiff_t>(begin), length, values + 1),
              values + 1 + width(), pad_);
    std::fill(std::copy_n(rows_.types.begin() + static_cast<std::ptrdiff_t>(begin), length, values + 1 + width()),
              values + 1 + 2 * width(), 0);
    return rows_.targets[row];
  }
  std::string fingerprint() const override { return fingerprint_; }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

  std::int64_t width() const { return spec_.input_shape[0]; }
  std::int64_t stride() const { return 1 + 2 * width(); }

 private:
  TokenRows rows_;
  SampleSpec spec_;
  std::int64_t pad_;
  std::string fingerprint_;
};

class TextClassificationWriter final : public SampleWriter {
 public:
  explicit TextClassificationWriter(const TextClassification& source) : source_(source) {}

  std::int64_t input_bytes() const override { return source_.sample_bytes(); }
  std::int64_t target_count() const override { return 1; }
  Scratch make_scratch() const override { return {}; }
  void write(SampleKey key, Scratch&, std::byte* input, std::int64_t* target) const override {
    *target = source_.get(key.index, input);
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    auto* values = static_cast<std::int64_t*>(inputs);
    const std::int64_t stride = source_.stride();
    const at::Tensor lengths = rows_view(values, count, 1, stride, release);  // [B, 1]
    const std::int64_t longest = lengths.max().item<std::int64_t>();
    // Compact, so that what reaches the device is no wider than the batch.
    const auto part = [&](std::int64_t offset) {
      return rows_view(values + offset, count, longest, stride, release).contiguous();
    };
    Batch batch{.inputs = part(1), .targets = at::from_blob(targets, {count}, release, at::TensorOptions(at::kLong))};
    batch.token_types = part(1 + source_.width());
    if (lengths.min().item<std::int64_t>() < longest)
      batch.key_mask = at::arange(longest, at::TensorOptions(at::kLong)).lt(lengths);
    if (source_.spec().targets == Targets::values)
      batch.targets = at::from_blob(targets, {count}, release, at::TensorOptions(at::kDouble)).to(at::kFloat);
    return batch;
  }

 private:
  const TextClassification& source_;
};

std::unique_ptr<SampleWriter> TextClassification::make_writer(Phase, std::uint64_t) const {
  return std::make_unique<TextClassificationWriter>(*this);
}

std::unique_ptr<Source> make_source(const TextClassificationConfig& config, const LabelledText& files,
                                    const std::vector<Row>& rows, const std::vector<std::string>& names,
                                    const Tokenizer& tokenizer) {
  TokenRows tokens = tokenize(tokenizer, rows, files.text_pair.has_value(), config.max_length);
  for (const Row& row : rows) tokens.targets.push_back(names.empty() ? value_target(row) : class_target(row, names));
  std::string content = tokenizer.fingerprint() + std::to_string(config.max_length);
  for (const std::string& file : files.files) content += checksum_file(file);
  SampleSpec spec;
  spec.input_shape = {config.max_length};
  spec.input_dtype = at::kLong;
  spec.num_classes = static_cast<std::int64_t>(names.size());
  spec.vocab_size = tokenizer.vocab_size();
  spec.targets = names.empty() ? Targets::values : Targets::labels;
  spec.class_names = names;
  return std::make_unique<TextClassification>(std::move(tokens), std::move(spec), tokenizer.roles().pad.value_or(0),
                                              checksum(content));
}

}  // namespace

Sources build(const TextClassificationConfig& config, const LoaderOptions&) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  const std::vector<Row> rows = read_rows_of(config.train);
  const std::vector<std::string> names = class_names(config, rows);
  Sources sources{.train = make_source(config, config.train, rows, names, *tokenizer), .eval = nullptr};
  if (config.eval) sources.eval = make_source(config, *config.eval, read_rows_of(*config.eval), names, *tokenizer);
  return sources;
}

}  // namespace trainctl
