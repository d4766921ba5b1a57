#include "train/device_feed.h"

#include <ATen/ops/allclose.h>

#include <catch2/catch.hpp>

#include "dataset/dataset.h"

namespace trainctl {

namespace {

DatasetConfig images(std::int64_t channels) {
  DatasetConfig config;
  config.source = SyntheticImagesConfig{
      .num_samples = 60, .num_eval_samples = 20, .channels = channels, .height = 17, .width = 13, .num_classes = 5};
  config.batch_size = 9;
  NormalizeConfig normalize{.mean = {}, .std = {}};
  for (std::int64_t c = 0; c < channels; ++c) {
    normalize.mean.push_back(0.4 + 0.03 * static_cast<double>(c));
    normalize.std.push_back(0.2 + 0.01 * static_cast<double>(c));
  }
  config.transforms = {RandomCropConfig{.padding = 2}, RandomHorizontalFlipConfig{}, RandomVerticalFlipConfig{},
                       normalize};
  return config;
}

}  // namespace

TEST_CASE("images normalised on the device are those normalised on the host", "[train]") {
  for (const std::int64_t channels : {1, 3, 4})
    for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      DatasetConfig config = images(channels);
      config.normalize_on = NormalizeOn::host;
      const Datasets host = build(config, {.seed = 4});
      config.normalize_on = NormalizeOn::device;
      const Datasets device = build(config, {.seed = 4});
      REQUIRE_FALSE(host.train->spec().to_normalize);
      for (Loader* const loader : {device.train.get(), device.eval.get()}) {
        Loader& reference = loader == device.train.get() ? *host.train : *host.eval;
        REQUIRE(loader->spec().to_normalize);
        DeviceFeed feed(c10::kCPU, format, loader->spec().to_normalize);
        while (std::optional<Batch> given = loader->next()) {
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
  DatasetConfig config = images(3);
  CHECK_FALSE(build(config, {}).train->spec().to_normalize);
  CHECK(build(config, {.normalize_on_device = true}).train->spec().to_normalize);
  config.transforms.push_back(RandomErasingConfig{});
  CHECK_FALSE(build(config, {.normalize_on_device = true}).train->spec().to_normalize);
  config.normalize_on = NormalizeOn::device;
  CHECK_THROWS(build(config, {.normalize_on_device = true}));
}

}  // namespace trainctl
