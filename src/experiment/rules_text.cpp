#include <algorithm>
#include <unordered_map>

#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

/// The task that a kind of data has targets for; "" where only the data knows.
struct TaskOf {
  std::string_view operator()(const dataset::IdxConfig&) const { return task::ClassificationConfig::kind; }
  std::string_view operator()(const dataset::Cifar10Config&) const { return task::ClassificationConfig::kind; }
  std::string_view operator()(const dataset::Cifar100Config&) const { return task::ClassificationConfig::kind; }
  std::string_view operator()(const dataset::SyntheticImagesConfig&) const { return task::ClassificationConfig::kind; }
  std::string_view operator()(const dataset::SyntheticTokensConfig& config) const {
    return config.mask_probability > 0 ? task::MaskedLmConfig::kind : task::CausalLmConfig::kind;
  }
  std::string_view operator()(const dataset::TextLmConfig&) const { return task::CausalLmConfig::kind; }
  std::string_view operator()(const dataset::TextMlmConfig&) const { return task::MaskedLmConfig::kind; }
  std::string_view operator()(const dataset::TextClassificationConfig& config) const {
    return config.label_type == dataset::LabelType::value ? task::RegressionConfig::kind
                                                          : task::ClassificationConfig::kind;
  }
  std::string_view operator()(const dataset::TextTokenClassificationConfig&) const {
    return task::TokenClassificationConfig::kind;
  }
  template <class Other>
  std::string_view operator()(const Other&) const {
    return "";
  }
};

void check_targets(Checked& c) {
  const dataset::SourceConfig& source = c.experiment.dataset.source;
  const std::string_view wanted = source.visit(TaskOf());
  const std::string_view task = c.experiment.task.kind();
  if (wanted.empty() || task == wanted) return;
  c.report({"task.kind", "dataset.kind", "dataset.label_type", "dataset.mask_probability"},
           "expected " + std::string(wanted) + ", which the targets of " + std::string(source.kind()) +
               " are for, got " + std::string(task));
}

/// Classes have names of their own.
void check_labels(Checked& c, const std::vector<std::string>& labels) {
  std::unordered_map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string path = config::join_path("dataset.class_names", i);
    if (labels[i].empty()) c.report({path}, "a label can't be empty");
    const auto [known, is_new] = first.emplace(labels[i], i);
    if (!is_new)
      c.report({path}, "'" + labels[i].substr(0, 60) + "' is given already, as number " +
                           std::to_string(known->second + 1) + " of the list");
  }
}

/// Options that some formats don't have.
void check_files(Checked& c, const std::string& path, const auto& text) {
  const auto any = [&](auto... formats) {
    return std::any_of(text.files.begin(), text.files.end(), [&](const std::string& file) {
      const auto format = dataset::format_of(file, text.format);
      return ((format == formats) || ...);
    });
  };
  const auto report = [&](const char* key, const std::string& formats) {
    c.report({path + "." + key, path + ".files", path + ".format"}, "is for " + formats + "; no file is one");
  };
  if constexpr (requires { text.quoting; }) {
    const bool has_table = any(dataset::TextFormat::csv, dataset::TextFormat::tsv);
    if (text.quoting != dataset::Quoting::auto_ && !has_table) report("quoting", "csv and tsv");
    if (!text.header_lines.is_auto() && !has_table) report("header_lines", "csv and tsv");
  }
  if constexpr (requires { text.document; })
    if (text.document != dataset::DocumentUnit::file && !any(dataset::TextFormat::text))
      report("document", "plain text");
  if constexpr (requires { text.separator; }) {
    const bool has_conll = any(dataset::TaggedFormat::conll);
    if (text.separator != dataset::ColumnSeparator::whitespace && !has_conll) report("separator", "conll");
    if (text.header_lines != 0 && !has_conll) report("header_lines", "conll");
    if (!text.comment.empty() && !has_conll) report("comment", "conll");
  }
}

}  // namespace

void check_text(Checked& checked) {
  check_targets(checked);
  checked.experiment.dataset.source.visit([&](const auto& config) {
    if constexpr (requires { config.class_names; }) check_labels(checked, config.class_names);
    if constexpr (requires {
                    config.class_names;
                    config.num_classes;
                  }) {
      const auto names = static_cast<std::int64_t>(config.class_names.size());
      if (names > 0 && config.num_classes.value.value_or(names) != names)
        checked.report({"dataset.num_classes", "dataset.class_names"},
                       "dataset.class_names names " + std::to_string(names) + " classes; leave this out to follow it");
    }
    if constexpr (requires {
                    config.label_type;
                    config.tokenizer;
                  })
      if (config.label_type == dataset::LabelType::value && !config.class_names.empty())
        checked.report({"dataset.class_names", "dataset.label_type"}, "names classes, and label_type is value");
    if constexpr (requires {
                    config.tokenizer;
                    config.eval->files;
                  }) {
      check_files(checked, "dataset.train", config.train);
      if (config.eval) check_files(checked, "dataset.eval", *config.eval);
    }
  });
}

}  // namespace trainctl::experiment
