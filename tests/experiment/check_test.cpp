#include "experiment/check.h"

#include <catch2/catch.hpp>

#include "config/parse.h"
#include "config/read.h"
#include "config/write.h"
#include "core/error.h"
#include "experiment/load.h"
#include "problem_lines.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment::check_test {

using namespace trainctl;
using namespace trainctl::experiment;
using testing::TemporaryDirectory;

namespace {

const std::string kName = "name: x\n";
const std::string kImages = "dataset: {kind: synthetic_images}\n";
const std::string kModel = "model: mlp\n";
const std::string kTrain = "train: {steps: 100, eval_every: 10}\n";

/// Without the file's name: "2:7: path: message".
std::vector<std::string> problems_of(const std::string& text) {
  const TemporaryDirectory folder;
  const auto path = folder.write("f.yaml", text);
  std::vector<std::string> texts;
  try {
    load_experiment(path);
  } catch (const core::ConfigError& error) {
    for (const core::Problem& problem : error.problems())
      texts.push_back(problem.text().substr(path.string().size() + 1));
  }
  return texts;
}

std::string only_problem_of(const std::string& text) {
  const auto problems = problems_of(text);
  INFO(text);
  for (const auto& problem : problems) UNSCOPED_INFO(problem);
  REQUIRE(problems.size() == 1);
  return problems[0];
}

std::string with_optimizer(const std::string& optimizer) {
  return only_problem_of(kName + kImages + kModel + kTrain + "optimizer: " + optimizer + "\n");
}
std::string with_model(const std::string& model) {
  return only_problem_of(kName + kImages + kTrain + "model: " + model + "\n");
}
std::string with_dataset(const std::string& dataset) {
  return only_problem_of(kName + kModel + kTrain + "dataset: " + dataset + "\n");
}
/// A dataset whose targets are for the task.
std::string data_for(const std::string& task) {
  const std::string files = "train: {files: [a.tsv]}, tokenizer: bytes}";
  if (task == "causal_lm") return "synthetic_tokens";
  if (task == "masked_lm") return "{kind: synthetic_tokens, mask_probability: 0.1}";
  if (task == "token_classification") return "{kind: text_token_classification, " + files;
  return "{kind: text_classification, " + std::string(task == "regression" ? "label_type: value, " : "") + files;
}
std::string with_text(const std::string& kind, const std::string& options, const std::string& task) {
  const std::string head = task == "masked_lm" || task == "token_classification" ? task : "classification";
  return only_problem_of(kName + "train: {steps: 9}\ndataset: {kind: " + kind + ", tokenizer: bytes, " + options +
                         "}\nmodel: {kind: bert, head: " + head + "}\ntask: " + task + "\n");
}
std::string with_more(const std::string& more) {
  return only_problem_of(kName + kImages + kModel + kTrain + more + "\n");
}

}  // namespace

TEST_CASE("a run has one length", "[experiment]") {
  CHECK(only_problem_of(kName + kImages + kModel + "train: {log_every: 3}\n") ==
        "4:8: train: give train.epochs or train.steps");
  CHECK(only_problem_of(kName + kImages + kModel + "train: {epochs: 3, steps: 4}\n") ==
        "4:27: train.steps: train.epochs is given too; give one of them");
  CHECK(only_problem_of(kName + kImages + kModel + "train: {epohcs: 3}\n") ==
        "4:9: train.epohcs: unknown key; did you mean 'epochs'?");
}

TEST_CASE("nesterov needs momentum and no dampening", "[experiment]") {
  CHECK(with_optimizer("{kind: sgd, nesterov: true, momentum: 0}") ==
        "5:34: optimizer.nesterov: needs a momentum above 0");
  CHECK(with_optimizer("{kind: sgd, nesterov: true, dampening: 0.1}") ==
        "5:34: optimizer.nesterov: needs a dampening of 0");
  CHECK(with_optimizer("{kind: sgd, nesterov: true, momentum: x}").find("optimizer.momentum: expected a number") !=
        std::string::npos);
}

TEST_CASE("schedules fit the run", "[experiment]") {
  CHECK(with_optimizer("{lr_scheduler: {kind: one_cycle, warmup: 5}}")
            .find("5:53: optimizer.lr_scheduler.warmup: one_cycle rises by itself") == 0);
  CHECK(with_optimizer("{lr_scheduler: {warmup: 101}}") ==
        "5:36: optimizer.lr_scheduler.warmup: longer than the run, which has 100 steps");
  CHECK(with_optimizer("{lr_scheduler: {kind: multistep, milestones: [10, 10]}}") ==
        "5:62: optimizer.lr_scheduler.milestones[1]: expected more than the milestone before it, 10");
  CHECK(with_optimizer("{lr_scheduler: {kind: reduce_on_plateau, metric: acc}}")
            .find("5:61: optimizer.lr_scheduler.metric: expected one of loss, accuracy, balanced_accuracy, ") == 0);
  CHECK(with_optimizer("{lr_scheduler: {kind: reduce_on_plateau, better: higher}}").find("loss is best when lowest") !=
        std::string::npos);
  CHECK(only_problem_of(kName + kImages + kModel + "train: {steps: 9}\noptimizer: {lr_scheduler: reduce_on_plateau}\n")
            .find("5:27: optimizer.lr_scheduler.kind: reduce_on_plateau watches an evaluation metric; set "
                  "train.eval_every") == 0);
}

