#include <cstdint>

#include "core/text.h"
#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

/// A list [smallest, largest].
void check_normalize(Checked& c, const dataset::NormalizeConfig& normalize, const std::string& path) {
  const std::size_t means = normalize.mean.size();
  const std::size_t stds = normalize.std.size();
  if (means != stds && means != 1 && stds != 1)
    return c.report({path + ".std", path + ".mean"},
                    "std has " + std::to_string(stds) + " numbers, mean has " + std::to_string(means));
  const dataset::DatasetFacts facts = config::facts_of(c.experiment.dataset.source);
  const std::int64_t channels = facts.images() == nullptr ? 0 : *facts.images()->num_channels;
  for (const auto& [size, key] : {std::pair(means, ".mean"), std::pair(stds, ".std")})
    if (size != 1 && static_cast<std::int64_t>(size) != channels)
      c.report({path + key, "dataset.kind", "dataset.channels"},
               std::to_string(size) + " numbers, but the images have " + std::to_string(channels) +
                   (channels == 1 ? " channel" : " channels"));
}

void check_transforms(Checked& c) {
  const dataset::DatasetConfig& dataset = c.experiment.dataset;
  if (!has_images(dataset.source)) {
    if (!dataset.transforms.empty())
      c.report({"dataset.transforms", "dataset.kind"},
               "these change images; " + std::string(dataset.source.kind()) + " has none");
    return;
  }
  std::size_t last_normalize = dataset.transforms.size();
  for (std::size_t i = 0; i < dataset.transforms.size(); ++i)
    if (dataset.transforms[i].get_if<dataset::NormalizeConfig>() != nullptr) last_normalize = i;
  bool has_normalize = false;
  for (std::size_t i = 0; i < dataset.transforms.size(); ++i) {
    const std::string path = config::join_path("dataset.transforms", i);
    if (const auto* normalize = dataset.transforms[i].get_if<dataset::NormalizeConfig>()) {
      if (has_normalize) c.report({path}, "images are normalised already, above");
      has_normalize = true;
      check_normalize(c, *normalize, path);
    }
    if (const auto* erasing = dataset.transforms[i].get_if<dataset::RandomErasingConfig>()) {
      check_pair(c, erasing->scale, path + ".scale");
      check_pair(c, erasing->ratio, path + ".ratio");
      if (last_normalize < dataset.transforms.size() && i < last_normalize)
        c.report({path}, "random_erasing must come after normalize, since it fills in normalised values");
    }
  }
}

/// A set of its own and a part of the training set can't both be meant.
void check_fractions(Checked& c) {
  for (const auto& [path, facts] : dataset::sources_of(c.experiment.dataset.source)) {
    if (facts.eval.value.has_own_set && facts.eval.value.kept_share > 0)
      c.report({path + ".eval_fraction", path + ".eval"},
               path + ".eval names the evaluation set; leave one of the two out");
    if (facts.test.has_own_set && facts.test.kept_share > 0)
      c.report({path + ".test_fraction", path + ".test"}, path + ".test names the test set; leave one of the two out");
    if (facts.eval.value.kept_share + facts.test.kept_share >= 1)
      c.report({path + ".test_fraction", path + ".eval_fraction"},
               "eval_fraction and test_fraction are together " +
                   core::format_number(facts.eval.value.kept_share + facts.test.kept_share) +
                   ", which leaves nothing to train on");
  }
}

template <class... Kinds>
std::vector<std::string> kinds_with_folds(const config::OneOf<Kinds...>&) {
  std::vector<std::string> kinds;
  const auto add = [&]<class Kind>(std::type_identity<Kind>) {
    if constexpr (!config::ForPlugIns<Kind>)
      if (Kind().facts().can_fold) kinds.emplace_back(Kind::kind);
  };
  (add(std::type_identity<Kinds>()), ...);
  return kinds;
}

void check_fold(Checked& c) {
  const std::optional<dataset::FoldConfig>& fold = c.experiment.dataset.fold;
  if (!fold) return;
  const dataset::DatasetFacts facts = config::facts_of(c.experiment.dataset.source);
  if (fold->index >= fold->count)
    c.report({"dataset.fold.index", "dataset.fold.count"}, "expected an integer below dataset.fold.count, " +
                                                               std::to_string(fold->count) + ", got " +
                                                               std::to_string(fold->index));
  if (!facts.can_fold)
    c.report({"dataset.fold", "dataset.kind"},
             std::string(c.experiment.dataset.source.kind()) + " has no folds; expected " +
                 core::list_words(kinds_with_folds(c.experiment.dataset.source), "or"));
  else if (facts.eval.value.kept_share > 0)
    c.report({"dataset.eval_fraction", "dataset.fold"},
             "the fold is the evaluation set; expected 0, got " + core::format_number(facts.eval.value.kept_share));
  else if (facts.eval.value.has_own_set && !facts.tests_on_eval_files)
    c.report({"dataset.eval", "dataset.fold"},
             "the fold is the evaluation set; leave dataset.eval out, or name this set dataset.test");
}

/// Drawing by class needs one class of each sample.
void check_balance(Checked& c) {
  const dataset::Targets targets = config::facts_of(c.experiment.dataset.source).targets;
  if (c.experiment.dataset.balanced_sampling &&
      (targets == dataset::Targets::label_sets || targets == dataset::Targets::class_masks))
    c.report({"dataset.balanced_sampling", "dataset.kind"},
             "draws each class equally often, and these samples have no single class; leave it out");
}

/// Rules that a dataset states itself, at the place of the dataset.
void check_dataset_rules(Checked& c) {
  for (const auto& [path, facts] : dataset::sources_of(c.experiment.dataset.source))
    for (config::BrokenRule rule : facts.broken_rules) {
      for (std::string& key : rule.paths) key = path + "." + key;
      c.report({rule});
    }
}

void check_task(Checked& c) {
  const dataset::SourceConfig& source = c.experiment.dataset.source;
  const task::Surroundings around{.dataset = source.kind(), .has_images = has_images(source)};
  c.report(c.experiment.task.visit([&](const auto& task) { return task.broken_rules(around); }));
}

}  // namespace

bool has_images(const dataset::SourceConfig& source) {
  return config::facts_of(source).images() != nullptr;
}

bool has_tokens(const dataset::SourceConfig& source) {
  return config::facts_of(source).tokens() != nullptr;
}

bool has_rows(const dataset::SourceConfig& source) {
  return !has_images(source) && !has_tokens(source);
}

std::int64_t known_classes(const dataset::SourceConfig& source) {
  return config::facts_of(source).num_classes;
}

void check_pair(Checked& checked, const std::vector<double>& pair, const std::string& path) {
  if (pair.size() != 2)
    return checked.report({path}, "expected [smallest, largest], got " + std::to_string(pair.size()) + " numbers");
  if (pair[0] > pair[1]) checked.report({path}, "expected [smallest, largest], but the first is larger");
}

void check_data(Checked& checked) {
  check_transforms(checked);
  check_task(checked);
  check_dataset_rules(checked);
  check_balance(checked);
  check_fractions(checked);
  check_fold(checked);
}

}  // namespace trainctl::experiment
