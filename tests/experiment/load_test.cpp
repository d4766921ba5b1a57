#include "experiment/load.h"

#include <catch2/catch.hpp>
#include <random>

#include "config/emit.h"
#include "core/error.h"
#include "core/file.h"
#include "experiment/describe.h"
#include "problem_lines.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment::load_test {

using namespace trainctl;
using namespace trainctl::experiment;
using testing::TemporaryDirectory;

namespace {

const std::string kSmall = R"(name: small
dataset: {kind: synthetic_images, num_samples: 64, batch_size: 16}
model: {kind: cnn, channels: [16, 32]}
optimizer: {kind: adamw, lr: 3e-3, lr_scheduler: one_cycle}
train: {epochs: 4}
)";

std::vector<std::string> problems_of(const std::filesystem::path& path, const std::vector<std::string>& sets = {}) {
  try {
    load_experiment(path, sets);
  } catch (const core::ConfigError& error) {
    std::vector<std::string> texts;
    for (const core::Problem& problem : error.problems()) texts.push_back(problem.text());
    return texts;
  }
  return {};
}

}  // namespace

TEST_CASE("a small file is an experiment with defaults and origins", "[experiment]") {
  const TemporaryDirectory folder;
  const auto path = folder.write("exp.yaml", kSmall);
  const std::vector<std::string> sets = {"train.log_every=5", "model.dropout=0.5"};
  const LoadedExperiment loaded = load_experiment(path, sets);
  CHECK(loaded.experiment.name == "small");
  CHECK(loaded.experiment.optimizer.lr == 3e-3);
  CHECK(loaded.experiment.optimizer.rule.kind() == "adamw");
  CHECK(loaded.experiment.optimizer.lr_scheduler.shape.kind() == "one_cycle");
  CHECK(loaded.experiment.train.epochs == 4);
  CHECK(loaded.experiment.train.log_every == 5);
  CHECK(loaded.flat.at("model.channels") == "[16, 32]");
  CHECK(loaded.flat.at("optimizer.beta1") == "0.9");
  const std::string shown = config::emit(loaded.node, config::Comments::origins);
  CHECK(shown.find("  lr: 0.003  # " + path.string() + ":4\n") != std::string::npos);
  CHECK(shown.find("  dropout: 0.5  # --set model.dropout=0.5\n") != std::string::npos);
  CHECK(shown.find("  keep_last: 2  # default\n") != std::string::npos);
}

TEST_CASE("a length that --set gives takes the place of the file's in the other unit", "[experiment][regression]") {
  const TemporaryDirectory folder;
  const auto path = folder.write("exp.yaml", kSmall);
  const std::vector<std::string> steps = {"train.steps=20"};
  const LoadedExperiment loaded = load_experiment(path, steps);
  CHECK(loaded.experiment.train.steps == 20);
  CHECK_FALSE(loaded.experiment.train.epochs.has_value());
  CHECK(loaded.flat.at("train.epochs") == "null");
  CHECK(config::emit(loaded.node, config::Comments::origins).find("  epochs: null  # --set train.steps=20\n") !=
        std::string::npos);
  CHECK(problems_of(path, {"train.steps=20", "train.epochs=2"}).size() == 1);

  const auto in_steps = folder.write("steps.yaml", kSmall + "checkpoint: {every: 0}\n");
  const std::vector<std::string> both = {"train.epochs=null", "train.steps=20"};
  CHECK(load_experiment(in_steps, both).experiment.train.steps == 20);
}

TEST_CASE("the resolved file is the same experiment, for every example", "[experiment]") {
  const TemporaryDirectory folder;
  std::size_t num_examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TRAINCTL_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++num_examples;
    INFO(entry.path());
    const LoadedExperiment loaded = load_experiment(entry.path());
    const LoadedExperiment again = load_experiment(folder.write("again.yaml", loaded.resolved_yaml));
    CHECK(again.flat == loaded.flat);
    CHECK(again.resolved_yaml == loaded.resolved_yaml);
  }
  CHECK(num_examples > 0);
}

TEST_CASE("a short form in a file over a base has the meaning of the base's kind", "[experiment]") {
  const TemporaryDirectory folder;
  folder.write("base.yaml",
               "name: base\ndataset: {kind: text_classification, train: {files: a.csv, text: body, label: cls}, "
               "tokenizer: bytes}\nmodel: bert\ntrain: {steps: 1}\n");
  for (const char* kind : {"", "kind: text_classification, "}) {
    const std::string over = std::string("base: base.yaml\ndataset: {") + kind + "train: b.csv}\n";
    const auto path = folder.write("over.yaml", over);
    const LoadedExperiment loaded = load_experiment(path);
    const auto* texts = loaded.experiment.dataset.source.get_if<dataset::TextClassificationConfig>();
    REQUIRE(texts != nullptr);
    CHECK(texts->train.files == std::vector<std::string>{"b.csv"});
    CHECK(texts->train.text == "body");
    CHECK(texts->train.label == "cls");
  }
}

