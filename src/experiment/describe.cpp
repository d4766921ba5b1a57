#include "experiment/describe.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "config/problems.h"
#include "config/read.h"
#include "config/reference.h"
#include "config/schema.h"
#include "config/starter.h"
#include "experiment/experiment.h"
#include "experiment/shape.h"

namespace trainctl::experiment {
namespace {

/// The examples of docs/reference.md, by section.
constexpr std::pair<std::string_view, std::string_view> kExamples[] = {
    {"", R"(name: digits
dataset: {kind: synthetic_images, num_samples: 2000, num_eval_samples: 500, channels: 1, height: 28, width: 28}
model: {kind: cnn}
optimizer: {kind: adamw, lr: 3e-3}
train: {epochs: 4}
)"},
    {"device", R"(device: {kind: cpu, num_threads: 2, memory_limit_mib: 4096}
)"},
    {"dataset", R"(dataset:
  kind: image_folder
  train: photos/train                # a folder for each class
  eval: photos/val
  batch_size: 64
  transforms:
    - {kind: random_resized_crop, size: 64}
    - random_horizontal_flip
    - normalize
)"},
    {"model", R"(model:
  kind: resnet18
  stem: cifar
  init_from: weights/resnet18.pth
  freeze: ["*", "!fc"]               # the last layer alone is trained
)"},
    {"task", R"(task: {kind: classification, label_smoothing: 0.1, class_weighting: balanced}
)"},
    {"distillation", R"(distillation:
  teacher: {kind: cnn, channels: [64, 128], init_from: weights/teacher.safetensors}
  temperature: 4
  weight: 0.7                        # the rest is the task's own loss
)"},
    {"metrics[]", R"(metrics: [brier_score]
)"},
    {"optimizer", R"(optimizer:
  kind: sgd
  lr: 0.1
  momentum: 0.9
  weight_decay: 5e-4
  clip_norm: 1.0
  lr_scheduler: {kind: cosine, warmup: 100}
)"},
    {"amp", R"(amp: bf16                            # short for {mode: bf16}
)"},
    {"accumulation", R"(accumulation: {steps: 4}             # a step has four micro-batches
)"},
    {"activation_checkpointing", R"(activation_checkpointing: {kind: every_n, n: 2}
)"},
    {"distributed", R"(distributed: {kind: zero, stage: 2}
)"},
    {"train", R"(train:
  epochs: 20
  eval_every: 50                     # steps
  early_stopping: {patience: 5, metric: accuracy, mode: max}
)"},
    {"checkpoint", R"(checkpoint: {every: 50, keep_last: 2, best: accuracy}
)"},
    {"tracking", R"(tracking:
  tensorboard: true
  csv: true
  mlflow: {server: "http://localhost:5000"}
)"},
    {"profiler", R"(profiler: {warmup: 2, active: 5, start_step: 100}
)"},
    {"quantization", R"(quantization: {kind: qat}
)"},
    {"model_card", R"(model_card: {license: apache-2.0}
)"},
};

/// Returns an example for each section of the experiment file that is a mapping, and the file that they lie over.
config::SectionExamples section_examples() {
  return {std::begin(kExamples), std::end(kExamples)};
}

constexpr std::string_view kFashionMnist = "/usr/share/datasets/fashion-mnist/";

dataset::IdxFiles fashion_mnist(const std::string& part) {
  const std::string prefix = std::string(kFashionMnist) + part;
  return {prefix + "-images-idx3-ubyte.gz", prefix + "-labels-idx1-ubyte.gz"};
}

Experiment starter_experiment() {
  Experiment experiment;
  experiment.seed = 1;
  dataset::IdxConfig source;
  source.train = fashion_mnist("train");
  source.eval = fashion_mnist("t10k");
  experiment.dataset.source = source;
  dataset::NormalizeConfig normalize;
  normalize.mean = {0.2860};
  normalize.std = {0.3530};
  experiment.dataset.transforms = {normalize};
  experiment.train.epochs = 4;
  experiment.train.eval_every = 469;
  experiment.checkpoint.every = 469;
  return experiment;
}

/// A text that every Debian has, byte by byte: for a first look at language models.
void take_text(Experiment& experiment) {
  dataset::TextLmConfig text;
  text.train.files = {"/usr/share/common-licenses/GPL-3"};
  text.eval_fraction = 0.1;
  text.tokenizer = "bytes";
  text.seq_len = model::kStarterLength;
  experiment.dataset = {};
  experiment.dataset.source = text;
  experiment.dataset.batch_size = 16;
  experiment.task = task::CausalLmConfig{};
  experiment.train.epochs = 40;
  experiment.train.eval_every = {};
  experiment.checkpoint.every = 100;
}

/// No tokenizer with a mask token can be taken for granted.
void take_made_up_tokens(Experiment& experiment) {
  dataset::SyntheticTokensConfig tokens;
  tokens.seq_len = model::kStarterLength;
  tokens.vocab_size = 1000;
  tokens.mask_probability = 0.15;
  take_text(experiment);
  experiment.dataset.source = tokens;
  experiment.task = task::MaskedLmConfig{};
  experiment.train.epochs = 2;
}

/// No labelled texts can be taken for granted either: `check` says that the file isn't there.
void take_labelled_texts(Experiment& experiment) {
  dataset::TextClassificationConfig texts;
  texts.train.files = {"texts.csv"};
  texts.eval_fraction = 0.1;
  texts.tokenizer = "bytes";
  texts.max_length = 1024;
  take_text(experiment);
  experiment.dataset.source = texts;
  experiment.task = task::ClassificationConfig{};
  experiment.train.epochs = 20;
}

/// Nor can pairs of texts.
void take_pairs(Experiment& experiment) {
  dataset::TextSeq2SeqConfig pairs;
  pairs.train.files = {"pairs.jsonl"};
  pairs.eval_fraction = 0.1;
  pairs.tokenizer = "bytes";
  take_text(experiment);
  experiment.dataset.source = pairs;
  experiment.task = task::Seq2SeqLmConfig{};
  experiment.train.epochs = 20;
}

/// Sizes that learn in minutes on two cores, and data that the network takes.
void fit_to_data(Experiment& experiment) {
  std::visit(
      []<class Network>(Network& network) {
        if constexpr (config::ForPlugIns<Network>)
          network.become_starter();
        else
          network = Network::starter();
      },
      experiment.model.network.value);
  const model::ModelTraits& traits = config::traits_of(experiment.model.network);
  if (input_of(experiment.model.network) != model::Input::tokens) return;
  if (traits.outputs.value.contains(model::Output::next_tokens))
    take_text(experiment);
  else if (traits.outputs.value.contains(model::Output::masked_tokens))
    take_made_up_tokens(experiment);
  else if (traits.outputs.value.contains(model::Output::target_tokens))
    take_pairs(experiment);
  else
    take_labelled_texts(experiment);
}

/// Reads the two chosen kinds as if they had been written in a file.
void choose_kinds(const StarterChoice& choice, Experiment& experiment) {
  using config::Node;
  const auto section = [](const std::string& kind, const config::Origin& origin) {
    Node mapping = Node::mapping(origin);
    mapping.add("kind", origin, Node::scalar(kind, config::ScalarStyle::plain, origin));
    return mapping;
  };
  const config::Origin origin{config::OriginKind::command_line, "config new", 0, 0};
  const std::string model = choice.model.empty() ? "cnn" : choice.model;
  const std::string optimizer = choice.optimizer.empty() ? "adamw" : choice.optimizer;
  config::Problems problems;
  experiment.model = config::read<model::ModelConfig>(section(model, origin), problems, "model");
  experiment.optimizer = config::read<optimizer::OptimizerConfig>(section(optimizer, origin), problems, "optimizer");
  problems.throw_if_any();
  fit_to_data(experiment);
  experiment.optimizer.lr = config::traits_of(experiment.optimizer.rule).starter_lr;
  if (!config::traits_of(experiment.optimizer.rule).averages_weights)
    experiment.optimizer.lr_scheduler.shape = optimizer::OneCycleScheduleConfig{};
}

}  // namespace

std::string experiment_schema() {
  return config::json_schema(experiment_shape(), "trainctl experiment");
}

std::string experiment_reference() {
  return config::markdown_reference(experiment_shape(), "The experiment file", section_examples());
}

std::string experiment_kinds() {
  std::string text =
      config::markdown_kinds(experiment_shape(), "reference.md") +
      "## Metrics of each task\n\nWhat `task.metrics` takes. [Metrics](metrics.md) has their formulas.\n\n"
      "| task | metrics |\n|---|---|\n";
  const config::Shape& tasks = *experiment_shape().find("task")->shape->kinds();
  for (std::size_t i = 0; i < tasks.words.size(); ++i) {
    text += "| `" + std::string(tasks.words[i]) + "` | `loss`";
    if (const config::Key* metrics = tasks.alternatives[i]->find("metrics"))
      for (const std::string_view name : metrics->shape->element->words) text += ", `" + std::string(name) + "`";
    text += " |\n";
  }
  return text + "\n";
}

std::string experiment_starter(const StarterChoice& choice) {
  Experiment experiment = starter_experiment();
  experiment.name = choice.name;
  choose_kinds(choice, experiment);
  return "# Lines that begin with '#' say the defaults; `trainctl check` tells of mistakes.\n" +
         config::starter_text(experiment_shape(), &experiment);
}

}  // namespace trainctl::experiment
