#include "dataset/batch_spec.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "dataset/collate/token_rows.h"
#include "dataset/files/directory_walk.h"
#include "dataset/image/gzip.h"
#include "dataset/image/transform/transform.h"
#include "dataset/loader/loader.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kAssumedClasses = 2;
constexpr std::int64_t kAssumedColumns = 8;

std::int64_t classes(std::int64_t from_config, const BatchSpecHints& hints) {
  if (from_config > 0) return from_config;
  if (hints.num_classes > 0) return hints.num_classes;
  if (hints.assumes_sizes) return kAssumedClasses;
  throw OnlyDataTells("the number of classes", "model.num_classes");
}

std::int64_t count(const std::vector<std::string>& labels) {
  return static_cast<std::int64_t>(labels.size());
}

std::int64_t vocabulary(const std::string& tokenizer, const BatchSpecHints& hints) {
  if (hints.vocab_size > 0) return hints.vocab_size;
  return (tokenizer == "bytes" ? tokenizer::byte_tokenizer() : tokenizer::load_tokenizer(tokenizer))->vocab_size();
}

BatchSpec images(const std::vector<std::int64_t>& shape, std::int64_t num_classes, std::int64_t num_samples = 0) {
  BatchSpec outline;
  outline.spec.input_shape = shape;
  outline.spec.num_classes = num_classes;
  outline.num_samples = num_samples;
  outline.target_count = 1;
  return outline;
}

BatchSpec tokens(std::int64_t length, std::int64_t vocab_size, Targets targets) {
  BatchSpec outline;
  outline.spec.input_shape = {length};
  outline.spec.input_dtype = at::kLong;
  outline.spec.vocab_size = vocab_size;
  outline.spec.targets = targets;
  const bool is_masked = targets == Targets::masked_tokens;
  outline.input_bytes = (is_masked ? 2 : 1) * length * kIdBytes;
  outline.target_count = length;
  return outline;
}

/// Returns the spec of rows of the longest permitted text, with lengths, token types and padding
/// (text/padded_rows.cpp).
BatchSpec padded(std::int64_t length, std::int64_t vocab_size, Targets targets) {
  BatchSpec outline = tokens(length, vocab_size, targets);
  outline.input_bytes = (1 + 2 * length + (length + kIdBytes - 1) / kIdBytes) * kIdBytes;
  outline.has_padding = true;
  outline.has_token_types = targets != Targets::token_labels;
  if (targets != Targets::token_labels) outline.target_count = 1;
  return outline;
}

std::int64_t idx_number(const std::byte* bytes) {
  std::int64_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::int64_t>(bytes[i]);
  return value;
}

