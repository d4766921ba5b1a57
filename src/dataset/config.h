// `dataset:`: where samples come from, how they are changed, and how they reach the training loop as batches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"
#include "dataset/chat_config.h"
#include "dataset/container_config.h"
#include "dataset/fold_config.h"
#include "dataset/image_config.h"
#include "dataset/plugged_source.h"
#include "dataset/preference_config.h"
#include "dataset/segmentation_config.h"
#include "dataset/seq2seq_config.h"
#include "dataset/tagged_text_config.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

struct IdxFiles {
  std::string images;
  std::string labels;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&IdxFiles::images>("IDX file of unsigned bytes [N, rows, columns], raw or gzip.",
                                 config::non_empty & config::required),
        field<&IdxFiles::labels>("IDX file of unsigned bytes [N], raw or gzip.", config::non_empty & config::required),
    };
  }
};

/// MNIST, Fashion-MNIST and their relatives: http://yann.lecun.com/exdb/mnist (the format is described there).
struct IdxConfig {
  static constexpr std::string_view kind = "idx";
  IdxFiles train;
  std::optional<IdxFiles> eval;
  std::optional<IdxFiles> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  config::AutoOr<std::int64_t> num_classes;
  std::vector<std::string> class_names{};

  DatasetFacts facts() const {
    return {.samples = ImageFacts{.num_channels = 1, .are_files = false, .size = std::nullopt},
            .targets = Targets::labels,
            .num_classes = num_classes.value.value_or(static_cast<std::int64_t>(class_names.size())),
            .class_names = class_names,
            .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
            .test = {.has_own_set = test.has_value(), .kept_share = test_fraction},
            .can_fold = true};
  }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&IdxConfig::train>("Files to train on.", config::required),
        field<&IdxConfig::eval>("Files to evaluate on; without them, see `eval_fraction`."),
        field<&IdxConfig::test>(split_help::test),
        field<&IdxConfig::eval_fraction>(
            "Without `eval`: about this share of the training images is kept for evaluation, chosen by a hash of each "
            "one's pixels.",
            config::below_one),
        field<&IdxConfig::test_fraction>(split_help::test_fraction, config::below_one),
        field<&IdxConfig::split_seed>("Another seed keeps other images for evaluation and test.", config::any_seed),
        field<&IdxConfig::num_classes>(
            "Labels must be below this; `auto` takes the number of names, or the largest training label plus one.",
            config::at_least(1)),
        field<&IdxConfig::class_names>("The classes' names, in the order of their numbers; empty: they have none."),
    };
  }
};

namespace cifar_help {
inline constexpr std::string_view eval_fraction =
    "About this share of the training images is kept for evaluation, chosen by a hash of each one's pixels; the "
    "published test images are then the test set. 0 evaluates on these.";
}

/// The binary version of CIFAR: records of label byte(s) and 3×32×32 bytes
/// (https://www.cs.toronto.edu/~kriz/cifar.html).
struct Cifar10Config {
  static constexpr std::string_view kind = "cifar10";
  std::string path;
  double eval_fraction = 0;
  std::int64_t split_seed = 0;

  DatasetFacts facts() const {
    return {.samples = ImageFacts{.num_channels = 3, .are_files = false, .size = ImageSize{32, 32}},
            .targets = Targets::labels,
            .num_classes = 10,
            .class_names = std::vector<std::string>(),
            .eval = EvalFacts{.has_own_set = eval_fraction == 0, .kept_share = eval_fraction},
            .test = {.has_own_set = eval_fraction > 0},
            .can_fold = true,
            .tests_on_eval_files = true};
  }
  static constexpr auto fields() {
    using config::field;
    using C = Cifar10Config;
    return config::Fields{
        field<&C::path>("Directory with data_batch_1.bin … data_batch_5.bin and test_batch.bin.",
                        config::non_empty & config::required),
        field<&C::eval_fraction>(cifar_help::eval_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other images for evaluation.", config::any_seed),
    };
  }
};

struct Cifar100Config {
  static constexpr std::string_view kind = "cifar100";
  std::string path;
  double eval_fraction = 0;
  std::int64_t split_seed = 0;
  bool coarse_labels = false;

