#include "train/loop/device_feed.h"

#include <ATen/ops/allclose.h>

#include <catch2/catch.hpp>

#include "dataset/dataset.h"

namespace trainctl::train {

namespace {

dataset::DatasetConfig images(std::int64_t channels) {
  dataset::DatasetConfig config;
  config.source = dataset::SyntheticImagesConfig{
      .num_samples = 60, .num_eval_samples = 20, .channels = channels, .height = 17, .width = 13, .num_classes = 5};
  config.batch_size = 9;
  dataset::NormalizeConfig normalize{.mean = {}, .std = {}};
  for (std::int64_t c = 0; c < channels; ++c) {
    normalize.mean.push_back(0.4 + 0.03 * static_cast<double>(c));
    normalize.std.push_back(0.2 + 0.01 * static_cast<double>(c));
  }
  config.transforms = {dataset::RandomCropConfig{.padding = 2}, dataset::RandomHorizontalFlipConfig{},
                       dataset::RandomVerticalFlipConfig{}, normalize};
  return config;
}

}  // namespace

TEST_CASE("images normalised on the device are those normalised on the host", "[train]") {
  for (const std::int64_t channels : {1, 3, 4})
    for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      dataset::DatasetConfig config = images(channels);
      config.normalize_on = dataset::NormalizeOn::host;
      const dataset::Datasets host = dataset::build(config, {.seed = 4});
      config.normalize_on = dataset::NormalizeOn::device;
      const dataset::Datasets device = dataset::build(config, {.seed = 4});
      REQUIRE_FALSE(host.train->spec().to_normalize);
      for (dataset::Loader* const loader : {device.train.get(), device.eval.get()}) {
        dataset::Loader& reference = loader == device.train.get() ? *host.train : *host.eval;
        REQUIRE(loader->spec().to_normalize);
        DeviceFeed feed(c10::kCPU, format, loader->spec().to_normalize);
        while (std::optional<dataset::Batch> given = loader->next()) {
          CHECK(given->inputs.scalar_type() == at::kByte);
          const at::Tensor finished = feed(std::move(*given)).inputs;
          const at::Tensor expected = reference.next()->inputs;
          CHECK(finished.scalar_type() == at::kFloat);
          CHECK(finished.is_contiguous(format));
          CHECK(at::allclose(finished, expected, 0, 1e-6));
        }
        reference.next();
      }
    }
}

TEST_CASE("auto leaves normalising to a device that is there, unless something works on the floats", "[train]") {
  dataset::DatasetConfig config = images(3);
  CHECK_FALSE(dataset::build(config, {}).train->spec().to_normalize);
  CHECK(dataset::build(config, {.normalize_on_device = true}).train->spec().to_normalize);
  config.transforms.push_back(dataset::RandomErasingConfig{});
  CHECK_FALSE(dataset::build(config, {.normalize_on_device = true}).train->spec().to_normalize);
  config.normalize_on = dataset::NormalizeOn::device;
  CHECK_THROWS(dataset::build(config, {.normalize_on_device = true}));
}

}  // namespace trainctl::train
