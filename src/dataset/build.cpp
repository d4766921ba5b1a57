#include <ATen/Context.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "core/utf8.h"
#include "dataset/calibration.h"
#include "dataset/collate/sample_writer.h"
#include "dataset/dataset.h"
#include "dataset/description.h"
#include "dataset/files/named_files.h"
#include "dataset/image/cache/decoded_cache.h"
#include "dataset/image/cache/shared_memory.h"
#include "dataset/image/in_memory.h"
#include "dataset/loader/bad_samples.h"
#include "dataset/loader/loader.h"
#include "dataset/sources.h"
#include "dataset/table/table_encoding.h"
#include "machine/limits.h"

namespace trainctl::dataset {
namespace {

HostMemoryKind memory_kind(const DatasetConfig& config, const LoaderOptions& options) {
  if (!config.pin_memory.value.value_or(options.pin_memory)) return HostMemoryKind::pageable;
  if (at::globalContext().hasCUDA()) return HostMemoryKind::page_locked;
  if (config.pin_memory.is_auto()) return HostMemoryKind::pageable;
  throw core::Error("dataset.pin_memory needs a GPU, and none can be used here").hint("leave it at auto");
}

/// The options of one loader, except its source.
struct Making {
  const DatasetConfig& config;
  const LoaderOptions& options;
  Phase phase;
  std::shared_ptr<DecodedCache> cache;
};

Transforms make_transforms(const Making& making, const SampleSpec& spec) {
  const DatasetConfig& config = making.config;
  const bool has_own = making.phase == Phase::evaluation && config.eval_transforms;
  const std::vector<TransformConfig>& transforms = has_own ? *config.eval_transforms : config.transforms;
  return {transforms, image_shape(spec), making.phase, pixel_output(config, making.options, transforms)};
}

std::unique_ptr<SampleWriter> make_writer(const Making& making, const Source& source,
                                          std::shared_ptr<CachedSamples> cache) {
  const DatasetConfig& config = making.config;
  const std::uint64_t seed = making.options.seed;
  if (std::unique_ptr<SampleWriter> own = source.make_writer(making.phase, seed)) {
    if (!config.transforms.empty())
      throw core::Error("dataset.transforms are for images, but " + std::string(config.source.kind()) + " has text")
          .hint("remove them");
    return own;
  }
  const SampleReading reading = source.reading();
  const auto* const* const encoded = std::get_if<const EncodedImageSource*>(&reading);
  if (encoded != nullptr && source.spec().targets == Targets::class_masks)
    return make_mask_writer(**encoded, make_transforms(making, source.spec()), seed, std::move(cache));
  if (encoded != nullptr)
    return make_image_writer(**encoded, make_transforms(making, source.spec()), seed, std::move(cache));
  const RawSource& raw = *std::get<const RawSource*>(reading);
  if (source.spec().is_image()) return make_image_writer(raw, make_transforms(making, source.spec()), seed);
  if (!config.transforms.empty())
    throw core::Error("dataset.transforms are for images, but " + std::string(config.source.kind()) + " has tokens")
        .hint("remove them");
  return make_token_writer(raw);
}

LoaderParts common_parts(const Making& making, std::unique_ptr<Source> source) {
  const auto& [config, options, phase, cache] = making;
  LoaderParts parts;
  parts.source = std::move(source);
  if (cache) parts.cache = std::make_shared<CachedSamples>(cache, phase == Phase::training ? 0 : 1);
  parts.writer = make_writer(making, *parts.source, parts.cache);
  parts.bad_samples = options.bad_samples;
  parts.seed = options.seed;
  parts.share = options.share;
  parts.global_batch = phase == Phase::training ? options.global_batch : 0;
  parts.batch_size = config.samples_per_batch();
  parts.workers = config.num_workers.value.value_or(options.workers);
  parts.most_workers = config.num_workers.is_auto() ? options.most_workers : 0;
  parts.prefetch_factor = config.prefetch_factor;
  const DatasetFacts facts = config::facts_of(config.source);
  parts.length_group_batches = facts.tokens() == nullptr ? 0 : *facts.tokens()->length_group_batches;
  parts.memory = memory_kind(config, options);
  return parts;
}

/// Returns the number of samples of each class; empty if the labels are not known.
std::vector<std::int64_t> class_counts(const std::vector<std::int64_t>& labels, const SampleSpec& spec) {
  if (labels.empty()) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(spec.num_classes));
  for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

void refuse_unknown_labels(const std::vector<std::int64_t>& labels, const DatasetConfig& config) {
  if (!labels.empty()) return;
  throw core::Error("dataset.balanced_sampling: " + std::string(config.source.kind()) +
                    " doesn't tell the class of a sample before it reads the sample")
      .hint("set task.class_weights in place of it");
}

std::unique_ptr<Loader> build_train(const Making& making, std::unique_ptr<Source> source) {
  const DatasetConfig& config = making.config;
  LoaderParts parts = common_parts(making, std::move(source));
  if (config.drop_last && parts.source->size() < parts.batch_size * parts.share.world)
    throw core::Error("dataset.drop_last leaves no batch: " + std::to_string(parts.source->size()) +
                      " samples are fewer than dataset.batch_size, " + std::to_string(parts.batch_size) +
                      (parts.share.world > 1 ? ", on " + std::to_string(parts.share.world) + " ranks" : ""))
        .hint("set dataset.drop_last to false or dataset.batch_size lower");
  parts.shuffling = config.shuffle ? Shuffling::each_epoch : Shuffling::none;
  std::vector<std::int64_t> labels = parts.source->labels();
  parts.class_counts = class_counts(labels, parts.source->spec());
  if (config.balanced_sampling) {
    refuse_unknown_labels(labels, config);
    parts.balanced_labels = std::move(labels);
  }
  parts.last_batch = config.drop_last ? LastBatch::drop : LastBatch::keep;
  parts.after_epoch = config.persistent_workers ? AfterEpoch::go_on : AfterEpoch::end;
  std::unique_ptr<Loader> loader = make_loader(std::move(parts));
  loader->seek({});  // the first batches are prepared while the model is built
  return loader;
}

std::unique_ptr<Loader> build_eval(const Making& making, std::unique_ptr<Source> source) {
  if (!source) return nullptr;
  const DatasetConfig& config = making.config;
  LoaderParts parts = common_parts(making, std::move(source));
  parts.batch_size = config.eval_batch_size.value_or(config.samples_per_batch());
  if (making.options.samples_evaluation) {
    parts.shuffling = Shuffling::each_epoch;  // each evaluation reads epoch 0
    parts.seed = 0;                           // the same samples in every run
    parts.length_group_batches = 0;           // which begin with texts of one length
  }
  parts.after_epoch = config.persistent_workers ? AfterEpoch::rest : AfterEpoch::end;
  return make_loader(std::move(parts));
}

/// Opens the memory for decoded images, of this process or of the node; null if the config wants none.
std::shared_ptr<DecodedCache> open_cache(const DatasetConfig& config, const LoaderOptions& options,
                                         const Sources& sources) {
  if (config.image_cache.size_mib == 0) return nullptr;
  if (!std::holds_alternative<const EncodedImageSource*>(sources.train->reading()))
    throw core::Error("dataset.image_cache.size_mib keeps decoded images, but " + std::string(config.source.kind()) +
                      " has nothing to decode")
        .hint("remove it");
  const auto budget = static_cast<std::size_t>(config.image_cache.size_mib) << 20;
  const std::size_t all = config.image_cache.shared ? budget : budget * static_cast<std::size_t>(options.local_ranks);
  if (all > machine::usable_memory())
    throw core::Error("dataset.image_cache.size_mib asks for " + core::format_bytes(static_cast<double>(all)) +
                      ", more than this machine's memory, " +
                      core::format_bytes(static_cast<double>(machine::usable_memory())))
        .hint("set it lower" +
              std::string(options.local_ranks > 1 && !config.image_cache.shared
                              ? ", or dataset.image_cache.shared: true, since each rank has a cache of its own"
                              : ""));
  if (!config.image_cache.shared) return make_decoded_cache(budget);
  SharedCacheOptions shared;
  const std::string eval = sources.eval ? sources.eval->fingerprint() : "";
  shared.key =
      "cache-" + core::checksum("1 " + sources.train->fingerprint() + " " + eval + " " + std::to_string(budget));
  shared.budget_bytes = budget;
  shared.participants = static_cast<std::size_t>(options.local_ranks);
  if (const std::size_t left = free_bytes(shared.directory); left < budget && options.tell)
    options.tell("dataset.image_cache.size_mib: " + shared.directory + " has room for " +
                 core::format_bytes(static_cast<double>(left)) + " only; the cache ends there (docker run --shm-size)");
  return make_shared_cache(shared);
}

template <class Kinds>
Sources open_kind(const Kinds& config, const LoaderOptions& options) {
  return config.visit([&](const auto& source) {
    if constexpr (requires { build(source, options); })
      return build(with_files_named(source), options);
    else
      return build(source);
  });
}

/// Moves files into the training set's place; false if there are none.
template <class Files>
bool take_files(Files& train, std::optional<Files>& own) {
  if (!own) return false;
  train = *std::exchange(own, std::nullopt);
  return true;
}
bool take_files(std::vector<std::string>& train, std::vector<std::string>& own) {
  if (own.empty()) return false;
  train = std::exchange(own, {});
  return true;
}

/// Puts an evaluation or test set with files of its own into the training set's place. False if there is none, or if
/// the samples of such a dataset don't decide on its classes.
template <class Kind>
bool take_set(Kind&, EvaluatedSet) {
  return false;
}
bool take_set(ImageFolderConfig& config, EvaluatedSet set) {
  const bool tests = set == EvaluatedSet::test;
  if (config.labels && !take_files(config.labels->train, tests ? config.labels->test : config.labels->eval))
    return false;
  if (!take_files(config.train, tests ? config.test : config.eval)) return false;
  config.eval = config.test = std::nullopt;
  config.eval_fraction = config.test_fraction = 0;
  return true;
}
bool take_set(TableConfig& config, EvaluatedSet set) {
  if (!take_files(config.train, set == EvaluatedSet::test ? config.test : config.eval)) return false;
  config.eval = config.test = {};
  config.eval_fraction = config.test_fraction = 0;
  return true;
}
bool take_set(TextClassificationConfig& config, EvaluatedSet set) {
  if (!take_files(config.train, set == EvaluatedSet::test ? config.test : config.eval)) return false;
  config.eval = config.test = std::nullopt;
  config.eval_fraction = config.test_fraction = 0;
  return true;
}
bool take_set(TextTokenClassificationConfig& config, EvaluatedSet set) {
  if (!take_files(config.train, set == EvaluatedSet::test ? config.test : config.eval)) return false;
  config.eval = config.test = std::nullopt;
  return true;
}
bool take_set(WebDatasetConfig& config, EvaluatedSet set) {
  if (set == EvaluatedSet::test || !take_files(config.train, config.eval)) return false;
  config.eval_fraction = 0;
  return true;
}

/// Returns the config of the evaluated set alone, as a training set; none if the training samples are needed.
std::optional<DatasetConfig> evaluated_alone(const DatasetConfig& config, const LoaderOptions& options) {
  if (options.trained == nullptr || options.evaluated == EvaluatedSet::train || config.fold) return std::nullopt;
  DatasetConfig alone = config;
  const bool is_alone = config.source.visit([&](auto source) {
    if (!take_set(source, options.evaluated)) return false;
    alone.source = std::move(source);
    return true;
  });
  return is_alone ? std::optional(std::move(alone)) : std::nullopt;
}

/// Names of classes go into checkpoints, reports and exports, all of which are UTF-8.
void refuse_unwritable_names(const SampleSpec& spec) {
  for (const std::string& name : spec.class_names)
    if (core::valid_prefix(name) != name.size())
      throw core::Error("the class `" + core::replace_invalid(name) + "` has a name that is not UTF-8")
          .hint("rename its folder, or write the labels in UTF-8");
}

/// Returns the fingerprint of the samples that are dealt to folds, the same for each fold.
std::string undivided_fingerprint(const DatasetConfig& config, LoaderOptions options) {
  options.fold.reset();
  options.tell = nullptr;  // the same of the same files
  return open_sources(config.source, options).train->fingerprint();
}

/// Opens the training and the evaluation samples, or the samples of `alone` as those of evaluation.
Datasets open_data(const DatasetConfig& config, const LoaderOptions& options,
                   const std::optional<DatasetConfig>& alone) {
  Datasets datasets;
  datasets.bad_samples = std::make_shared<BadSampleLog>(config.max_bad_samples, config.on_bad_sample);
  LoaderOptions noting = options;
  noting.fold = config.fold;
  noting.bad_samples = datasets.bad_samples;
  if (alone) {
    datasets.eval = build_eval({config, noting, Phase::evaluation, nullptr}, open_sources(alone->source, noting).train);
    core::check_mapped_files();
    return datasets;
  }
  if (config.fold && options.trained == nullptr) datasets.undivided_fingerprint = undivided_fingerprint(config, noting);
  Sources sources = open_sources(config.source, noting);
  refuse_unwritable_names(sources.train->spec());
  if (options.evaluated == EvaluatedSet::test) sources.eval = std::move(sources.test);
  if (options.evaluated == EvaluatedSet::train) sources.eval = open_sources(config.source, noting).train;
  datasets.fingerprint = sources.train->fingerprint();
  if (sources.eval) datasets.eval_fingerprint = sources.eval->fingerprint();
  const std::shared_ptr<DecodedCache> cache = open_cache(config, noting, sources);
  datasets.eval = build_eval({config, noting, Phase::evaluation, cache}, std::move(sources.eval));
  datasets.train = build_train({config, noting, Phase::training, cache}, std::move(sources.train));
  if (datasets.eval && datasets.eval->spec().input_shape != datasets.train->spec().input_shape)
    throw core::Error("images are " + describe(image_shape(datasets.train->spec())) + " in training, but " +
                      describe(image_shape(datasets.eval->spec())) + " in evaluation")
        .hint("let dataset.transforms and dataset.eval_transforms give one size");
  core::check_mapped_files();
  return datasets;
}

}  // namespace

PixelOutput pixel_output(const DatasetConfig& config, const LoaderOptions& options,
                         const std::vector<TransformConfig>& transforms) {
  switch (config.normalize_on) {
    case NormalizeOn::host:
      return PixelOutput::floats;
    case NormalizeOn::device:
      return PixelOutput::bytes;
    case NormalizeOn::auto_:
      break;
  }
  const bool works_on_floats = std::any_of(transforms.begin(), transforms.end(), [](const TransformConfig& transform) {
    return config::traits_of(transform).needs_floats;
  });
  return options.normalize_on_device && !works_on_floats ? PixelOutput::bytes : PixelOutput::floats;
}

Sources build(const PluggedSourceConfig& config, const LoaderOptions& options) {
  return config.interface().build(config.config(), options);
}

Sources open_sources(const SourceConfig& config, const LoaderOptions& options) {
  return open_kind(config, options);
}

Sources open_sources(const PlainSourceConfig& config, const LoaderOptions& options) {
  return open_kind(config, options);
}

std::unique_ptr<Loader> build_calibration(const DatasetConfig& config, const LoaderOptions& options) {
  LoaderOptions noting = options;
  noting.fold = config.fold;
  noting.bad_samples = std::make_shared<BadSampleLog>(config.max_bad_samples, config.on_bad_sample);
  LoaderParts parts =
      common_parts({config, noting, Phase::evaluation, nullptr}, open_sources(config.source, noting).train);
  parts.shuffling = Shuffling::each_epoch;
  parts.last_batch = LastBatch::keep;
  parts.after_epoch = AfterEpoch::end;
  return make_loader(std::move(parts));
}

Datasets build(const DatasetConfig& config, const LoaderOptions& options) {
  return open_data(config, options, evaluated_alone(config, options));
}

Datasets build_as_trained(const DatasetConfig& config, const LoaderOptions& options, const SampleSpec& trained) {
  Datasets data = open_data(config, options, std::nullopt);
  const SampleSpec& now = data.train->spec();
  const auto scaling = [](const SampleSpec& spec) {
    return spec.table == nullptr ? std::string() : text_of_encoding(*spec.table);
  };
  const bool is_same = trained.labels == now.labels && scaling(trained) == scaling(now);
  if (is_same || !changed_meaning(trained, now).empty()) return data;  // a changed meaning is refused later
  LoaderOptions as_trained = options;
  as_trained.trained = std::make_shared<const SampleSpec>(trained);
  as_trained.tell = nullptr;  // the same of the same files
  std::string fingerprint = std::move(data.fingerprint);
  std::string undivided = std::move(data.undivided_fingerprint);
  data = {};  // rows in memory are there once
  data = open_data(config, as_trained, std::nullopt);
  data.fingerprint = std::move(fingerprint);
  data.undivided_fingerprint = std::move(undivided);
  if (options.tell) options.tell("numbers are scaled as in the training so far; the data's own scale has changed");
  return data;
}

}  // namespace trainctl::dataset
