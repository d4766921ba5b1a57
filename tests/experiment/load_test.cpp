#include "experiment/load.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "core/error.h"

using namespace trainctl;

namespace {

/// A directory that goes with the test.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("trainctl_load_" + std::to_string(::getpid()))) { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

const std::string kSmall = R"(name: small
dataset: {kind: synthetic_images, num_samples: 64, batch_size: 16}
model: {kind: cnn, channels: [16, 32]}
optimizer: {kind: adamw, lr: 3e-3, schedule: one_cycle}
train: {epochs: 4}
)";

}  // namespace

TEST_CASE("a small file is an experiment with defaults and origins", "[experiment]") {
  const Folder folder;
  const LoadedExperiment loaded = load_experiment(folder.write("exp.yaml", kSmall));
  CHECK(loaded.experiment.name == "small");
  CHECK(loaded.experiment.optimizer.lr == 3e-3);
  CHECK(loaded.experiment.optimizer.rule.kind() == "adamw");
  CHECK(loaded.experiment.optimizer.schedule.shape.kind() == "one_cycle");
  CHECK(loaded.experiment.train.epochs == 4);
  CHECK(loaded.flat.at("model.channels") == "[16, 32]");
  CHECK(loaded.flat.at("optimizer.beta1") == "0.9");
  const LoadedExperiment again = load_experiment(folder.write("again.yaml", loaded.resolved_yaml));
  CHECK(again.flat == loaded.flat);
}