  DatasetFacts facts() const {
    return {.samples = ImageFacts{.num_channels = 3, .are_files = false, .size = ImageSize{32, 32}},
            .targets = Targets::labels,
            .num_classes = coarse_labels ? 20 : 100,
            .class_names = std::vector<std::string>(),
            .eval = EvalFacts{.has_own_set = eval_fraction == 0, .kept_share = eval_fraction},
            .test = {.has_own_set = eval_fraction > 0},
            .can_fold = true,
            .tests_on_eval_files = true};
  }
  static constexpr auto fields() {
    using config::field;
    using C = Cifar100Config;
    return config::Fields{
        field<&Cifar100Config::path>("Directory with train.bin and test.bin.", config::non_empty & config::required),
        field<&C::eval_fraction>(cifar_help::eval_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other images for evaluation.", config::any_seed),
        field<&Cifar100Config::coarse_labels>("Use the 20 superclasses instead of the 100 classes."),
    };
  }
};

struct SyntheticImagesConfig {
  static constexpr std::string_view kind = "synthetic_images";
  std::int64_t num_samples = 4096;
  std::int64_t num_eval_samples = 512;
  std::int64_t channels = 3;
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t num_classes = 1000;

  DatasetFacts facts() const {
    return {.samples = ImageFacts{.num_channels = channels, .are_files = false, .size = ImageSize{height, width}},
            .targets = Targets::labels,
            .num_classes = num_classes,
            .class_names = std::vector<std::string>(),
            .eval = EvalFacts{.has_own_set = num_eval_samples > 0}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = SyntheticImagesConfig;
    return config::Fields{
        field<&C::num_samples>("Training samples.", config::at_least(1)),
        field<&C::num_eval_samples>("Evaluation samples; 0 means no evaluation.", config::at_least(0)),
        field<&C::channels>("Channels.", config::between(1, 16)),
        field<&C::height>("Rows.", config::between(1, 8192)),
        field<&C::width>("Columns.", config::between(1, 8192)),
        field<&C::num_classes>("Classes; each has a pattern of its own, so that a model can learn them.",
                               config::at_least(2)),
    };
  }
};

struct SyntheticTokensConfig {
  static constexpr std::string_view kind = "synthetic_tokens";
  std::int64_t num_samples = 4096;
  std::int64_t num_eval_samples = 512;
  std::int64_t seq_len = 128;
  std::int64_t vocab_size = 32000;
  double mask_probability = 0;

  DatasetFacts facts() const {
    return {
        .samples =
            TokenFacts{.max_length = seq_len, .tokenizer = std::nullopt, .length_group_batches = 0, .is_stream = false},
        .targets = mask_probability > 0 ? Targets::masked_tokens : Targets::next_tokens,
        .num_classes = 0,
        .class_names = std::vector<std::string>(),
        .eval = EvalFacts{.has_own_set = num_eval_samples > 0}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = SyntheticTokensConfig;
    return config::Fields{
        field<&C::num_samples>("Training sequences.", config::at_least(1)),
        field<&C::num_eval_samples>("Evaluation sequences; 0 means no evaluation.", config::at_least(0)),
        field<&C::seq_len>("Tokens in a sequence.", config::at_least(1)),
        field<&C::vocab_size>("Token ids are below this.", config::at_least(2)),
        field<&C::mask_probability>(
            "Above 0: masked language modelling, where this share of the tokens is asked for; else each token's "
            "successor is.",
            config::below_one),
    };
  }
};

using OwnSourceConfig =
    config::OneOf<IdxConfig, Cifar10Config, Cifar100Config, SyntheticImagesConfig, SyntheticTokensConfig, TextLmConfig,
                  TextMlmConfig, TextClassificationConfig, TextTokenClassificationConfig, TextSeq2SeqConfig,
                  WebDatasetConfig, TokenizedConfig, TableConfig, ImageFolderConfig, ChatConfig,
                  SegmentationFolderConfig, PreferenceConfig>;
using PlainSourceConfig = config::WithKind<OwnSourceConfig, PluggedSourceConfig>::type;

struct MixturePart {
  double weight = 1;
  PlainSourceConfig source;

