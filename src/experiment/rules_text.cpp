#include <unordered_map>

#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_targets(Checked& c) {
  const dataset::SourceConfig& source = c.experiment.dataset.source;
  const std::string_view wanted = task::task_for(config::facts_of(source).targets);
  const std::string_view task = c.experiment.task.kind();
  if (is_for(c.experiment.task, config::facts_of(source).targets)) return;
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
void check_files(Checked& c, const dataset::DatasetFacts& facts) {
  for (const dataset::UnusedKey& unused : facts.unused_keys) {
    const std::string path = "dataset." + unused.section;
    c.report({path + "." + unused.key, path + ".files", path + ".format"},
             "is for " + unused.used_by + "; no file is one");
  }
}

/// Plain text has no columns.
void check_columns(Checked& c) {
  const auto check = [&](const dataset::TextFiles& files, const std::string& path) {
    using enum dataset::TextFormat;
    if (files.text != dataset::TextFiles{}.text && !has_format(files, jsonl, csv, tsv, parquet))
      c.report({path + ".text", path + ".files", path + ".format"}, "is for files with columns; no file is one");
  };
  c.experiment.dataset.source.visit([&](const auto& source) {
    if constexpr (requires { check(source.train, ""); }) {
      check(source.train, "dataset.train");
      if (source.eval) check(*source.eval, "dataset.eval");
      if (source.test) check(*source.test, "dataset.test");
    }
  });
}

}  // namespace

void check_text(Checked& checked) {
  check_targets(checked);
  const dataset::DatasetFacts facts = config::facts_of(checked.experiment.dataset.source);
  const std::vector<std::string>& labels = facts.class_names;
  check_labels(checked, labels);
  const auto names = static_cast<std::int64_t>(labels.size());
  if (names > 0 && facts.num_classes != names)
    checked.report({"dataset.num_classes", "dataset.class_names"},
                   "dataset.class_names names " + std::to_string(names) + " classes; leave this out to follow it");
  if (facts.tokens() != nullptr && facts.targets == dataset::Targets::values && names > 0)
    checked.report({"dataset.class_names", "dataset.label_type"}, "names classes, and label_type is value");
  check_files(checked, facts);
  check_columns(checked);
}

}  // namespace trainctl::experiment