TEST_CASE("metrics fit the task and its classes", "[experiment]") {
  const auto with_task = [](const std::string& task) {
    return only_problem_of(kName + kTrain + kImages + kModel + "task: " + task + "\n");
  };
  CHECK(with_task("{metrics: [accuracy, aucroc]}")
            .find("task.metrics[1]: expected one of accuracy, balanced_accuracy, ") != std::string::npos);
  CHECK(with_task("{metrics: [accuracy, aucroc]}").find("got 'aucroc'; did you mean 'auroc'?") != std::string::npos);
  CHECK(with_task("{metrics: rmse}").find("task.metrics[0]: expected one of accuracy,") != std::string::npos);
  CHECK(with_task("{metrics: [auroc, accuracy, auroc]}").find("task.metrics[2]: auroc is in the list already") !=
        std::string::npos);
  CHECK(with_task("{metrics: [f1]}")
            .find("task.metrics[0]: f1 is of the second of two classes, and the dataset has 1000 classes; expected "
                  "f1_macro") != std::string::npos);
}

TEST_CASE("sets of the data are apart", "[experiment]") {
  const std::string table = "{kind: table, train: [a.csv], label: y, ";
  CHECK(with_dataset(table + "eval: [c.csv], test: [b.csv], test_fraction: 0.1}")
            .find("dataset.test_fraction: dataset.test names the test set") != std::string::npos);
  CHECK(with_dataset(table + "eval_fraction: 0.5, test_fraction: 0.5}").find("are together 1, which leaves nothing") !=
        std::string::npos);
  CHECK(with_dataset(table + "fold: {count: 3, index: 3}}")
            .find("dataset.fold.index: expected an integer below dataset.fold.count, 3, got 3") != std::string::npos);
  CHECK(with_dataset(table + "eval: [b.csv], fold: {}}").find("dataset.eval: the fold is the evaluation set") !=
        std::string::npos);
  CHECK(with_dataset(table + "eval_fraction: 0.1, fold: {}}")
            .find("dataset.eval_fraction: the fold is the evaluation set; expected 0, got 0.1") != std::string::npos);
  CHECK(with_dataset("{kind: synthetic_images, fold: {}}")
            .find("synthetic_images has no folds; expected idx, cifar10, cifar100, text_classification, text_seq2seq, "
                  "table, image_folder, chat, segmentation_folder or preference") != std::string::npos);
}

TEST_CASE("a task without a kind takes that of the dataset's targets", "[experiment]") {
  const std::string numbers =
      "dataset: {kind: table, train: [a.csv], eval: [b.csv], label: y, label_type: value}\nmodel: mlp\n";
  CHECK(problems_of(kName + kTrain + numbers + "task: {metrics: [mae, r2]}\n").empty());
  CHECK(only_problem_of(kName + kTrain + numbers + "task: {metrics: [mae, f1]}\n")
            .find("task.metrics[1]: expected one of mae, mse, rmse, r2, pearson or spearman, got 'f1'") !=
        std::string::npos);
}

TEST_CASE("transforms fit the images and each other", "[experiment]") {
  CHECK(with_dataset("{kind: synthetic_images, transforms: [{kind: random_erasing, scale: [0.1]}]}")
            .find("4:78: dataset.transforms[0].scale: expected [smallest, largest], got 1 numbers") == 0);
  CHECK(with_dataset("{kind: synthetic_images, transforms: [{kind: random_erasing, ratio: [3, 1]}]}")
            .find("dataset.transforms[0].ratio: expected [smallest, largest], but the first is larger") !=
        std::string::npos);
  CHECK(with_dataset("{kind: synthetic_images, transforms: [random_erasing, normalize]}")
            .find("4:48: dataset.transforms[0]: random_erasing must come after normalize") == 0);
  CHECK(with_dataset("{kind: synthetic_images, transforms: [normalize, normalize]}")
            .find("dataset.transforms[1]: images are normalised already") != std::string::npos);
  CHECK(with_dataset("{kind: synthetic_images, transforms: [{kind: normalize, mean: [0.1, 0.2]}]}")
            .find("dataset.transforms[0].mean: 2 numbers, but the images have 3 channels") != std::string::npos);
  CHECK(with_dataset("{kind: synthetic_images, transforms: [{kind: normalize, mean: [0, 0, 0], std: [1, 1]}]}")
            .find("dataset.transforms[0].std: std has 2 numbers, mean has 3") != std::string::npos);
}

TEST_CASE("tokens are no images", "[experiment]") {
  const auto problems = problems_of(kName + kTrain +
                                    "dataset: {kind: synthetic_tokens, transforms: [normalize]}\nmodel: mlp\n"
                                    "task: {kind: classification, mixup: 0.2, cutmix: 0.2}\n");
  REQUIRE(problems.size() == 5);
  CHECK(problems[0] == "3:47: dataset.transforms: these change images; synthetic_tokens has none");
  CHECK(problems[1] == "4:8: model.kind: mlp takes images, but synthetic_tokens has sequences of tokens");
  CHECK(problems[2] ==
        "5:14: task.kind: expected causal_lm, which the targets of synthetic_tokens are for, got classification");
  CHECK(problems[3] == "5:37: task.mixup: mixup blends images; synthetic_tokens has none");
  CHECK(problems[4] == "5:50: task.cutmix: cutmix pastes images; synthetic_tokens has none");
}