/// Returns the spec by the files: the header has the images' size, and labels are one small file of bytes.
BatchSpec batch_spec_of(const IdxConfig& config, const BatchSpecHints& hints) {
  std::array<std::byte, 16> header{};
  ContentReader file(config.train.images);
  if (file.read(header) != header.size()) throw core::Error(file.path() + ": the header ends too early");
  return images({1, idx_number(header.data() + 8), idx_number(header.data() + 12)},
                classes(config.num_classes.value.value_or(count(config.class_names)), hints),
                idx_number(header.data() + 4));
}
BatchSpec batch_spec_of(const Cifar10Config&, const BatchSpecHints&) {
  return images({3, 32, 32}, 10, 50'000);
}
BatchSpec batch_spec_of(const Cifar100Config& config, const BatchSpecHints&) {
  return images({3, 32, 32}, config.coarse_labels ? 20 : 100, 50'000);
}
BatchSpec batch_spec_of(const SyntheticImagesConfig& config, const BatchSpecHints&) {
  return images({config.channels, config.height, config.width}, config.num_classes, config.num_samples);
}

BatchSpec batch_spec_of(const SyntheticTokensConfig& config, const BatchSpecHints&) {
  const bool is_masked = config.mask_probability > 0;
  BatchSpec outline =
      tokens(config.seq_len, config.vocab_size, is_masked ? Targets::masked_tokens : Targets::next_tokens);
  outline.num_samples = config.num_samples;
  if (is_masked) outline.target_share = config.mask_probability;
  return outline;
}

BatchSpec batch_spec_of(const TextLmConfig& config, const BatchSpecHints& hints) {
  BatchSpec outline = tokens(config.seq_len, vocabulary(config.tokenizer, hints), Targets::next_tokens);
  outline.has_documents = config.document_mask;
  if (outline.has_documents) outline.input_bytes = 3 * config.seq_len * kIdBytes;
  return outline;
}
BatchSpec batch_spec_of(const ChatConfig& config, const BatchSpecHints& hints) {
  BatchSpec outline = tokens(config.seq_len, vocabulary(config.tokenizer, hints), Targets::next_tokens);
  outline.has_documents = config.packing == Packing::best_fit;
  outline.input_bytes = 3 * config.seq_len * kIdBytes;
  return outline;
}
BatchSpec batch_spec_of(const PreferenceConfig& config, const BatchSpecHints& hints) {
  BatchSpec outline = batch_spec_of(config.as_chat(), hints);
  outline.spec.targets = Targets::preferences;
  outline.has_documents = true;
  return outline;
}
BatchSpec batch_spec_of(const TextMlmConfig& config, const BatchSpecHints& hints) {
  BatchSpec outline = tokens(config.seq_len, vocabulary(config.tokenizer, hints), Targets::masked_tokens);
  outline.target_share = config.mask_probability;
  return outline;
}
BatchSpec batch_spec_of(const TokenizedConfig& config, const BatchSpecHints&) {
  return tokens(config.seq_len, config.vocab_size, Targets::next_tokens);
}

BatchSpec batch_spec_of(const TextClassificationConfig& config, const BatchSpecHints& hints) {
  const bool is_value = config.label_type == LabelType::value;
  BatchSpec outline =
      padded(config.max_length, vocabulary(config.tokenizer, hints), is_value ? Targets::values : Targets::labels);
  if (!is_value) outline.spec.num_classes = classes(count(config.class_names), hints);
  return outline;
}
BatchSpec batch_spec_of(const TextTokenClassificationConfig& config, const BatchSpecHints& hints) {
  BatchSpec outline = padded(config.max_length, vocabulary(config.tokenizer, hints), Targets::token_labels);
  outline.spec.num_classes = classes(count(config.class_names), hints);
  return outline;
}

/// Returns the spec of pairs of the longest permitted source and target (text/seq2seq_rows.cpp).
BatchSpec batch_spec_of(const TextSeq2SeqConfig& config, const BatchSpecHints& hints) {
  const std::int64_t source = config.max_source_length;
  BatchSpec outline = tokens(source, vocabulary(config.tokenizer, hints), Targets::target_tokens);
  outline.spec.target_length = outline.target_count = config.max_target_length;
  outline.input_bytes = (2 + source + 2 * config.max_target_length + (source + kIdBytes - 1) / kIdBytes) * kIdBytes;
  outline.has_padding = true;
  return outline;
}

BatchSpec batch_spec_of(const WebDatasetConfig& config, const BatchSpecHints& hints) {
  const std::int64_t named = config.num_classes.value.value_or(count(config.class_names));
  return images({3, 0, 0}, classes(named, hints));
}

/// Returns the spec of a folder, in which each directory is a class.
BatchSpec batch_spec_of(const ImageFolderConfig& config, const BatchSpecHints& hints) {
  if (config.labels) {
    BatchSpec outline = images({3, 0, 0}, classes(config.facts().num_classes, hints));
    outline.spec.targets = config.facts().targets;
    if (outline.spec.targets == Targets::label_sets) outline.target_count = outline.spec.num_classes;
    return outline;
  }
  const std::int64_t directories =
      std::filesystem::is_directory(config.train) ? std::ssize(list_folder(config.train).folders) : 0;
  return images({3, 0, 0}, classes(hints.num_classes > 0 ? 0 : directories, hints));
}

BatchSpec batch_spec_of(const SegmentationFolderConfig& config, const BatchSpecHints&) {
  BatchSpec outline = images({3, 0, 0}, count(config.class_names));
  outline.spec.targets = Targets::class_masks;
  return outline;
}

BatchSpec batch_spec_of(const TableConfig& config, const BatchSpecHints& hints) {
  if (config.features.empty() && !hints.assumes_sizes && hints.num_columns == 0)
    throw OnlyDataTells("the number of columns", "dataset.features");
  const std::int64_t stated = config.features.empty() ? kAssumedColumns : count(config.features);
  const std::int64_t columns = hints.num_columns > 0 ? hints.num_columns : stated;
  BatchSpec outline;
  outline.spec.input_shape = {columns};
  outline.input_bytes = columns * static_cast<std::int64_t>(sizeof(float));
  outline.target_count = 1;
  if (config.label_type == LabelType::value)
    outline.spec.targets = Targets::values;
  else
    outline.spec.num_classes = classes(count(config.class_names), hints);
  return outline;
}

BatchSpec batch_spec_of(const PluggedSourceConfig& config, const BatchSpecHints& hints) {
  return config.interface().batch_spec(config.config(), hints);
}

/// Returns the first source's spec, with the mixture's number of samples: all sources have one kind of sample.
BatchSpec batch_spec_of(const MixtureConfig& config, const BatchSpecHints& hints) {
  BatchSpec first = config.sources.front().source.visit([&](const auto& kind) { return batch_spec_of(kind, hints); });
  first.num_samples = config.samples_per_epoch.value.value_or(0);
  return first;
}

/// Changes the spec of the images to that of the transforms' output.
void transform(BatchSpec& outline, const DatasetConfig& config, const LoaderOptions& options) {
  const std::vector<std::int64_t>& shape = outline.spec.input_shape;
  const Transforms transforms(config.transforms, {.height = shape[1], .width = shape[2], .channels = shape[0]},
                              Phase::training, pixel_output(config, options, config.transforms));
  const ImageShape& output = transforms.output();
  outline.spec.input_shape = {output.channels, output.height, output.width};
  if (outline.spec.targets == Targets::class_masks) outline.target_count = output.height * output.width;
  const bool is_bytes = transforms.output_kind() == PixelOutput::bytes;
  outline.input_bytes = output.bytes() * (is_bytes ? 1 : static_cast<std::int64_t>(sizeof(float)));
  if (!is_bytes) return;
  outline.spec.to_normalize = transforms.scaling();
}

}  // namespace

OnlyDataTells::OnlyDataTells(const std::string& what, const std::string& key)
    : core::Error(what + " is known only from the data") {
  hint("set " + key);
}

BatchSpec outline(const DatasetConfig& config, const LoaderOptions& options, const BatchSpecHints& hints) {
  BatchSpec outline = config.source.visit([&](const auto& kind) { return batch_spec_of(kind, hints); });
  if (outline.spec.is_image()) transform(outline, config, options);
  if (outline.spec.target_length == 0) outline.text_length = hints.longest_text;            // pairs have two lengths
  outline.spec.class_counts.assign(static_cast<std::size_t>(outline.spec.num_classes), 1);  // as if all had samples
  const std::int64_t workers = config.num_workers.value.value_or(options.workers);
  if (workers > 0)
    outline.batches_ahead =
        batches_ahead(workers, config.prefetch_factor, config.samples_per_batch() * outline.input_bytes);
  return outline;
}

}  // namespace trainctl::dataset
