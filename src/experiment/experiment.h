// The experiment file as a type: every section, and the rules that hold across sections. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "activation_checkpointing/config.h"
#include "amp/config.h"
#include "checkpoint/config.h"
#include "config/field.h"
#include "dataset/config.h"
#include "distributed/config.h"
#include "exporters/config.h"
#include "model/config.h"
#include "optimizer/config.h"
#include "profiler/config.h"
#include "quantization/config.h"
#include "runtime/config.h"
#include "task/config.h"
#include "tracking/config.h"
#include "train/config.h"

namespace trainctl::experiment {

struct Experiment {
  std::string name;
  std::vector<std::string> plugins{};
  std::int64_t seed = 0;
  runtime::DeviceConfig device;
  dataset::DatasetConfig dataset;
  model::ModelConfig model;
  task::TaskConfig task;
  std::optional<task::DistillationConfig> distillation{};
  std::vector<task::MetricConfig> metrics{};
  optimizer::OptimizerConfig optimizer;
  amp::AmpConfig amp;
  train::AccumulationConfig accumulation;
  activation_checkpointing::ActivationCheckpointingConfig activation_checkpointing;
  distributed::DistributedConfig distributed;
  train::TrainConfig train;
  checkpoint::CheckpointConfig checkpoint;
  tracking::TrackingConfig tracking;
  profiler::ProfilerConfig profiler;
  quantization::QuantizationConfig quantization;
  exporters::ModelCardConfig model_card;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&Experiment::name>("Names the run's directory.", config::non_empty & config::required),
        field<&Experiment::plugins>(
            "Shared libraries that add kinds of networks, layers, datasets, transforms, tasks, optimizers and metrics "
            "(docs/plugins.md); a relative path is looked for from the working directory."),
        field<&Experiment::seed>("Decides initial weights, order, augmentation and dropout.",
                                 config::at_least(0) & config::any_seed),
        field<&Experiment::device>("Where the run computes."),
        field<&Experiment::dataset>("Samples, transforms and batches.", config::required),
        field<&Experiment::model>("The network.", config::required),
        field<&Experiment::task>("Loss and metrics."),
        field<&Experiment::distillation>(
            "Targets from a trained network beside those of the data; null trains on the data's alone."),
        field<&Experiment::metrics>("What an evaluation tells beside the task's own metrics (task.metrics)."),
        field<&Experiment::optimizer>("Update rule and learning rate."),
        field<&Experiment::amp>("Precision."),
        field<&Experiment::accumulation>("Micro-batches in a step."),
        field<&Experiment::activation_checkpointing>(
            "Memory for time: which activations are recomputed in the backward pass."),
        field<&Experiment::distributed>("How processes share the work."),
        field<&Experiment::train>("Length of the run, evaluation and logging.", config::required),
        field<&Experiment::checkpoint>("Saving and keeping."),
        field<&Experiment::tracking>("Metrics to other tools."),
        field<&Experiment::profiler>("What `trainctl profile` records."),
        field<&Experiment::quantization>("Training for eight bits, and what `trainctl quantize` takes by default."),
        field<&Experiment::model_card>("What is said of a model that is exported."),
    };
  }
};

}  // namespace trainctl::experiment