TEST_CASE("networks have possible dimensions", "[experiment]") {
  CHECK(with_model("{kind: wide_resnet, depth: 27}") ==
        "4:35: model.depth: expected 6 n + 4, such as 22 or 28, got 27");
  CHECK(with_model("{kind: wide_resnet, depth: 29}") ==
        "4:35: model.depth: expected 6 n + 4, such as 28 or 34, got 29");
  CHECK(with_model("{kind: cnn, kernel_size: 4}").find("4:33: model.kernel_size: expected an odd number") == 0);
  CHECK(with_model("{kind: cnn, num_pools: 3}")
            .find("4:31: model.num_pools: each pooling follows a convolution, and there are 2 of them") == 0);
  CHECK(with_model("{kind: cnn, num_classes: 10}") ==
        "4:33: model.num_classes: the dataset has 1000 classes, not 10; leave this out to follow it");
}

TEST_CASE("transformers have possible dimensions", "[experiment]") {
  CHECK(with_model("{kind: vit, num_heads: 7}") ==
        "4:8: model.hidden_size: expected a multiple of model.num_heads, 7, got 768");
  CHECK(with_model("{kind: vit, patch_size: 15}") ==
        "4:32: model.patch_size: expected a divisor of the image's sides, 224 and 224, got 15");
  const std::string patches = kName + kTrain + "model: {kind: vit, patch_size: 16}\n";
  CHECK(problems_of(patches + "dataset: {kind: cifar10, path: /}\n").empty());
  CHECK(only_problem_of(patches + "dataset: {kind: cifar10, path: /, transforms: [{kind: center_crop, size: 24}]}\n")
            .find("expected a divisor of the image's sides, 24 and 24, got 16") != std::string::npos);
  CHECK(with_model("{kind: vit, class_token: false}").find("4:33: model.class_token: model.pool is token") == 0);
  CHECK(problems_of(kName + kImages + kTrain + "model: {kind: vit, class_token: false, pool: avg}\n").empty());
}

TEST_CASE("a network for sequences has the head that the task needs", "[experiment]") {
  const auto problem = [](const std::string& model, const std::string& task) {
    return only_problem_of(kName + "train: {steps: 9}\ndataset: " + data_for(task) + "\nmodel: " + model +
                           "\ntask: " + task + "\n");
  };
  CHECK(problem("gpt2", "masked_lm") == "5:7: task.kind: gpt2 predicts next tokens: expected causal_lm, got masked_lm");
  CHECK(problem("bert", "causal_lm") == "5:7: task.kind: bert has no head for causal_lm");
  CHECK(problem("{kind: bert, head: classification}", "token_classification") ==
        "4:27: model.head: task token_classification needs token_classification, got classification");
  CHECK(problem("bert", "regression") == "4:8: model.head: task regression needs classification, got auto");
  CHECK(problem("{kind: lstm, bidirectional: true}", "causal_lm")
            .find("4:36: model.bidirectional: a language model must not see") == 0);
  CHECK(problem("{kind: lstm, tie_embeddings: true, embedding_size: 8}", "causal_lm")
            .find("4:37: model.tie_embeddings: needs an embedding_size of 512") == 0);
  for (const auto& [model, task] : {std::pair{"gpt2", "causal_lm"},
                                    {"bert", "masked_lm"},
                                    {"bert", "classification"},
                                    {"{kind: bert, head: token_classification}", "token_classification"},
                                    {"lstm", "causal_lm"},
                                    {"{kind: lstm, bidirectional: true}", "classification"}})
    CHECK(problems_of(kName + "train: {steps: 9}\ndataset: " + data_for(task) + "\nmodel: " + model +
                      "\ntask: " + task + "\n")
              .empty());
}

TEST_CASE("the dataset's targets are for the task", "[experiment]") {
  const std::string files = "train: {files: [a.tsv]}";
  CHECK(with_text("text_mlm", files, "token_classification").find("5:7: task.kind: expected masked_lm, which the") ==
        0);
  CHECK(with_text("text_classification", files + ", label_type: value", "classification")
            .find("5:7: task.kind: expected regression, which the targets of text_classification are for") == 0);
  CHECK(with_more("task: causal_lm").find("5:7: task.kind: expected classification, which the targets of synthetic") ==
        0);
}

TEST_CASE("labels have names of their own", "[experiment]") {
  const std::string files = "train: {files: [a.tsv]}";
  CHECK(with_text("text_classification", files + ", class_names: [a, b, a]", "classification") ==
        "3:101: dataset.class_names[2]: 'a' is given already, as number 1 of the list");
  CHECK(with_text("text_classification", files + ", class_names: [a, '']", "classification")
            .find("dataset.class_names[1]: a label can't be empty") != std::string::npos);
  CHECK(with_text("text_classification", files + ", class_names: [a, b], label_type: value", "regression")
            .find("dataset.class_names: names classes, and label_type is value") != std::string::npos);
}