TEST_CASE("ten planted mistakes are all found, each at its line and column", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string text = R"(name: ten
seed: -1
dataset:
  kind: idx
  train: {images: a.gz, labels: b.gz}
  bacth_size: 128
  transforms:
    - {kind: random_crop}
    - {kind: random_erasing, p: 1.5, scale: [0.5, 0.1]}
model: {kind: resnet18, stem: cifr}
optimizer:
  kind: adamw
  momentum: 0.9
  lr: 3e-3
  lr: 1e-3
amp: {mode: fp61}
accumulation: {steps: 2.5}
train: {epochs: 4, eval_every: 100}
checkpoint: {best: {metric: acuracy}}
)";
  const std::string name = folder.write("ten.yaml", text).string();
  const auto found = problems_of(name);
  const std::vector<std::string> expected = {
      name + ":2:7: seed: expected an integer of at least 0, got -1",
      name + ":6:3: dataset.bacth_size: unknown key; did you mean 'batch_size'?",
      name + ":9:33: dataset.transforms[1].p: expected a number from 0 to 1, got 1.5",
      name + ":9:45: dataset.transforms[1].scale: expected [smallest, largest], but the first is larger",
      name + ":10:31: model.stem: expected one of imagenet or cifar, got 'cifr'; did you mean 'cifar'?",
      name + ":13:3: optimizer.momentum: 'momentum' belongs to kinds sgd, rmsprop and muon; this is adamw",
      name + ":15:3: optimizer.lr: duplicate key; the first is at line 14",
      name + ":16:13: amp.mode: expected one of fp32, tf32, bf16, fp16 or fp8, got 'fp61'; did you mean 'fp16'?",
      name + ":17:23: accumulation.steps: expected an integer from 1 to 1073741824, got 2.5",
      name +
          ":19:29: checkpoint.best.metric: expected one of loss, accuracy, balanced_accuracy, "
          "top2_accuracy, top3_accuracy, top5_accuracy, top10_accuracy, f1, f1_macro, f1_weighted, "
          "precision, precision_macro, recall, recall_macro, auroc, average_precision, matthews or "
          "calibration_error, got 'acuracy'; did you mean 'accuracy'?",
  };
  for (const std::string& problem : expected) CHECK_THAT(found, Catch::VectorContains(problem));
  CHECK(found.size() == expected.size());
  CHECK(std::is_permutation(found.begin(), found.end(), expected.begin(), expected.end()));
  CHECK(found == expected);
}

TEST_CASE("a file that can't be read is one clear problem", "[experiment]") {
  const TemporaryDirectory folder;
  CHECK(problems_of(folder.path() / "none.yaml").at(0).find("No such file") != std::string::npos);
  CHECK(problems_of(folder.write("empty.yaml", "")).at(0).find("the file is empty") != std::string::npos);
}

TEST_CASE("starter files are experiments, for every model and optimizer", "[experiment]") {
  const TemporaryDirectory folder;
  for (const std::string model : {"mlp", "cnn", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
                                  "wide_resnet", "vit", "gpt2", "llama", "bert", "lstm"})
    for (const std::string optimizer :
         {"sgd", "adam", "adamw", "rmsprop", "lion", "adamw_schedule_free", "muon", "soap", "lamb", "adafactor"}) {
      const LoadedExperiment loaded =
          load_experiment(folder.write("new.yaml", experiment_starter({"new-run", model, optimizer})));
      CHECK(loaded.experiment.name == "new-run");
      CHECK(loaded.flat.at("model.kind") == model);
      CHECK(loaded.flat.at("optimizer.kind") == optimizer);
      const bool is_for_text = model == "gpt2" || model == "llama" || model == "lstm";
      CHECK(loaded.experiment.dataset.source.kind() == (is_for_text       ? "text_lm"
                                                        : model == "bert" ? "synthetic_tokens"
                                                                          : "idx"));
    }
  CHECK_THROWS_WITH(experiment_starter({"x", "resnet81", ""}),
                    Catch::Contains("model.kind") && Catch::Contains("did you mean 'resnet18'?"));
}

TEST_CASE("a starter's commented defaults may be uncommented", "[experiment]") {
  const TemporaryDirectory folder;
  std::string text = experiment_starter({"new-run", "cnn", "sgd"});
  for (std::size_t at = 0; (at = text.find("\n#", at)) != std::string::npos;) text.erase(at + 1, 1);
  text.erase(0, text.find('\n') + 1);
  CHECK(load_experiment(folder.write("all.yaml", text)).flat ==
        load_experiment(folder.write("some.yaml", experiment_starter({"new-run", "cnn", "sgd"}))).flat);
}

TEST_CASE("damaged files are refused or read, never worse", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string whole =
      load_experiment(folder.write("exp.yaml", kSmall)).resolved_yaml + "extra: &a [*a, {b: 'c'}]\n";
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string special = "[]{},:-#&*!|>'\"%@`?~\n\t \\0\x80\xff<";
  std::size_t num_read = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = whole;
    for (std::size_t change = 0; change <= below(4); ++change) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text[at] = special[below(special.size())];
          break;
        case 2:
          text.erase(at, below(20));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
      if (text.empty()) text = "a";
    }
    num_read += problems_of(folder.write("damaged.yaml", text)).empty();
  }
  CHECK(num_read < 4000);
}

}  // namespace trainctl::experiment::load_test