  static constexpr auto fields() {
    return config::Fields{
        config::field<&MixturePart::weight>("How often this source's samples come, compared with the others'.",
                                            config::positive),
        config::choice<&MixturePart::source>("Where samples come from.", config::required),
    };
  }
};

/// Several sources of one kind of samples, in fixed proportions.
struct MixtureConfig {
  static constexpr std::string_view kind = "mixture";
  std::vector<MixturePart> sources;
  config::AutoOr<std::int64_t> samples_per_epoch;

  /// Returns those of the first source, which the others are like, without what may differ between them.
  DatasetFacts facts() const;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&MixtureConfig::sources>(
            "Sources and their weights. Of any run of N samples, N × weight / all weights come from a source, to "
            "within "
            "one. Each source is gone through as a whole before any of its samples comes again.",
            config::required & config::non_empty),
        field<&MixtureConfig::samples_per_epoch>(
            "Samples that count as an epoch; `auto` is as many as all sources have together.", config::at_least(1)),
    };
  }
};

using SourceConfig =
    config::WithKind<config::WithKind<OwnSourceConfig, MixtureConfig>::type, PluggedSourceConfig>::type;
static_assert(config::kHaveFacts<SourceConfig, DatasetFacts>);

/// Returns the sources of a mixture, or the one of any other kind, with the path of its keys.
struct NamedSource {
  std::string path;  // "dataset", "dataset.sources[0]"
  DatasetFacts facts;
};
inline std::vector<NamedSource> sources_of(const SourceConfig& source) {
  std::vector<NamedSource> sources;
  if (const auto* mixture = source.get_if<MixtureConfig>())
    for (const MixturePart& part : mixture->sources)
      sources.push_back({"dataset.sources[" + std::to_string(sources.size()) + "]", config::facts_of(part.source)});
  else
    sources.push_back({"dataset", config::facts_of(source)});
  return sources;
}

inline DatasetFacts MixtureConfig::facts() const {
  const PlainSourceConfig first = sources.empty() ? PlainSourceConfig() : sources.front().source;
  DatasetFacts facts = config::facts_of(first);
  facts.num_classes = 0;
  facts.class_names = std::vector<std::string>();
  facts.unused_keys.clear();
  facts.indexed_files.clear();
  facts.eval = EvalFacts();
  facts.test = {};
  facts.can_fold = false;
  if (facts.tokens() != nullptr)
    facts.samples =
        TokenFacts{.max_length = 0, .tokenizer = std::nullopt, .length_group_batches = 0, .is_stream = false};
  for (const MixturePart& part : sources) {
    const DatasetFacts own = config::facts_of(part.source);
    facts.eval.value.has_own_set = facts.eval.value.has_own_set || own.has_evaluation_set();
    if (const ImageFacts* all = facts.images(), *one = own.images(); all != nullptr && one != nullptr && one->are_files)
      facts.samples = ImageFacts{.num_channels = all->num_channels, .are_files = true, .size = std::nullopt};
  }
  return facts;
}

/// Where bytes become normalised floats. device: batches leave the loader as bytes, a quarter of the size.
enum class NormalizeOn { auto_, host, device };

struct ImageCacheConfig {
  std::int64_t size_mib = 0;
  bool shared = false;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&ImageCacheConfig::size_mib>(
            "Memory for decoded images; the loader adds images until it is full. 0 keeps none. A cache pays if "
            "decoding costs more than resizing and much of the set fits: an image takes height × width × 3 bytes.",
            config::between(0, 1 << 24)),
        field<&ImageCacheConfig::shared>("The ranks of a node share one cache of this size, in /dev/shm."),
    };
  }
};