TEST_CASE("options of text files are for formats that have them", "[experiment]") {
  const auto problem = [](const std::string& files) {
    return with_text("text_mlm", "train: {" + files + "}", "masked_lm");
  };
  CHECK(problem("files: [a.txt], quoting: none") == "3:78: dataset.train.quoting: is for csv and tsv; no file is one");
  CHECK(problem("files: [a.jsonl], header_lines: 2").find("header_lines: is for csv and tsv") != std::string::npos);
  CHECK(problem("files: [a.csv], document: line").find("document: is for plain text") != std::string::npos);
  CHECK(with_text("text_token_classification", "train: {files: [a.jsonl], separator: tab}", "token_classification")
            .find("separator: is for conll; no file is one") != std::string::npos);
  for (const char* fine :
       {"files: [a.txt, b.csv], quoting: none, document: line", "files: [a], format: tsv, header_lines: 2"})
    CHECK(problems_of(
              kName +
              "train: {steps: 9}\nmodel: bert\ntask: masked_lm\ndataset: {kind: text_mlm, tokenizer: bytes, train: {" +
              fine + "}}\n")
              .empty());
}

TEST_CASE("activations are moved to the host from elsewhere, and patterns are given", "[experiment]") {
  CHECK(
      with_more("device: cpu\nactivation_checkpointing: {offload: cpu}") ==
      "6:37: activation_checkpointing.offload: device is cpu, so what the backward pass needs is in the host's memory "
      "already");
  CHECK(with_more("activation_checkpointing: pattern").find("modules: required key is missing") != std::string::npos);
}

TEST_CASE("a recorded step asks no host and repeats its numbers", "[experiment]") {
  const auto with = [](const std::string& more) {
    return only_problem_of(kName + kImages + kModel + "train: {steps: 9, graph: whole_step}\n" + more);
  };
  CHECK(problems_of(kName + kImages + kModel + "train: {steps: 9, graph: whole_step}\noptimizer: adamw\n").empty());
  CHECK(with("device: cpu\n").starts_with("4:26: train.graph: records the work of a GPU, and device is cpu"));
  CHECK(with("optimizer: lion\n").starts_with("4:26: train.graph: lion waits for the device at each update"));
  CHECK(with("optimizer: {kind: sgd, fused: false}\n").find("with fused: true") != std::string::npos);
  CHECK(with("distributed: ddp\n").find("is for one rank") != std::string::npos);
  CHECK(with("task: {kind: classification, mixup: 0.2}\n").find("leave mixup and cutmix out") != std::string::npos);
  CHECK(with("tracking: {histogram_every: 5}\n").find("leave train.graph or tracking.histogram_every out") !=
        std::string::npos);
  CHECK(with("profiler: {start_step: 5}\n").find("shows a profile no operators") != std::string::npos);
  CHECK(with("activation_checkpointing: {offload: cpu}\n").find("come back from the host") != std::string::npos);
  CHECK(with("activation_checkpointing: full\n").find("the generator's state") != std::string::npos);
  CHECK(with("quantization: qat\n").find("ranges that the host counts steps for") != std::string::npos);
}

TEST_CASE("precision fits the device", "[experiment]") {
  CHECK(with_more("device: cpu\namp: {mode: tf32}") ==
        "6:13: amp.mode: tf32 is a mode of NVIDIA GPUs, and device is cpu");
  CHECK(with_more("amp: {mode: bf16, loss_scaling: static}") ==
        "5:33: amp.loss_scaling: used by fp16 alone, and amp.mode is bf16");
  CHECK(problems_of(kName + kImages + kModel + kTrain + "amp: {mode: fp16, loss_scaling: static}\n").empty());
}

TEST_CASE("what watches an evaluation has one", "[experiment]") {
  const std::string no_eval = kName + kModel + "dataset: {kind: synthetic_images, num_eval_samples: 0}\n";
  CHECK(only_problem_of(no_eval + "train: {steps: 9, eval_every: 3}\n") ==
        "4:31: train.eval_every: the dataset has no evaluation set");
  CHECK(only_problem_of(no_eval + "train: {steps: 9}\ncheckpoint: {best: {metric: loss, mode: min}}\n") ==
        "5:20: checkpoint.best: the dataset has no evaluation set to choose the best by");
  CHECK(only_problem_of(no_eval + "train: {steps: 9}\noptimizer: {lr_scheduler: reduce_on_plateau}\n")
            .find("the dataset has no evaluation set") != std::string::npos);
  CHECK(only_problem_of(kName + kModel +
                        "dataset: {kind: idx, train: {images: a, labels: b}}\ntrain: {steps: 9, eval_every: 3}\n")
            .find("the dataset has no evaluation set") != std::string::npos);
  const std::string never = kName + kImages + kModel + "train: {steps: 9, eval_every: 0";
  CHECK(only_problem_of(never + "}\ncheckpoint: {best: accuracy}\n").find("checkpoint.best: train.eval_every is 0") !=
        std::string::npos);
  CHECK(only_problem_of(never + ", eval_steps: 1}\n").find("train.eval_steps: changes nothing while ") !=
        std::string::npos);
  CHECK(problems_of(kName + kImages + kModel + "train: {steps: 9}\ncheckpoint: {best: accuracy}\n").empty());
  CHECK(with_more("checkpoint: {best: {metric: loss}}") ==
        "5:29: checkpoint.best.metric: loss is best when lowest, but the highest is asked for");
}

