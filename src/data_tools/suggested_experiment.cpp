#include <algorithm>

#include "core/text.h"
#include "data_tools/inspect.h"

namespace trainctl::data_tools {
namespace {

constexpr std::size_t kMostClassesNamed = 12;

/// Returns the text as a YAML scalar in quotes, unless it needs none.
std::string scalar(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  const bool is_plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos && text[0] != '-' &&
                        !core::is_number(text) && text.find_first_not_of("0123456789.-") != std::string::npos;
  if (is_plain) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string counts_line(const Counts& classes) {
  std::string line;
  for (std::size_t i = 0; i < std::min(classes.size(), kMostClassesNamed); ++i)
    line += (line.empty() ? "" : ", ") + classes[i].first + " " + core::format_count(classes[i].second);
  return classes.size() > kMostClassesNamed
             ? line + " and " + core::format_count(classes.size() - kMostClassesNamed) + " more"
             : line;
}

/// Classes are uneven if one has more than four times the samples of another.
bool are_uneven(const Counts& classes) {
  return !classes.empty() && classes.front().second > 4 * classes.back().second;
}

std::string weighting(const Counts& classes) {
  return are_uneven(classes) ? "task: {kind: classification, class_weighting: balanced}  # the classes are uneven\n"
                             : "";
}

std::int64_t batch_of(std::int64_t usual, const SuggestionOptions& options) {
  return std::max<std::int64_t>(1, usual / options.batch_divisor);
}

struct Length {
  std::int64_t epochs;
  std::int64_t eval_every;  // steps
};

/// Returns a length of about `steps` steps, with an evaluation after every epoch.
Length length_of(std::int64_t samples, std::int64_t batch_size, std::int64_t steps) {
  const std::int64_t per_epoch = std::max<std::int64_t>(1, (samples + batch_size - 1) / batch_size);
  return {.epochs = std::clamp<std::int64_t>((steps + per_epoch - 1) / per_epoch, 3, 60), .eval_every = per_epoch};
}

std::string training(const Length& length, const std::string& metric) {
  const bool lowest = metric == "loss" || metric == "perplexity";
  return "train: {epochs: " + std::to_string(length.epochs) + ", eval_every: " + std::to_string(length.eval_every) +
         ", early_stopping: {patience: 5}}\n" + "checkpoint: {every: " + std::to_string(length.eval_every) +
         ", best: {metric: " + metric + ", mode: " + (lowest ? "min" : "max") + "}}\n";
}

/// Returns what is kept for evaluation: a set of its own, or a share.
std::string evaluation(const std::optional<std::string>& eval) {
  return eval ? "  eval: " + scalar(*eval) + "\n" : "  eval_fraction: 0.1  # assumed: there is no set for evaluation\n";
}

std::string experiment_of(const SeenImages& seen, const SuggestionOptions& options) {
  const std::int64_t side = std::min(seen.median_width, seen.median_height);
  const std::int64_t size = side <= 40 ? 32 : side <= 100 ? 64 : 128;
  const std::int64_t batch_size = batch_of(seen.num_images < 2000 ? 32 : 64, options);
  const Length length = length_of(seen.num_images, batch_size, 600);
  std::string text = "# seen: " + core::format_count(seen.num_images) + " images of " +
                     core::format_count(seen.classes.size()) + " classes: " + counts_line(seen.classes) + "\n" +
                     "# seen: half of them are at least " + std::to_string(seen.median_width) + " pixels wide and " +
                     std::to_string(seen.median_height) + " high";
  if (seen.num_damaged > 0)
    text += "; " + core::format_count(seen.num_damaged) + " of " + core::format_count(seen.num_looked_at) +
            " that were opened are damaged";
  text += "\n# assumed: " + std::to_string(size) +
          " pixels are enough, and no trained weights are at hand (model.init_from takes some)\n";
  text += "name: " + scalar(options.name) +
          "\nseed: 1\ndataset:\n  kind: image_folder\n  train: " + scalar(seen.train) + "\n" + evaluation(seen.eval) +
          "  batch_size: " + std::to_string(batch_size) + "\n";
  if (seen.num_damaged > 0) text += "  on_bad_sample: skip\n";
  const std::string side_text = std::to_string(size);
  text += "  transforms:\n    - {kind: random_resized_crop, size: " + side_text +
          ", scale: [0.35, 1]}\n    - random_horizontal_flip\n    - normalize\n" +
          "  eval_transforms:\n    - {kind: resize, size: " + std::to_string(size * 8 / 7) +
          "}\n    - {kind: center_crop, size: " + side_text + "}\n    - normalize\n";
  text += "model: {kind: resnet18" + std::string(size <= 64 ? ", stem: cifar" : "") + "}\n";
  text += weighting(seen.classes);
  text += "optimizer: {kind: adamw, lr: 1e-3, weight_decay: 0.05, lr_scheduler: {kind: one_cycle}}\n";
  return text + training(length, "accuracy");
}

std::string seen_columns(const SeenRows& seen) {
  std::string text;
  for (const SeenColumn& column : seen.columns) {
    text += "#   " + column.name + ": " + (column.name == seen.label ? "the label" : column.kind) + ", " +
            core::format_count(column.num_distinct) + (column.num_distinct == kMostDistinct ? " or more" : "") +
            " different values";
    if (column.num_missing > 0) text += ", " + core::format_count(column.num_missing) + " missing";
    text += "\n";
  }
  return text;
}

std::string head_of(const SeenRows& seen) {
  std::string text = "# seen: " + core::format_count(seen.num_rows) + " rows" + (seen.is_part ? " and more" : "") +
                     (seen.is_jsonl || seen.has_header ? "" : ", without a header") + "\n" + seen_columns(seen);
  if (!seen.classes.empty()) text += "# seen: classes " + counts_line(seen.classes) + "\n";
  if (seen.label_is_guessed) text += "# assumed: column " + seen.label + " is the label (--label names another)\n";
  return text;
}

std::string metric_of(const SeenRows& seen) {
  return seen.label_is_value ? "loss" : are_uneven(seen.classes) ? "f1_macro" : "accuracy";
}

std::string table_experiment(const SeenRows& seen, const SuggestionOptions& options) {
  const std::int64_t batch_size = batch_of(256, options);
  const bool misses_numbers = std::any_of(seen.columns.begin(), seen.columns.end(), [&](const SeenColumn& column) {
    return column.num_missing > 0 && (column.kind == "number" || column.kind == "date") && column.name != seen.label;
  });
  std::string text = head_of(seen) + "name: " + scalar(options.name) +
                     "\nseed: 1\ndataset:\n  kind: table\n  train: " + scalar(seen.train) + "\n" +
                     evaluation(seen.eval) + "  label: " + scalar(seen.label) + "\n";
  if (seen.label_is_value) text += "  label_type: value\n";
  if (misses_numbers) text += "  missing_values: mean\n";
  text += "  feature_scaling: piecewise_linear\n  batch_size: " + std::to_string(batch_size) + "\n";
  text += "model: {kind: mlp, hidden: [256, 128], dropout: 0.5}\n";
  text += "optimizer: {kind: adamw, lr: 2e-3, weight_decay: 0.05, lr_scheduler: {kind: one_cycle}}\n";
  return text + training(length_of(seen.num_rows, batch_size, 2500), metric_of(seen));
}

std::string labelled_texts_experiment(const SeenRows& seen, const SuggestionOptions& options) {
  const std::int64_t batch_size = batch_of(32, options);
  const auto files = [&](const std::string& file) {
    return "{files: " + scalar(file) + ", text: " + scalar(*seen.text) + ", label: " + scalar(seen.label) + "}";
  };
  std::string text = head_of(seen) + "# assumed: column " + *seen.text + " has the texts (--text names another)\n" +
                     "# assumed: no trained weights are at hand: the network reads n-grams of bytes, and learns from "
                     "these texts alone\n";
  text += "name: " + scalar(options.name) +
          "\nseed: 1\ndataset:\n  kind: text_classification\n  train: " + files(seen.train) + "\n" +
          (seen.eval ? "  eval: " + files(*seen.eval) + "\n" : evaluation(std::nullopt));
  if (seen.label_is_value) text += "  label_type: value\n";
  text += "  tokenizer: bytes\n  max_length: 1024\n  batch_size: " + std::to_string(batch_size) + "\n";
  text += "model: {kind: fasttext, embedding_size: 32, min_ngram: 3, max_ngram: 6, num_buckets: 131072}\n";
  text += weighting(seen.classes);
  text += "optimizer: {kind: adamw, lr: 1e-2, weight_decay: 0.01, clip_norm: 1, lr_scheduler: {kind: one_cycle}}\n";
  return text + training(length_of(seen.num_rows, batch_size, 500), metric_of(seen));
}

std::string experiment_of(const SeenRows& seen, const SuggestionOptions& options) {
  return seen.text ? labelled_texts_experiment(seen, options) : table_experiment(seen, options);
}

std::string experiment_of(const SeenTexts& seen, const SuggestionOptions& options) {
  const std::int64_t batch_size = batch_of(16, options);
  constexpr std::int64_t kLength = 128;
  const Length length = length_of(seen.num_bytes / kLength, batch_size, 2000);
  std::string text =
      "# seen: " + core::format_count(seen.num_files) + (seen.num_files == 1 ? " text" : " texts") + " of " +
      core::format_bytes(static_cast<double>(seen.num_bytes)) + "\n" +
      "# assumed: a language model that reads bytes; 'trainctl tokenize --train-bpe' learns a vocabulary\n";
  text += "name: " + scalar(options.name) +
          "\nseed: 1\ndataset:\n  kind: text_lm\n  train: {files: " + scalar(seen.path) +
          "}\n  eval_fraction: 0.1  # assumed: there is no set for evaluation\n  tokenizer: bytes\n  seq_len: " +
          std::to_string(kLength) + "\n  batch_size: " + std::to_string(batch_size) + "\n";
  text += "model: {kind: gpt2, hidden_size: 128, num_layers: 4, num_heads: 4, max_position_embeddings: 256}\n";
  text += "optimizer: {kind: adamw, lr: 1e-3, weight_decay: 0.1, clip_norm: 1, lr_scheduler: {kind: one_cycle}}\n";
  return text + training(length, "loss");
}

std::string experiment_of(const SeenChat& seen, const SuggestionOptions& options) {
  const std::int64_t batch_size = batch_of(8, options);
  constexpr std::int64_t kLength = 512;
  const Length length = length_of(seen.num_rows * seen.median_bytes / kLength, batch_size, 1000);
  std::string text = "# seen: " + core::format_count(seen.num_rows) + " conversations" +
                     (seen.is_part ? " and more" : "") + " with " + core::format_count(seen.num_turns) +
                     " turns, half of them in rows of at most " +
                     core::format_bytes(static_cast<double>(seen.median_bytes)) + "\n" +
                     "# assumed: no trained weights are at hand, and the network reads bytes. For a trained model: "
                     "tokenizer: DIR, chat_template: null, model: {kind: llama, init_from: DIR}\n";
  text += "name: " + scalar(options.name) + "\nseed: 1\ndataset:\n  kind: chat\n  train: " + scalar(seen.train) + "\n" +
          evaluation(seen.eval) + "  tokenizer: bytes\n  chat_template: chatml\n  seq_len: " + std::to_string(kLength) +
          "\n  batch_size: " + std::to_string(batch_size) + "\n";
  text += "model: {kind: gpt2, hidden_size: 128, num_layers: 4, num_heads: 4, max_position_embeddings: 512}\n";
  text += "optimizer: {kind: adamw, lr: 1e-3, weight_decay: 0.1, clip_norm: 1, lr_scheduler: {kind: one_cycle}}\n";
  return text + training(length, "loss");
}

}  // namespace

std::string suggested_experiment(const SeenData& seen, const SuggestionOptions& options) {
  return std::visit([&](const auto& kind) { return experiment_of(kind, options); }, seen);
}

}  // namespace trainctl::data_tools
