"""A dataset: square images, whose bytes follow each other in a file."""
from addition import Addition, After, Before, Forgotten, New, Run

CONFIG = """// `dataset: {kind: raw_pixels}`. Part of dataset/config.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "dataset/facts.h"

namespace trainctl::dataset {

/// Square images of one channel, without labels: the first pixel tells the class.
struct RawPixelsConfig {
  static constexpr std::string_view kind = "raw_pixels";
  std::string path;
  std::int64_t side = 4;
  std::int64_t num_classes = 2;

  DatasetFacts facts() const {
    return {.samples = ImageFacts{.num_channels = 1, .are_files = false, .size = ImageSize{side, side}},
            .targets = Targets::labels,
            .num_classes = num_classes,
            .class_names = std::vector<std::string>(),
            .eval = EvalFacts()};
  }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&RawPixelsConfig::path>("File of bytes.", config::non_empty & config::required),
        field<&RawPixelsConfig::side>("Rows, and columns, of each raw image.", config::between(1, 64)),
        field<&RawPixelsConfig::num_classes>("The first pixel modulo this is the class.", config::between(2, 255)),
    };
  }
};

}  // namespace trainctl::dataset
"""

SOURCE = """#include <cstring>

#include "core/error.h"
#include "core/file.h"
#include "dataset/image/in_memory.h"
#include "dataset/sources.h"

namespace trainctl::dataset {

Sources build(const RawPixelsConfig& config) {
  const std::string bytes = core::read_file(config.path);
  ImageSet set{.shape = {.height = config.side, .width = config.side}, .pixels = {}, .labels = {}, .num_classes = config.num_classes};
  const auto one = static_cast<std::size_t>(set.shape.bytes());
  if (bytes.empty() || bytes.size() % one != 0) throw core::Error(config.path + ": its images are not all whole");
  set.pixels.resize(bytes.size());
  std::memcpy(set.pixels.data(), bytes.data(), bytes.size());
  for (std::size_t first = 0; first < bytes.size(); first += one)
    set.labels.push_back(static_cast<std::uint8_t>(static_cast<std::uint8_t>(bytes[first]) % config.num_classes));
  return {.train = make_source(std::move(set)), .eval = nullptr};
}

}  // namespace trainctl::dataset
"""

TEST = """#include <catch2/catch.hpp>

#include "dataset/batch_spec.h"
#include "dataset/missing_inputs.h"
#include "support/temporary_directory.h"

using namespace trainctl;
using namespace trainctl::dataset;

TEST_CASE("raw pixels are squares with the classes of their first pixels", "[dataset]") {
  const testing::TemporaryDirectory directory;
  DatasetConfig config;
  config.source = RawPixelsConfig{.path = directory.write("pixels", "abcdefgh").string(), .side = 2};
  config.batch_size = 2;
  config.shuffle = false;
  CHECK(missing_inputs(config).empty());
  CHECK(outline(config, {}, {}).spec.input_shape == std::vector<std::int64_t>{1, 2, 2});
  const Datasets built = build(config, {});
  CHECK(built.eval == nullptr);
  const Batch batch = built.train->next().value();
  CHECK(batch.inputs.sizes() == at::IntArrayRef{2, 1, 2, 2});
  CHECK(batch.targets[0].item<std::int64_t>() == 'a' % 2);
  CHECK(batch.targets[1].item<std::int64_t>() == 'e' % 2);
}
"""

EXPERIMENT = """name: raw
dataset: {kind: raw_pixels, path: pixels.bin, side: 8, batch_size: 4}
model: {kind: cnn}
train: {steps: 2, log_every: 1}
"""

HEADER = "src/dataset/raw_pixels_config.h"
SETS = "src/dataset/config.h"
CHECKS = "src/dataset/missing_inputs.cpp"
BATCHES = "src/dataset/batch_spec.cpp"

CASE = Addition(
    section="Adding a dataset",
    name="raw_pixels",
    steps={
        HEADER: [New(CONFIG)],
        SETS: [After('#include "dataset/image_config.h"\n', '#include "dataset/raw_pixels_config.h"\n'),
               Before("PreferenceConfig>;", "RawPixelsConfig, ")],
        "src/dataset/sources.h": [After("Sources build(const SyntheticTokensConfig& config);\n", "Sources build(const RawPixelsConfig& config);\n")],
        BATCHES: [Before("BatchSpec batch_spec_of(const SyntheticImagesConfig& config,",
                         "BatchSpec batch_spec_of(const RawPixelsConfig& config, const BatchSpecHints&) {\n"
                         "  return images({1, config.side, config.side}, config.num_classes);\n}\n")],
        CHECKS: [Before("void look_for(const SyntheticImagesConfig&,",
                        "void look_for(const RawPixelsConfig& config, Search& search) { search.file(\"path\", config.path); }\n")],
        "src/dataset/raw_pixels.cpp": [New(SOURCE)],
        "tests/dataset/raw_pixels_test.cpp": [New(TEST)],
    },
    files={"experiment.yaml": EXPERIMENT, "pixels.bin": "".join(chr(33 + (7 * i + i // 64) % 90) for i in range(16 * 64))},
    programs={
        "trainctl_engine": [],
        "trainctl": [
            Run(["config", "schema"], says=['"raw_pixels"', "Rows, and columns, of each raw image."]),
            Run(["check", "experiment.yaml"], says=["ok"]),
            Run(["check", "experiment.yaml", "--set", "dataset.path=nowhere"], code=2, says=["dataset.path: there is no file nowhere"]),
            Run(["check", "--file-only", "experiment.yaml", "--set", "dataset.side=65"], code=2, says=["dataset.side: "]),
            Run(["train", "experiment.yaml", "--run-dir", "run"],
                says=["16 samples of 2 classes", "2 steps of 4 samples", "step 1/2", "step 2/2", "finished 2 steps"]),
        ],
        "test_dataset": [Run([], says=["All tests passed"])],
    },
    forgotten=[
        Forgotten((HEADER, "DatasetFacts facts()", "DatasetFacts about()"), says=["a kind has no `facts() const`"], source=SETS),
        Forgotten((HEADER, ".targets = Targets::labels,", ""), says=["raw_pixels_config.h"], source=SETS),
        Forgotten((SETS, "RawPixelsConfig, ", ""), says=["RawPixelsConfig"], source="tests/dataset/raw_pixels_test.cpp"),
        Forgotten(("src/dataset/sources.h", "build(const RawPixelsConfig&", "construct(const RawPixelsConfig&"),
                  says=["build(const trainctl::dataset::RawPixelsConfig&"], source="src/dataset/build.cpp"),
        Forgotten((BATCHES, "batch_spec_of(const RawPixelsConfig&", "spec_of(const RawPixelsConfig&"),
                  says=["batch_spec_of(const trainctl::dataset::RawPixelsConfig&"], source=BATCHES),
        Forgotten((CHECKS, "look_for(const RawPixelsConfig&", "look(const RawPixelsConfig&"),
                  says=["look_for(const trainctl::dataset::RawPixelsConfig&"], source=CHECKS),
        Forgotten(("src/dataset/raw_pixels.cpp", "", ""), says=["undefined"], program="test_dataset"),
    ],
    closed_sets=[("src/dataset/config.h", "OwnSourceConfig", "dataset")],
)
