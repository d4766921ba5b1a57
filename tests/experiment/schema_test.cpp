#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/file.h"
#include "experiment/describe.h"
#include "folder.h"

using namespace trainctl;

namespace {

/// Exit status of the script over files; 77 where Python lacks jsonschema or yaml.
int validate(const Folder& folder, const std::string& files) {
  const auto schema = folder.write("schema.json", experiment_schema());
  const std::string command =
      "python3 " + std::string(TRAINCTL_SOURCE_DIR) + "/tests/experiment/validate.py " + schema.string() + " " + files;
  return WEXITSTATUS(std::system(command.c_str()));
}

const std::string kWhole = "name: x\ndataset: synthetic_images\nmodel: mlp\ntrain: {steps: 3}\n";

}  // namespace

TEST_CASE("the schema accepts every example, and starters", "[experiment]") {
  const Folder folder;
  const auto starter = folder.write("starter.yaml", experiment_starter());
  const auto based = folder.write(
      "based.yaml", "base: other.yaml\ndataset: {batch_size: 3}\noptimizer: {momentum: 0.5}\nmodel: {depth: 16}\n");
  const auto short_forms = folder.write(
      "short.yaml",
      kWhole + "optimizer: {kind: sgd, schedule: cosine, clip_norm: null}\ndevice: cpu\ntask: classification\n");
  const int status = validate(folder, std::string(TRAINCTL_SOURCE_DIR) + "/configs/*.yaml " + starter.string() + " " +
                                          based.string() + " " + short_forms.string());
  if (status == 77) {
    WARN("SKIPPED: python3 has no jsonschema and yaml to validate with");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("the schema refuses what the reader refuses", "[experiment]") {
  const Folder folder;
  for (const std::string wrong :
       {"nme: y\n", "seed: -1\n", "seed: 1.5\n", "optimizer: {lr: 0}\n", "optimizer: {weigth_decay: 1}\n",
        "optimizer: {kind: adamw, momentum: 0.5}\n", "optimizer: sdg\n", "amp: {mode: fp61}\n",
        "checkpoint: {best: {metrc: loss}}\n", "tracking: {tensorboard: yes}\n", "optimizer: {schedule: multistep}\n",
        "optimizer: {schedule: {kind: multistep, milestones: []}}\n", "checkpoint:\n", "dataset: idx\n",
        "base: b.yaml\noptimizr: sgd\n"}) {
    INFO(wrong);
    const int status = validate(
        folder,
        folder.write("wrong.yaml",
                     (wrong.starts_with("dataset") ? "name: x\nmodel: mlp\ntrain: {steps: 3}\n" : kWhole) + wrong)
                .string() +
            " > /dev/null");
    if (status == 77) {
      WARN("SKIPPED: python3 has no jsonschema and yaml to validate with");
      return;
    }
    CHECK(status == 1);
  }
  CHECK(validate(folder, folder.write("missing.yaml", "name: x\n").string() + " > /dev/null") == 1);
}

TEST_CASE("the reference names every section and kind", "[experiment]") {
  const std::string reference = experiment_reference();
  for (const std::string text : {"## `dataset`", "### `optimizer: {kind: adafactor}`", "`clip_norm`",
                                 "number of at least 0 and below 1", "### `optimizer.schedule`"})
    CHECK(reference.find(text) != std::string::npos);
}