struct DatasetConfig {
  SourceConfig source;
  std::optional<FoldConfig> fold{};
  config::AutoOr<std::int64_t> batch_size = 128;
  std::optional<std::int64_t> eval_batch_size;
  config::AutoOr<std::int64_t> num_workers;
  std::int64_t prefetch_factor = 2;
  bool persistent_workers = true;
  config::AutoOr<bool> pin_memory;
  NormalizeOn normalize_on = NormalizeOn::auto_;
  ImageCacheConfig image_cache{};
  bool shuffle = true;
  bool balanced_sampling = false;
  bool drop_last = false;
  std::vector<TransformConfig> transforms;
  std::optional<std::vector<TransformConfig>> eval_transforms;
  OnBadSample on_bad_sample = OnBadSample::fail;
  std::int64_t max_bad_samples = 100;

  /// Returns the number of samples of a micro-batch. `auto` is replaced by a number before anything is built.
  std::int64_t samples_per_batch() const { return batch_size.value.value(); }
  bool has_evaluation_set() const { return fold || config::facts_of(source).has_evaluation_set(); }
  bool has_test_set() const {
    const DatasetFacts facts = config::facts_of(source);
    return facts.has_test_set() || (fold && facts.tests_on_eval_files);
  }

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = DatasetConfig;
    return config::Fields{
        choice<&C::source>("Where samples come from.", config::required),
        field<&C::fold>(
            "Evaluates on one of k parts of the training samples, and trains on the others; `trainctl train "
            "--folds K` trains a run for each. Null: no folds."),
        field<&C::batch_size>("Samples in a micro-batch on each rank. `auto` takes the largest power of two whose step "
                              "fits into the device's memory, as `trainctl plan` predicts it; a resumed run keeps "
                              "what was chosen at first.",
                              config::between(1, 1'073'741'824)),
        field<&C::eval_batch_size>("Samples in an evaluation batch; null takes batch_size.",
                                   config::between(1, 1'073'741'824)),
        field<&C::num_workers>(
            "Threads that prepare batches; 0 prepares them in the training thread. Any number gives the same batches. "
            "`auto` begins with one and takes more while training waits for decoding or transforms: on a GPU up to "
            "this rank's cores but one, on a CPU up to half of them.",
            config::between(0, 1024)),
        field<&C::prefetch_factor>("Batches that each worker may have ready ahead of the training loop.",
                                   config::between(1, 64)),
        field<&C::persistent_workers>("Keep the workers from epoch to epoch, so that they prepare the next one's first "
                                      "batches while the last of this one are used; false ends them, and frees their "
                                      "memory, at each epoch's end."),
        field<&C::pin_memory>("Prepare batches in page-locked memory, from which copies to a GPU overlap with work; "
                              "`auto` does so when there is a GPU."),
        field<&C::normalize_on>(
            "Where pixels become normalised floats: `host` in the workers; `device` after the copy, which then moves a "
            "quarter of the bytes; `auto` is device where there is a GPU and nothing works on the floats before."),
        field<&C::image_cache>("Decoded images that are kept from epoch to epoch."),
        field<&C::shuffle>("A new order each epoch, the same for the same seed. Evaluation is never shuffled."),
        field<&C::balanced_sampling>(
            "Draw the samples of an epoch with replacement, each class equally often; for classes of unequal size."),
        field<&C::drop_last>("Leave out an epoch's last batch when it isn't full."),
        field<&C::transforms>("Applied to each image in this order, in the workers."),
        field<&C::eval_transforms>("Applied in evaluation instead; null: `transforms` without the random ones, where "
                                   "random_resized_crop becomes "
                                   "resize to 8/7 of its size, in proportion if that is a square, and center_crop."),
        field<&C::on_bad_sample>("When a sample can't be read or decoded: `fail` stops the run; `skip` makes its batch "
                                 "smaller; `replace` takes another sample. Each is listed in the run's "
                                 "bad_samples.jsonl."),
        field<&C::max_bad_samples>("More different bad samples than this stop the run.", config::at_least(0)),
    };
  }
};

}  // namespace trainctl::dataset