TEST_CASE("as many classes have names as there are", "[experiment]") {
  const std::string idx =
      "dataset: {kind: idx, train: {images: a, labels: b}, eval: {images: c, labels: d}, class_names: [x, y], "
      "num_classes: ";
  CHECK(only_problem_of(kName + kModel + kTrain + idx + "3}\n").find("dataset.class_names names 2 classes") !=
        std::string::npos);
  CHECK(problems_of(kName + kModel + kTrain + idx + "2}\n").empty());
}

TEST_CASE("values that switch a key off are refused", "[experiment][regression]") {
  CHECK(with_more("optimizer: {layer_decay: 1}").starts_with("5:26: optimizer.layer_decay: 1 changes nothing; "));
  CHECK(with_more("optimizer: {ema: {decay: 0}}").starts_with("5:26: optimizer.ema.decay: 0 makes the average the "));
  CHECK(problems_of(kName + kImages + kModel + kTrain + "optimizer: {ema: {decay: 0, every: 2}}\n").empty());
  const auto dataset = [](const std::string& keys) {
    return problems_of(kName + kModel + kTrain + "dataset: {kind: synthetic_images, " + keys + "}\n");
  };
  for (const std::string key : {"prefetch_factor: 4", "persistent_workers: false"}) {
    REQUIRE(dataset("num_workers: 0, " + key).size() == 1);
    CHECK(dataset("num_workers: 0, " + key)[0].ends_with(": changes nothing while dataset.num_workers is 0"));
    CHECK(dataset("num_workers: 1, " + key).empty());
  }
}

