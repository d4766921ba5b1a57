#include <algorithm>

#include "config/emit.h"
#include "core/text.h"
#include "data_tools/inspect.h"

namespace trainctl::data_tools {
namespace {

constexpr std::size_t kMostClassesNamed = 12;

std::string scalar(const std::string& text) {
  return config::emit_inline(config::Node::scalar(text, config::ScalarStyle::quoted));
}

/// Returns a name of the data for a comment, which a line end in it would end.
std::string in_comment(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return name;
}

/// Says which files of the directory have no part in the experiment.
std::string passed_over_line(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 6;
  if (names.empty()) return "";
  return "# passed over: " + in_comment(core::list_first_words(names, kMostNamed)) + "\n";
}

std::string counts_line(const Counts& classes) {
  std::string line;
  for (std::size_t i = 0; i < std::min(classes.size(), kMostClassesNamed); ++i)
    line += (line.empty() ? "" : ", ") + in_comment(classes[i].first) + " " + core::format_count(classes[i].second);
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

/// Returns the keys of labels that are numbers.
std::string value_labels(const SeenRows& seen) {
  return seen.label_is_value ? "  label_type: value\n  label_scaling: standard\n" : "";
}

std::string task_of(const SeenRows& seen) {
  return seen.label_is_value ? "task: {kind: regression, metrics: [r2, mae, rmse]}\n" : weighting(seen.classes);
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

/// Returns what is kept for evaluation and for a test: sets of their own, or a share.
std::string evaluation(const std::optional<std::string>& eval, std::int64_t num_samples,
                       const std::optional<std::string>& test = {}) {
  // A tenth of few samples may be none.
  const std::string share = num_samples < 30 ? "0.4" : num_samples < 100 ? "0.2" : "0.1";
  return (eval ? "  eval: " + scalar(*eval) + "\n"
               : "  eval_fraction: " + share + "  # assumed: there is no set for evaluation\n") +
         (test ? "  test: " + scalar(*test) + "  # for trainctl eval RUN --split test\n" : "");
}

Suggestion experiment_of(const SeenImages& seen, const SuggestionOptions& options) {
  const std::int64_t side = std::min(seen.median_width, seen.median_height);
  const std::int64_t size = side <= 40 ? 32 : side <= 100 ? 64 : 128;
  const std::int64_t batch_size = batch_of(seen.num_images < 2000 ? 32 : 64, options);
  const Length length = length_of(seen.num_images, batch_size, 600);
  std::string remarks = "# seen: " + core::format_count(seen.num_images) + " images of " +
                        core::format_count(seen.classes.size()) + " classes: " + counts_line(seen.classes) + "\n" +
                        "# seen: half of them are at least " + std::to_string(seen.median_width) + " pixels wide and " +
                        std::to_string(seen.median_height) + " high";
  if (seen.num_damaged > 0)
    remarks += "; " + core::format_count(seen.num_damaged) + " of " + core::format_count(seen.num_looked_at) +
               " that were opened are damaged";
  if (seen.num_turned > 0)
    remarks += "\n# seen: " + core::format_count(seen.num_turned) + " of " + core::format_count(seen.num_looked_at) +
               " that were opened are stored turned (EXIF orientation), and are read so; exiftran -ai turns them";
  remarks += "\n# assumed: " + std::to_string(size) +
             " pixels are enough, and no trained weights are at hand (model.init_from takes some)\n" +
             passed_over_line(seen.passed_over);
  std::string text = "name: " + scalar(options.name) +
                     "\nseed: 1\ndataset:\n  kind: image_folder\n  train: " + scalar(seen.train) + "\n";
  if (seen.labels)
    text += "  labels: {train: " + scalar(seen.labels->table) + ", file: " + scalar(seen.labels->file) +
            ", label: " + scalar(seen.labels->label) + "}\n";
  text += evaluation(seen.eval, seen.num_images, seen.test) + "  batch_size: " + std::to_string(batch_size) + "\n";
  if (seen.num_damaged > 0) text += "  on_bad_sample: skip\n";
  const std::string side_text = std::to_string(size);
  text += "  transforms:\n    - {kind: random_resized_crop, size: " + side_text +
          ", scale: [0.35, 1]}\n    - random_horizontal_flip\n    - normalize\n" +
          "  eval_transforms:\n    - {kind: resize, size: " + std::to_string(size * 8 / 7) +
          "}\n    - {kind: center_crop, size: " + side_text + "}\n    - normalize\n";
  text += "model: {kind: resnet18" + std::string(size <= 64 ? ", stem: cifar" : "") + "}\n";
  text += weighting(seen.classes);
  text += "optimizer: {kind: adamw, lr: 1e-3, weight_decay: 0.05, lr_scheduler: {kind: one_cycle}}\n";
  return {std::move(remarks), text + training(length, "accuracy")};
}

std::string seen_columns(const SeenRows& seen) {
  std::string text;
  for (const SeenColumn& column : seen.columns) {
    if (!column.left_out.empty()) {
      text += "#   " + in_comment(column.name) + ": left out, " + column.left_out + "\n";
      continue;
    }
    text += "#   " + in_comment(column.name) + ": " + (column.name == seen.label ? "the label" : column.kind) + ", " +
            core::format_count(column.num_distinct) + (column.num_distinct == kMostDistinct ? " or more" : "") +
            " different values";
    if (column.num_missing > 0) text += ", " + core::format_count(column.num_missing) + " missing";
    text += "\n";
  }
  return text;
}

std::int64_t num_unlabelled(const SeenRows& seen) {
  for (const SeenColumn& column : seen.columns)
    if (column.name == seen.label) return column.num_missing;
  return 0;
}

std::string head_of(const SeenRows& seen) {
  std::string text = "# seen: " + core::format_count(seen.num_rows) + " rows" + (seen.is_part ? " and more" : "") +
                     (seen.is_jsonl || seen.has_header ? "" : ", without a header") + "\n" + seen_columns(seen);
  if (!seen.classes.empty()) text += "# seen: classes " + counts_line(seen.classes) + "\n";
  if (const std::int64_t unlabelled = num_unlabelled(seen); unlabelled > 0)
    text += "# seen: " + core::format_count(unlabelled) +
            " rows without a label; a class called NA or None stands in quotes, or in dataset.class_names\n";
  for (const std::string& set : seen.unlabelled)
    text += "# seen: " + in_comment(set) + " has no labels in column " + in_comment(seen.label) +
            "; trainctl predict takes it\n";
  if (seen.label_is_guessed)
    text += "# assumed: column " + in_comment(seen.label) + " is the label (--label names another)\n";
  return text + passed_over_line(seen.passed_over);
}

std::string metric_of(const SeenRows& seen) {
  return seen.label_is_value ? "loss" : are_uneven(seen.classes) ? "f1_macro" : "accuracy";
}

/// Returns the key that lists the inputs, where the dataset would take a column that is left out. An index it leaves
/// out itself, and lists and objects are in no table.
std::string features_of(const SeenRows& seen) {
  config::Node features = config::Node::sequence({});
  bool any_empty = false;
  for (const SeenColumn& column : seen.columns) {
    if (column.left_out.empty() && column.name != seen.label)
      features.items.push_back(config::Node::scalar(column.name, config::ScalarStyle::quoted));
    any_empty = any_empty || (!column.left_out.empty() && column.num_distinct == 0);
  }
  return any_empty ? "  features: " + config::emit_inline(features) + "\n" : "";
}

/// Returns the comment that counts the rows which missing_values: drop leaves out.
std::string dropped_rows(const SeenRows& seen) {
  const std::int64_t unlabelled = num_unlabelled(seen);
  std::string text = "# leaves out " + core::format_count(seen.num_incomplete) + " of " +
                     (seen.is_part ? "the first " : "") + core::format_count(seen.num_rows) +
                     " rows: " + core::format_count(unlabelled) + " have no label";
  if (const std::int64_t others = seen.num_incomplete - unlabelled; others > 0)
    text += ", " + core::format_count(others) +
            " miss another value; `mean` keeps those, in a file where each row has a label";
  return text;
}

Suggestion table_experiment(const SeenRows& seen, const SuggestionOptions& options) {
  // Few steps on a small table don't reach the values of a regression, and dropout blurs them.
  const std::int64_t batch_size = batch_of(seen.label_is_value && seen.num_rows < 2000 ? 32 : 256, options);
  const bool misses_numbers =
      seen.sets_miss_numbers || std::any_of(seen.columns.begin(), seen.columns.end(), [&](const SeenColumn& column) {
        return column.num_missing > 0 && column.needs_values() && column.name != seen.label;
      });
  std::string text =
      "name: " + scalar(options.name) + "\nseed: 1\ndataset:\n  kind: table\n  train: " + scalar(seen.train) + "\n" +
      evaluation(seen.eval, seen.num_rows, seen.test) + "  label: " + scalar(seen.label) + "\n" + features_of(seen);
  text += value_labels(seen);
  if (num_unlabelled(seen) > 0)
    text += "  missing_values: drop  " + dropped_rows(seen) + "\n";
  else if (seen.sets_miss_labels)
    text += "  missing_values: drop  # rows of the set for evaluation or test have no label\n";
  else if (misses_numbers)
    text += "  missing_values: mean\n";
  text += "  feature_scaling: piecewise_linear\n  batch_size: " + std::to_string(batch_size) + "\n";
  text += std::string("model: {kind: mlp, hidden: [256, 128], dropout: ") + (seen.label_is_value ? "0" : "0.5") + "}\n";
  if (seen.label_is_value) text += task_of(seen);
  text += "optimizer: {kind: adamw, lr: 2e-3, weight_decay: 0.05, lr_scheduler: {kind: one_cycle}}\n";
  return {head_of(seen), text + training(length_of(seen.num_rows, batch_size, 2500), metric_of(seen))};
}

/// Returns the columns that texts stand beside, for a comment.
std::string unread_columns(const SeenRows& seen) {
  std::vector<std::string> names;
  for (const SeenColumn& column : seen.columns)
    if (column.name != seen.text && column.name != seen.text_pair && column.name != seen.label &&
        column.left_out.empty())
      names.push_back(in_comment(column.name));
  return core::list_words(names);
}

Suggestion labelled_texts_experiment(const SeenRows& seen, const SuggestionOptions& options) {
  const std::int64_t batch_size = batch_of(32, options);
  const auto files = [&](const std::string& file) {
    return "{files: " + scalar(file) + ", text: " + scalar(*seen.text) +
           (seen.text_pair ? ", text_pair: " + scalar(*seen.text_pair) : "") + ", label: " + scalar(seen.label) + "}";
  };
  const std::string unread = unread_columns(seen);
  std::string remarks =
      head_of(seen) + "# assumed: column " + in_comment(*seen.text) +
      (seen.text_pair ? " has the first of two texts, and column " + in_comment(*seen.text_pair) + " the second\n"
                      : " has the texts (--text names another)\n") +
      (unread.empty() ? "" : "# assumed: only the texts tell the label; not read: " + unread + "\n") +
      "# assumed: no trained weights are at hand: the network reads n-grams of bytes, and learns from "
      "these texts alone\n";
  std::string text = "name: " + scalar(options.name) +
                     "\nseed: 1\ndataset:\n  kind: text_classification\n  train: " + files(seen.train) + "\n" +
                     (seen.eval ? "  eval: " + files(*seen.eval) + "\n" : evaluation(std::nullopt, seen.num_rows));
  if (seen.test) text += "  test: " + files(*seen.test) + "  # for trainctl eval RUN --split test\n";
  text +=
      value_labels(seen) + "  tokenizer: bytes\n  max_length: 1024\n  batch_size: " + std::to_string(batch_size) + "\n";
  text += "model: {kind: fasttext, embedding_size: 32, min_ngram: 3, max_ngram: 6, num_buckets: 131072}\n";
  text += task_of(seen);
  text += "optimizer: {kind: adamw, lr: 1e-2, weight_decay: 0.01, clip_norm: 1, lr_scheduler: {kind: one_cycle}}\n";
  return {std::move(remarks), text + training(length_of(seen.num_rows, batch_size, 500), metric_of(seen))};
}

Suggestion experiment_of(const SeenRows& seen, const SuggestionOptions& options) {
  return seen.text ? labelled_texts_experiment(seen, options) : table_experiment(seen, options);
}

std::string files_of(const SeenTexts& seen) {
  if (seen.patterns.empty()) return scalar(seen.train);
  config::Node list = config::Node::sequence({});
  for (const std::string& pattern : seen.patterns)
    list.items.push_back(config::Node::scalar(pattern, config::ScalarStyle::quoted));
  return config::emit_inline(list);
}

Suggestion experiment_of(const SeenTexts& seen, const SuggestionOptions& options) {
  const std::int64_t batch_size = batch_of(16, options);
  constexpr std::int64_t kLength = 128;
  const Length length = length_of(seen.num_bytes / kLength, batch_size, 2000);
  std::string remarks =
      "# seen: " + core::format_count(seen.num_files) + (seen.num_files == 1 ? " text" : " texts") + " of " +
      core::format_bytes(static_cast<double>(seen.num_bytes)) + "\n" +
      "# assumed: a language model that reads bytes; 'trainctl tokenize --train-bpe' learns a vocabulary\n" +
      passed_over_line(seen.passed_over);
  const auto set = [&](const std::string& files) {
    return "{files: " + files + (seen.member ? ", text: " + scalar(*seen.member) : "") + "}";
  };
  std::string text =
      "name: " + scalar(options.name) + "\nseed: 1\ndataset:\n  kind: text_lm\n  train: " + set(files_of(seen)) + "\n" +
      (seen.eval ? "  eval: " + set(scalar(*seen.eval)) + "\n"
                 : "  eval_fraction: 0.1  # assumed: there is no set for evaluation\n") +
      (seen.test ? "  test: " + set(scalar(*seen.test)) + "  # for trainctl eval RUN --split test\n" : "") +
      "  tokenizer: bytes\n  seq_len: " + std::to_string(kLength) + "\n  batch_size: " + std::to_string(batch_size) +
      "\n";
  text += "model: {kind: gpt2, hidden_size: 128, num_layers: 4, num_heads: 4, max_position_embeddings: 256}\n";
  text += "optimizer: {kind: adamw, lr: 1e-3, weight_decay: 0.1, clip_norm: 1, lr_scheduler: {kind: one_cycle}}\n";
  return {std::move(remarks), text + training(length, "loss")};
}

Suggestion experiment_of(const SeenChat& seen, const SuggestionOptions& options) {
  const std::int64_t batch_size = batch_of(8, options);
  constexpr std::int64_t kLength = 512;
  const Length length = length_of(seen.num_rows * seen.median_bytes / kLength, batch_size, 1000);
  std::string remarks = "# seen: " + core::format_count(seen.num_rows) + " conversations" +
                        (seen.is_part ? " and more" : "") + " with " + core::format_count(seen.num_turns) +
                        " turns, half of them in rows of at most " +
                        core::format_bytes(static_cast<double>(seen.median_bytes)) + "\n" +
                        "# assumed: no trained weights are at hand, and the network reads bytes. For a trained model: "
                        "tokenizer: DIR, chat_template: null, model: {kind: llama, init_from: DIR}\n" +
                        passed_over_line(seen.passed_over);
  std::string text = "name: " + scalar(options.name) +
                     "\nseed: 1\ndataset:\n  kind: chat\n  train: " + scalar(seen.train) + "\n" +
                     evaluation(seen.eval, seen.num_rows, seen.test) +
                     "  tokenizer: bytes\n  chat_template: chatml\n  seq_len: " + std::to_string(kLength) +
                     "\n  batch_size: " + std::to_string(batch_size) + "\n";
  text += "model: {kind: gpt2, hidden_size: 128, num_layers: 4, num_heads: 4, max_position_embeddings: 512}\n";
  text += "optimizer: {kind: adamw, lr: 1e-3, weight_decay: 0.1, clip_norm: 1, lr_scheduler: {kind: one_cycle}}\n";
  return {std::move(remarks), text + training(length, "loss")};
}

}  // namespace

Suggestion suggested_experiment(const SeenData& seen, const SuggestionOptions& options) {
  return std::visit([&](const auto& kind) { return experiment_of(kind, options); }, seen);
}

}  // namespace trainctl::data_tools
