#include <ATen/Context.h>

#include <algorithm>

#include "core/error.h"
#include "dataset/bad_samples.h"
#include "dataset/container/named_files.h"
#include "dataset/dataset.h"
#include "dataset/image_set.h"
#include "dataset/loader.h"
#include "dataset/sample_writer.h"

namespace trainctl {
namespace {

constexpr std::int64_t kMostBytesAhead = std::int64_t{1} << 30;

HostMemoryKind memory_kind(const DatasetConfig& config, const LoaderOptions& options) {
  if (!config.pin_memory.value.value_or(options.pin_memory)) return HostMemoryKind::pageable;
  if (at::globalContext().hasCUDA()) return HostMemoryKind::page_locked;
  if (config.pin_memory.is_auto()) return HostMemoryKind::pageable;
  throw Error("dataset.pin_memory needs a GPU, and none can be used here").hint("leave it at auto");
}

/// As many as the workers may have ready, but no more than fit into kMostBytesAhead; two at least.
std::int64_t batches_ahead(const LoaderParts& parts, std::int64_t prefetch_factor) {
  const std::int64_t batch_bytes = std::min(parts.batch_size, parts.source->size()) * parts.writer->input_bytes();
  return std::max<std::int64_t>(2, std::min(parts.workers * prefetch_factor, kMostBytesAhead / batch_bytes));
}

Transforms make_transforms(const DatasetConfig& config, const SampleSpec& spec, Phase phase) {
  const bool has_own = phase == Phase::evaluation && config.eval_transforms;
  return {has_own ? *config.eval_transforms : config.transforms, image_shape(spec), phase};
}

std::unique_ptr<SampleWriter> make_writer(const DatasetConfig& config, const Source& source, Phase phase,
                                          std::uint64_t seed) {
  if (std::unique_ptr<SampleWriter> own = source.make_writer(phase, seed)) {
    if (!config.transforms.empty())
      throw Error("dataset.transforms are for images, but " + std::string(config.source.kind()) + " has text")
          .hint("remove them");
    return own;
  }
  if (const auto* encoded = dynamic_cast<const EncodedImageSource*>(&source))
    return make_image_writer(*encoded, make_transforms(config, source.spec(), phase), seed);
  if (source.spec().is_image()) return make_image_writer(source, make_transforms(config, source.spec(), phase), seed);
  if (!config.transforms.empty())
    throw Error("dataset.transforms are for images, but " + std::string(config.source.kind()) + " has tokens")
        .hint("remove them");
  return make_token_writer(source);
}

LoaderParts common_parts(const DatasetConfig& config, const LoaderOptions& options, std::unique_ptr<Source> source,
                         Phase phase) {
  LoaderParts parts;
  parts.source = std::move(source);
  parts.writer = tolerate_bad_samples(make_writer(config, *parts.source, phase, options.seed), *parts.source,
                                      config.on_bad_sample, options.bad_samples);
  parts.seed = options.seed;
  parts.share = options.share;
  parts.batch_size = config.batch_size;
  parts.workers = config.workers.value.value_or(options.workers);
  parts.memory = memory_kind(config, options);
  return parts;
}

std::unique_ptr<Loader> build_train(const DatasetConfig& config, const LoaderOptions& options,
                                    std::unique_ptr<Source> source) {
  LoaderParts parts = common_parts(config, options, std::move(source), Phase::training);
  if (config.drop_last && parts.source->size() < parts.batch_size * parts.share.world)
    throw Error("dataset.drop_last leaves no batch: " + std::to_string(parts.source->size()) +
                " samples are fewer than dataset.batch_size, " + std::to_string(parts.batch_size) +
                (parts.share.world > 1 ? ", on " + std::to_string(parts.share.world) + " ranks" : ""))
        .hint("set dataset.drop_last to false or dataset.batch_size lower");
  parts.bucket_batches = config.source.visit([](const auto& kind) -> std::int64_t {
    if constexpr (requires { kind.bucket_batches; }) return kind.bucket_batches;
    return 0;
  });
  parts.shuffling = config.shuffle ? Shuffling::each_epoch : Shuffling::none;
  parts.last_batch = config.drop_last ? LastBatch::drop : LastBatch::keep;
  parts.batches_ahead = batches_ahead(parts, config.prefetch_factor);
  std::unique_ptr<Loader> loader = make_loader(std::move(parts));
  loader->seek({});  // the first batches are prepared while the model is built
  return loader;
}

std::unique_ptr<Loader> build_eval(const DatasetConfig& config, const LoaderOptions& options,
                                   std::unique_ptr<Source> source) {
  if (!source) return nullptr;
  LoaderParts parts = common_parts(config, options, std::move(source), Phase::evaluation);
  parts.batch_size = config.eval_batch_size.value_or(config.batch_size);
  parts.after_epoch = AfterEpoch::rest;
  parts.batches_ahead = batches_ahead(parts, config.prefetch_factor);
  return make_loader(std::move(parts));
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

}  // namespace

Sources open_sources(const SourceConfig& config, const LoaderOptions& options) {
  return open_kind(config, options);
}

Sources open_sources(const PlainSourceConfig& config, const LoaderOptions& options) {
  return open_kind(config, options);
}

Datasets build(const DatasetConfig& config, const LoaderOptions& options) {
  Datasets datasets;
  datasets.bad_samples = std::make_shared<BadSampleLog>(config.max_bad_samples, config.on_bad_sample);
  LoaderOptions noting = options;
  noting.bad_samples = datasets.bad_samples;
  Sources sources = open_sources(config.source, noting);
  datasets.fingerprint = sources.train->fingerprint();
  datasets.eval = build_eval(config, noting, std::move(sources.eval));
  datasets.train = build_train(config, noting, std::move(sources.train));
  if (datasets.eval && datasets.eval->spec().input_shape != datasets.train->spec().input_shape)
    throw Error("images are " + describe(image_shape(datasets.train->spec())) + " in training, but " +
                describe(image_shape(datasets.eval->spec())) + " in evaluation")
        .hint("let dataset.transforms and dataset.eval_transforms give one size");
  return datasets;
}

}  // namespace trainctl