TEST_CASE("settings that would change nothing are named", "[experiment]") {
  CHECK(with_more("optimizer: {base_batch_size: 512}") ==
        "5:30: optimizer.base_batch_size: changes nothing while optimizer.lr_scaling is none");
  for (const auto& [more, why] : std::vector<std::pair<std::string, std::string>>{
           {"optimizer: {decay_bias_and_norm: true}", "optimizer.weight_decay is 0"},
           {"optimizer: {lr_scheduler: {warmup_start_factor: 0.1}}", "optimizer.lr_scheduler.warmup is 0"},
           {"optimizer: {lr_scheduler: {interval: epoch}}",
            "optimizer.lr_scheduler.warmup is 0: constant counts neither steps nor epochs"},
           {"optimizer: {lr_scheduler: {kind: reduce_on_plateau, interval: epoch}}",
            "optimizer.lr_scheduler.warmup is 0: reduce_on_plateau counts neither steps nor epochs"},
           {"optimizer: {kind: adamw_schedule_free, weight_lr_power: 1}", "optimizer.lr_scheduler.warmup is 0"},
           {"distributed: {pipeline_schedule: gpipe}", "distributed.pipeline is 1"},
           {"distributed: {pipeline_split: count}", "distributed.pipeline is 1"},
           {"device: {kind: cpu, expandable_segments: true}", "device.kind is cpu"}})
    CHECK(with_more(more).ends_with("changes nothing while " + why));
  CHECK(problems_of(kName + kImages + kModel + kTrain +
                    "optimizer: {decay_bias_and_norm: true, param_groups: [{params: '*', weight_decay: 0.1}]}\n")
            .empty());
  const auto idle = [](const std::string& dataset, const std::string& model, const std::string& train) {
    return only_problem_of(kName + "dataset: {kind: synthetic_images" + dataset + "}\nmodel: {kind: mlp" + model +
                           "}\ntrain: {steps: 9" + train + "}\n");
  };
  CHECK(idle(", max_bad_samples: 5", "", "") ==
        "2:52: dataset.max_bad_samples: changes nothing while dataset.on_bad_sample is fail");
  CHECK(idle("", ", freeze: ['!linear', '*', '!head']", "").starts_with("3:29: model.freeze[0]: changes nothing: "));
  CHECK(idle("", ", init_policy: strict", "") ==
        "3:33: model.init_policy: changes nothing while model.init_from is null");
  CHECK(idle("", ", convolution_algorithm: direct", "")
            .ends_with("changes nothing while model.kind is mlp, which has no convolutions"));
  CHECK(
      only_problem_of(kName + kTrain + "dataset: synthetic_tokens\nmodel: {kind: gpt2, memory_format: channels_last}\n")
          .ends_with("changes nothing while model.kind is gpt2, which takes sequences of tokens"));
  CHECK(only_problem_of(kName + kImages + kTrain + "model: {kind: layers, init_std: 0.5, layers: [flatten, linear]}\n")
            .ends_with("model.init_std: changes nothing while model.init is pytorch"));
  const auto table = [](const std::string& more) {
    return only_problem_of(kName + "model: {kind: mlp, num_classes: 1}\ntask: regression\ntrain: {steps: 9}\n" +
                           "dataset: {kind: table, train: [a.csv], label: y, label_type: value, " + more + "}\n");
  };
  CHECK(table("num_bins: 7").find("dataset.num_bins: changes nothing while numbers aren't in bins") !=
        std::string::npos);
  for (const std::string key : {"separator: ;", "decimal: comma", "encoding: latin1", "header_lines: 1"}) {
    const std::string name = key.substr(0, key.find(':'));
    CHECK(table("format: parquet, " + key).ends_with("dataset." + name + ": is for csv and tsv; no file is one"));
    CHECK(problems_of(kName +
                      "model: mlp\ntrain: {steps: 9}\ndataset: {kind: table, train: [a.parquet, b], label: y, " + key +
                      "}\n")
              .empty());
  }
  CHECK(table("numerical_columns: [a], date_columns: [b, a]")
            .ends_with("dataset.date_columns[1]: 'a' is in dataset.numerical_columns already"));
  CHECK(table("categorical_columns: [a, y]")
            .ends_with("dataset.categorical_columns[1]: 'y' is the label, and no feature"));
  CHECK(table("class_names: [a]").ends_with("class_names: changes nothing while dataset.label_type is value"));
  CHECK(table("split_seed: 5").find("no share of the samples is kept for evaluation") != std::string::npos);
  for (const auto& [dataset, why] : std::vector<std::pair<std::string, std::string>>{
           {"{kind: cifar10, path: a, split_seed: 5}", "no share of the samples is kept for evaluation or test"},
           {"{kind: webdataset, train: a.tar, split_seed: 5", "no share of the samples is kept for evaluation or test"},
           {"{kind: webdataset, train: a.tar, label_member: x", "dataset.label is cls, which isn't JSON"},
           {"{kind: webdataset, train: a.tar, shuffle_buffer: 0, shuffle_shards: 4", "dataset.shuffle_buffer is 0"}})
    CHECK(only_problem_of(kName + kModel + "train: {steps: 9}\ndataset: " + dataset +
                          (dataset.ends_with("}") ? "" : ", transforms: [{kind: center_crop, size: 8}]}") + "\n")
              .ends_with("changes nothing while " + why));
  CHECK(only_problem_of(kName + "model: {kind: lstm}\ntrain: {steps: 9}\ndataset: {kind: mixture, sources: [" +
                        "{kind: text_classification, train: {files: [a.csv]}, tokenizer: bytes, split_seed: 4}]}\n")
            .find("dataset.sources[0].split_seed: changes nothing while") != std::string::npos);
  CHECK(only_problem_of(kName + "model: {kind: mlp, memory_format: channels_last}\ntrain: {steps: 9}\n" +
                        "dataset: {kind: table, train: [a.csv], label: y}\n")
            .ends_with("changes nothing while dataset.kind is table, which has no images"));
  const auto lm = [](const std::string& files) {
    return only_problem_of(kName +
                           "model: gpt2\ntrain: {steps: 9}\ndataset: {kind: text_lm, tokenizer: bytes, train: {" +
                           files + ", text: body}}\n");
  };
  CHECK(lm("files: [a.txt]").ends_with("dataset.train.text: is for files with columns; no file is one"));
  const auto llama = [](const std::string& scaling) {
    return only_problem_of(kName + kTrain + "dataset: synthetic_tokens\nmodel: {kind: llama, rope_scaling: " + scaling +
                           "}\n");
  };
  CHECK(llama("linear").find("changes nothing while model.rope_scaling.factor is 1") != std::string::npos);
  CHECK(llama("{kind: llama3, factor: 1}").find("changes nothing while model.rope_scaling.factor is 1") !=
        std::string::npos);
  CHECK(llama("{kind: yarn, factor: 4, attention_factor: 2, mscale: 1, mscale_all_dim: 2}")
            .find("model.rope_scaling.mscale: changes nothing while model.rope_scaling.attention_factor is given") !=
        std::string::npos);
  CHECK(llama("{kind: longrope, short_factor: [1], long_factor: [2], factor: 4, attention_factor: 2}")
            .find("model.rope_scaling.factor: changes nothing while") != std::string::npos);
  for (const std::string key : {"rope_theta: 500", "rope_scaling: {kind: linear, factor: 2}"})
    CHECK(only_problem_of(kName + kTrain + "dataset: synthetic_tokens\nmodel: {kind: llama, position_types: [none], " +
                          key + "}\n")
              .ends_with("changes nothing while model.position_types gives no layer rotary ones"));
  const auto sliding = [](const std::string& keys) {
    return problems_of(kName + kTrain + "dataset: synthetic_tokens\nmodel: {kind: llama, sliding_window: 4, " + keys +
                       "}\n");
  };
  for (const std::string key : {"rope_theta: 500", "rope_scaling: {kind: linear, factor: 2}"}) {
    const std::vector<std::string> problems = sliding("rope_local_theta: 9, " + key);
    REQUIRE(problems.size() == 1);
    CHECK(
        problems[0].ends_with("changes nothing while each layer with rotary positions slides and so has "
                              "model.rope_local_theta"));
    CHECK(sliding("rope_local_theta: 9, layer_types: [sliding_attention, full_attention], " + key).empty());
  }
  const std::vector<std::string> local =
      sliding("rope_local_theta: 9, layer_types: [sliding_attention, full_attention], position_types: [none, rotary]");
  REQUIRE(local.size() == 1);
  CHECK(
      local[0].find("model.rope_local_theta: changes nothing while model.position_types gives no layer that slides") !=
      std::string::npos);
  CHECK(llama("{kind: yarn, factor: 4, mscale: 0.7}").find("model.rope_scaling.mscale: changes nothing while the") !=
        std::string::npos);
  CHECK(only_problem_of(kName + "train: {steps: 9}\ndataset: " + data_for("text_classification") +
                        "\nmodel: {kind: lstm, tie_embeddings: true}\n")
            .ends_with("changes nothing while task.kind is classification"));
  for (const std::string key : {"pooling: mean", "normalize_pooled: true", "dropout_before_pooler: true"})
    CHECK(only_problem_of(kName + "train: {steps: 9}\ndataset: " + data_for("token_classification") +
                          "\ntask: token_classification\nmodel: {kind: bert, head: token_classification, " + key +
                          "}\n")
              .ends_with("changes nothing while task.kind is token_classification"));
  CHECK(only_problem_of(kName + kTrain + "dataset: " + data_for("masked_lm") +
                        "\ntask: masked_lm\nmodel: {kind: bert, classifier_dropout: 0.5}\n")
            .ends_with("changes nothing while task.kind is masked_lm"));
  CHECK(idle("", "", ", max_rollbacks: 5")
            .ends_with("changes nothing while neither train.on_non_finite nor train.loss_spikes rolls back"));
  CHECK(only_problem_of(kName + kImages + kModel + "train: {steps: 9, on_non_finite: rollback}\n") ==
        "4:34: train.on_non_finite: rollback goes back to a checkpoint; set checkpoint.every");
  CHECK(only_problem_of(kName + kImages + kModel + "train: {steps: 9, loss_spikes: {action: rollback}}\n") ==
        "4:41: train.loss_spikes.action: rollback goes back to a checkpoint; set checkpoint.every");
}

