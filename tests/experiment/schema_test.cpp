#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/error.h"
#include "experiment/describe.h"
#include "experiment/load.h"
#include "problem_lines.h"
#include "support/skip.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment::schema_test {

using namespace trainctl;
using namespace trainctl::experiment;
using testing::TemporaryDirectory;

namespace {

const std::string kWhole = "name: x\ndataset: synthetic_images\nmodel: mlp\ntrain: {steps: 3}\n";

bool reads(const TemporaryDirectory& folder, const std::string& text) {
  try {
    load_experiment(folder.write("read.yaml", text));
    return true;
  } catch (const core::ConfigError&) {
    return false;
  }
}

/// Requires each of these files to be "valid" or "invalid", where Python has what it takes to say so.
void require_each(const TemporaryDirectory& folder, const std::string& expected, const std::string& files) {
  const auto schema = folder.write("schema.json", experiment_schema());
  const std::string script = std::string(TRAINCTL_SOURCE_DIR) + "/tests/experiment/validate.py";
  const std::string command =
      "'" TRAINCTL_PYTHON "' '" + script + "' " + expected + " " + schema.string() + " " + files;
  const int status = WEXITSTATUS(std::system(command.c_str()));
  if (status == 77) testing::skip("no jsonschema and yaml in .deps/python (scripts/setup.sh --tests)");
  CHECK(status == 0);
}

/// Writes each text to a file; all their names.
std::string write_all(const TemporaryDirectory& folder, const std::vector<std::string>& texts) {
  std::string names;
  for (std::size_t i = 0; i < texts.size(); ++i)
    names += " " + folder.write("file" + std::to_string(i) + ".yaml", texts[i]).string();
  return names;
}

}  // namespace

TEST_CASE("the schema accepts every example, starters, short forms and overlays", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string files = write_all(
      folder,
      {experiment_starter(), experiment_starter({"x", "wide_resnet", "sgd"}),
       "base: other.yaml\ndataset: {batch_size: 3}\noptimizer: {momentum: 0.5}\nmodel: {depth: 16}\n",
       kWhole + "optimizer: {kind: sgd, lr_scheduler: cosine, clip_norm: null}\ndevice: cpu\ntask: classification\n"});
  require_each(folder, "valid", "'" TRAINCTL_SOURCE_DIR "'/configs/*.yaml" + files);
}

TEST_CASE("the schema refuses what the reader refuses", "[experiment]") {
  const TemporaryDirectory folder;
  std::vector<std::string> texts = {"name: x\n", "name: x\nmodel: mlp\ntrain: {steps: 3}\ndataset: idx\n",
                                    "base: b.yaml\noptimizr: sgd\n", "base: b.yaml\nmodel: {depth: 16, stem: cifar}\n"};
  for (const std::string wrong : {"nme: y\n", "seed: -1\n", "seed: 1.5\n", "optimizer: {lr: 0}\n",
                                  "optimizer: {weigth_decay: 1}\n", "optimizer: {kind: adamw, momentum: 0.5}\n",
                                  "optimizer: sdg\n", "amp: {mode: fp61}\n", "checkpoint: {best: {metrc: loss}}\n",
                                  "tracking: {tensorboard: yes}\n", "optimizer: {lr_scheduler: multistep}\n",
                                  "optimizer: {lr_scheduler: {kind: multistep, milestones: []}}\n", "checkpoint:\n"})
    texts.push_back(kWhole + wrong);
  for (const std::string& text : texts) {
    INFO(text);
    CHECK((text.starts_with("base:") || !reads(folder, text)));
  }
  require_each(folder, "invalid", write_all(folder, texts));
}

TEST_CASE("the reference names every section and kind", "[experiment]") {
  const std::string reference = experiment_reference();
  for (const std::string text : {"## `dataset`", "### `optimizer: {kind: adafactor}`", "`clip_norm`",
                                 "number of at least 0 and below 1", "### `optimizer.lr_scheduler`"})
    CHECK(reference.find(text) != std::string::npos);
}

}  // namespace trainctl::experiment::schema_test
