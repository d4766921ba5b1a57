#include <algorithm>
#include <concepts>
#include <cstdint>

#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

/// Whether a kind of source names, or keeps, samples to evaluate on.
struct KnowsEvaluation {
  template <class Kind>
  bool operator()(const Kind& kind) const {
    bool known = false;
    if constexpr (requires { kind.num_eval_samples; }) known = kind.num_eval_samples > 0;
    if constexpr (requires { kind.eval.has_value(); }) known = kind.eval.has_value();
    if constexpr (requires { kind.eval.empty(); }) known = !kind.eval.empty();
    if constexpr (requires { kind.eval_fraction; }) known = known || kind.eval_fraction > 0;
    return known || std::same_as<Kind, dataset::Cifar10Config> || std::same_as<Kind, dataset::Cifar100Config>;
  }
};

/// What `visitor` says of the source, or of a mixture's first: they are alike.
template <class Visitor>
auto of_first_source(const dataset::SourceConfig& source, Visitor visitor) {
  const auto* mixture = source.get_if<dataset::MixtureConfig>();
  if (mixture != nullptr && !mixture->sources.empty()) return mixture->sources.front().source.visit(visitor);
  return source.visit(visitor);
}

/// Channels of the source's images.
std::int64_t num_channels(const dataset::SourceConfig& source) {
  if (const auto* synthetic = source.get_if<dataset::SyntheticImagesConfig>()) return synthetic->channels;
  return source.get_if<dataset::IdxConfig>() != nullptr ? 1 : 3;
}

/// A list [smallest, largest].
void check_normalize(Checked& c, const dataset::NormalizeConfig& normalize, const std::string& path) {
  const std::size_t means = normalize.mean.size();
  const std::size_t stds = normalize.std.size();
  if (means != stds && means != 1 && stds != 1)
    return c.report({path + ".std", path + ".mean"},
                    "std has " + std::to_string(stds) + " numbers, mean has " + std::to_string(means));
  const std::int64_t channels = num_channels(c.experiment.dataset.source);
  for (const auto& [size, key] : {std::pair(means, ".mean"), std::pair(stds, ".std")})
    if (size != 1 && static_cast<std::int64_t>(size) != channels)
      c.report({path + key, "dataset.kind", "dataset.channels"},
               std::to_string(size) + " numbers, but the images have " + std::to_string(channels) +
                   (channels == 1 ? " channel" : " channels"));
}

void check_transforms(Checked& c) {
  const dataset::DatasetConfig& dataset = c.experiment.dataset;
  if (has_tokens(dataset.source) || has_rows(dataset.source)) {
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

/// Whether an evaluation set is named and a part of the training set is kept too.
struct EvaluatesTwice {
  template <class Kind>
  bool operator()(const Kind& kind) const {
    if constexpr (requires { kind.eval_fraction; }) {
      if constexpr (requires { kind.eval.empty(); })
        return !kind.eval.empty() && kind.eval_fraction > 0;
      else
        return kind.eval.has_value() && kind.eval_fraction > 0;
    }
    return false;
  }
};

/// An evaluation set of its own and a part of the training set can't both be meant.
void check_eval_fraction(Checked& c) {
  const auto report = [&](const std::string& path) {
    c.report({path + ".eval_fraction", path + ".eval"},
             path + ".eval names the evaluation set; leave one of the two out");
  };
  const dataset::SourceConfig& source = c.experiment.dataset.source;
  if (source.visit(EvaluatesTwice())) report("dataset");
  if (const auto* mixture = source.get_if<dataset::MixtureConfig>())
    for (std::size_t i = 0; i < mixture->sources.size(); ++i)
      if (mixture->sources[i].source.visit(EvaluatesTwice())) report(config::join_path("dataset.sources", i));
}

void check_task(Checked& c) {
  const auto* classification = c.experiment.task.get_if<task::ClassificationConfig>();
  const dataset::SourceConfig& source = c.experiment.dataset.source;
  if (classification == nullptr || (!has_tokens(source) && !has_rows(source))) return;
  if (classification->mixup > 0)
    c.report({"task.mixup", "dataset.kind"},
             "mixup blends images; " + std::string(c.experiment.dataset.source.kind()) + " has none");
  if (classification->cutmix > 0)
    c.report({"task.cutmix", "dataset.kind"},
             "cutmix pastes images; " + std::string(c.experiment.dataset.source.kind()) + " has none");
}

}  // namespace

bool has_tokens(const dataset::SourceConfig& source) {
  return of_first_source(source, [](const auto& kind) {
    return requires {
      kind.tokenizer;
    }
    || requires {
      kind.vocab_size;
    };
  });
}

bool has_rows(const dataset::SourceConfig& source) {
  return of_first_source(source, []<class Kind>(const Kind&) { return std::same_as<Kind, dataset::TableConfig>; });
}

std::int64_t known_classes(const dataset::SourceConfig& source) {
  if (const auto* idx = source.get_if<dataset::IdxConfig>())
    return idx->num_classes.value.value_or(static_cast<std::int64_t>(idx->class_names.size()));
  if (source.get_if<dataset::Cifar10Config>() != nullptr) return 10;
  if (const auto* cifar = source.get_if<dataset::Cifar100Config>()) return cifar->coarse_labels ? 20 : 100;
  if (const auto* synthetic = source.get_if<dataset::SyntheticImagesConfig>()) return synthetic->num_classes;
  if (const auto* texts = source.get_if<dataset::TextClassificationConfig>())
    return static_cast<std::int64_t>(texts->class_names.size());
  if (const auto* texts = source.get_if<dataset::TextTokenClassificationConfig>())
    return static_cast<std::int64_t>(texts->class_names.size());
  if (const auto* shards = source.get_if<dataset::WebDatasetConfig>())
    return shards->num_classes.value.value_or(static_cast<std::int64_t>(shards->class_names.size()));
  if (const auto* table = source.get_if<dataset::TableConfig>())
    return static_cast<std::int64_t>(table->class_names.size());
  return 0;
}

bool has_evaluation_set(const dataset::SourceConfig& source) {
  if (const auto* mixture = source.get_if<dataset::MixtureConfig>())
    return std::any_of(mixture->sources.begin(), mixture->sources.end(),
                       [](const dataset::MixturePart& part) { return part.source.visit(KnowsEvaluation()); });
  return source.visit(KnowsEvaluation());
}

void check_pair(Checked& checked, const std::vector<double>& pair, const std::string& path) {
  if (pair.size() != 2)
    return checked.report({path}, "expected [smallest, largest], got " + std::to_string(pair.size()) + " numbers");
  if (pair[0] > pair[1]) checked.report({path}, "expected [smallest, largest], but the first is larger");
}

void check_data(Checked& checked) {
  check_transforms(checked);
  check_task(checked);
  check_eval_fraction(checked);
}

}  // namespace trainctl::experiment