TEST_CASE("keys of an update rule or schedule need what they are parts of", "[experiment]") {
  CHECK(with_optimizer("{kind: sgd, momentum: 0, dampening: 0.5}")
            .starts_with("5:48: optimizer.dampening: changes nothing while optimizer.momentum is 0"));
  for (const std::string key : {"shampoo_beta: 0.9", "precondition_frequency: 2", "precondition_1d: true"})
    CHECK(with_optimizer("{kind: soap, max_precond_dim: 0, " + key + "}")
              .find("changes nothing while optimizer.max_precond_dim is 0") != std::string::npos);
  for (const std::string key : {"decay: sqrt", "min_factor: 0.5"})
    CHECK(with_optimizer("{lr_scheduler: {kind: warmup_stable_decay, decay_ratio: 0, " + key + "}}")
              .find("changes nothing while optimizer.lr_scheduler.decay_ratio is 0") != std::string::npos);
  for (const std::string defaults :
       {"{kind: sgd, momentum: 0, dampening: 0}", "{kind: soap, max_precond_dim: 0, precondition_frequency: 10}",
        "{lr_scheduler: {kind: warmup_stable_decay, decay_ratio: 0, decay: linear}}"})
    CHECK(problems_of(kName + kImages + kModel + kTrain + "optimizer: " + defaults + "\n").empty());
}

TEST_CASE("both parts of a distillation's loss count, or their keys are refused", "[experiment]") {
  CHECK(with_more("distillation: {logits: a, weight: 0}")
            .starts_with("5:35: distillation.weight: the teacher computes and changes nothing"));
  const auto with_task = [](const std::string& weight, const std::string& key) {
    return problems_of(kName + kImages + kModel + kTrain + "distillation: {logits: a, weight: " + weight +
                       "}\ntask: {" + key + "}\n");
  };
  for (const std::string key : {"label_smoothing: 0.1", "focal_gamma: 2"}) {
    const auto problems = with_task("1", key);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].find("changes nothing while distillation.weight is 1") != std::string::npos);
    CHECK(with_task("0.9", key).empty());
  }
  CHECK(with_task("1", "label_smoothing: 0, focal_gamma: 0").empty());
}

TEST_CASE("what is done between blocks needs more than one", "[experiment]") {
  const std::string single = kName + kImages + kTrain + "model: {kind: mlp, hidden: []}\n";
  for (const std::string more : {"activation_checkpointing: full", "activation_checkpointing: {offload: cpu}",
                                 "activation_checkpointing: {storage_dtype: bf16}", "optimizer: {layer_decay: 0.5}"})
    CHECK(only_problem_of(single + more + "\n").ends_with("changes nothing in a network of one block; leave it out"));
  CHECK(problems_of(single + "activation_checkpointing: auto\n").empty());
  const std::string listed =
      kName + kImages + kTrain + "activation_checkpointing: sqrt\nmodel: {kind: layers, layers: ";
  CHECK(only_problem_of(listed + "[{kind: conv2d, channels: auto}, global_avg_pool]}\n")
            .find("activation_checkpointing.kind: changes nothing") != std::string::npos);
  CHECK(problems_of(listed + "[{kind: conv2d, channels: 4}, relu, global_avg_pool, linear]}\n").empty());
  CHECK(with_model("{kind: mlp, hidden: [], dropout: 0.5}")
            .find("model.dropout: changes nothing while model.hidden is empty") != std::string::npos);
  CHECK(with_model("{kind: vit, num_layers: 1, drop_path: 0.1}").find("model.drop_path: changes nothing") !=
        std::string::npos);
}

