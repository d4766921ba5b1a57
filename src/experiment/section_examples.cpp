#include "experiment/section_examples.h"

#include <iterator>
#include <string_view>
#include <utility>

namespace trainctl::experiment {
namespace {

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

}  // namespace

config::SectionExamples section_examples() {
  return {std::begin(kExamples), std::end(kExamples)};
}

}  // namespace trainctl::experiment