TEST_CASE("what is switched off has no keys", "[experiment]") {
  CHECK(
      only_problem_of(kName + kImages + kModel + "train: {steps: 9, watchdog: {step_multiple: 0, min_timeout_s: 5}}\n")
          .ends_with("train.watchdog.min_timeout_s: changes nothing while train.watchdog.step_multiple is 0"));
  CHECK(problems_of(kName + kImages + kModel + "train: {steps: 9, watchdog: {step_multiple: 0, min_timeout_s: 60}}\n")
            .empty());
  const std::string never = kName + kImages + kModel + "train: {steps: 9, eval_every: 0}\n";
  CHECK(only_problem_of(never + "tracking: {sample_predictions: 3}\n")
            .ends_with("tracking.sample_predictions: changes nothing while the run evaluates nothing"));
  CHECK(problems_of(never + "tracking: {sample_predictions: 0}\n").empty());
  CHECK(with_more("amp: {mode: fp16, loss_scaling: {growth_factor: 1, growth_interval: 5}}")
            .ends_with("growth_interval: changes nothing while amp.loss_scaling.growth_factor is 1"));
}

TEST_CASE("an order that isn't drawn has no keys", "[experiment]") {
  CHECK(with_dataset("{kind: synthetic_images, shuffle: false, balanced_sampling: true}")
            .find("dataset.shuffle: changes nothing while dataset.balanced_sampling draws") != std::string::npos);
  const auto shards = [](const std::string& more) {
    return problems_of(kName + kModel + "train: {steps: 9}\ndataset: {kind: webdataset, train: a.tar, " + more +
                       ", transforms: [{kind: center_crop, size: 8}]}\n");
  };
  for (const std::string key : {"shuffle_buffer: 100", "shuffle_shards: 4"})
    for (const std::string order : {"shuffle: false", "balanced_sampling: true"}) {
      INFO(key + ", " + order);
      const auto problems = shards(order + ", " + key);
      REQUIRE(problems.size() == 1);
      CHECK(problems[0].find("changes nothing while dataset." + order.substr(0, order.find(':'))) != std::string::npos);
    }
  CHECK(shards("shuffle: false, shuffle_buffer: auto, shuffle_shards: 16").empty());
  CHECK(shards("shuffle_buffer: 100, shuffle_shards: 4").empty());
}

TEST_CASE("MLflow's address has a scheme and no password", "[experiment]") {
  CHECK(with_more("tracking: {mlflow: {server: mlruns}}") ==
        "5:29: tracking.mlflow.server: expected http:// or https://, got mlruns");
  CHECK(with_more("tracking: {mlflow: {server: 'https://anne:secret@tracking.org/mlflow'}}")
            .starts_with("5:29: tracking.mlflow.server: expected an address without user and password"));
  CHECK(problems_of(kName + kImages + kModel + kTrain + "tracking: {mlflow: {server: 'http://host:5000/a@b'}}\n")
            .empty());
  CHECK(with_more("tracking: {flush_timeout_s: 3}") ==
        "5:29: tracking.flush_timeout_s: used for mlflow and trackio alone, and neither is set");
}

TEST_CASE("histograms are of whole weights", "[experiment]") {
  const std::string tokens =
      kName + kTrain + "dataset: synthetic_tokens\nmodel: gpt2\ntracking: {histogram_every: 10}\n";
  for (const std::string layout : {"zero", "{kind: ddp, tensor: 2}", "{kind: ddp, pipeline: 2}"})
    CHECK(only_problem_of(tokens + "distributed: " + layout + "\n")
              .starts_with("5:29: tracking.histogram_every: no rank has the whole weights and gradients"));
  CHECK(problems_of(tokens + "distributed: {kind: ddp, context: 2}\n").empty());
}

TEST_CASE("eight bits in training fit the rest", "[experiment]") {
  CHECK(with_more("quantization: {kind: qat, activation_scheme: symmetric, activation_bits: 7}") ==
        "5:74: quantization.activation_bits: symmetric activations have 8 bits");
  CHECK(with_more("quantization: {percentile: 99}") ==
        "5:28: quantization.percentile: changes nothing while quantization.observer is histogram");
  CHECK(problems_of(kName + kImages + kModel + kTrain + "quantization: {kind: qat, activation_scheme: symmetric}\n")
            .empty());
}

TEST_CASE("rules are silent about keys that couldn't be read", "[experiment]") {
  CHECK(
      problems_of(kName + kTrain + "dataset: {kind: synthetic_tokenz}\nmodel: {kind: cnn, kernel_size: 4}\n").size() ==
      2);
  CHECK(with_model("{kind: cnn, kernel_size: 99}").find("from 1 to 31") != std::string::npos);
}

TEST_CASE("freezing beside adapters, and groups of parameters that say nothing or too much, are refused",
          "[experiment]") {
  CHECK(with_model("{kind: mlp, freeze: ['*'], lora: {target_modules: [linear]}}") ==
        "4:28: model.freeze: model.lora freezes all but its adapters and modules_to_save; leave freeze out");
  CHECK(with_optimizer("{kind: sgd, param_groups: [{params: head, lr: 1, lr_scale: 2}]}") ==
        "5:71: optimizer.param_groups[0].lr_scale: expected lr or lr_scale, got both");
  CHECK(with_optimizer("{kind: sgd, param_groups: [{params: head}]}") ==
        "5:39: optimizer.param_groups[0]: changes nothing; expected lr, lr_scale or weight_decay");
  CHECK(with_optimizer("{kind: sgd, layer_decay: 1.5}").find("optimizer.layer_decay: ") != std::string::npos);
}

}  // namespace trainctl::experiment::check_test
