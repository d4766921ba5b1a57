// What a run is made of, built from an experiment in one place.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/amp.h"
#include "comm/device_mesh.h"
#include "dataset/dataset.h"
#include "distributed/distributed.h"
#include "experiment/experiment.h"
#include "model/deferred_weight_gradients.h"
#include "model/model.h"
#include "optimizer/optimizer.h"
#include "optimizer/schedule.h"
#include "quantization/training.h"
#include "runtime/state.h"
#include "task/task.h"
#include "tracking/event.h"
#include "train/run/best.h"
#include "train/run/early_stopping.h"
#include "train/run/loss_spikes.h"

namespace trainctl::train {

/// The parts of a run and where it stands. Owns everything.
struct Run {
  experiment::Experiment experiment;
  c10::Device device;
  std::unique_ptr<comm::Group> own_group;  // of a run that is alone
  std::unique_ptr<comm::DeviceMesh> mesh;
  dataset::Datasets data;
  std::unique_ptr<model::Model> model;                                 // this rank's blocks of it
  std::optional<distributed::PipelineStages> stages;                   // none: each rank has all blocks
  std::unique_ptr<model::DeferredWeightGradients> deferred_gradients;  // of a schedule that splits backward passes
  std::unique_ptr<task::Task> task;
  std::map<std::string, std::string> companion_checksums;  // of a teacher or a reference, by the key of its files
  std::vector<optimizer::OptimizedParameter> parameters;   // what this rank updates
  std::unique_ptr<distributed::Parallel> parallel;
  std::unique_ptr<optimizer::Optimizer> optimizer;
  amp::LossScaler scaler;
  std::optional<optimizer::Ema> ema;
  std::optional<quantization::QuantizedTraining> quantized_training;
  std::optional<optimizer::Plateau> plateau;
  BestEvaluation best;
  std::optional<EarlyStopping> early_stopping;
  std::optional<LossSpikes> loss_spikes;
  task::Metrics metrics;             // of the last evaluation
  std::int64_t evaluated_step = -1;  // the step of that evaluation; -1 before the first one

  std::int64_t global_batch = 0;    // samples of a step, on all ranks
  std::int64_t micro_batches = 1;   // of a step, on each rank
  std::int64_t num_parameters = 0;  // of the whole model
  double peak_lr = 0;               // after scaling with the global batch
  optimizer::RunLength length;
  bool channels_last = false;

  std::int64_t step = 0;                // updates made
  std::filesystem::path restored_from;  // the checkpoint that it went on from; empty: none, or a snapshot
  bool has_new_state = false;           // which that checkpoint lacks
  /// How far the data are ahead of the step, in steps of this batch: earlier steps may have had another batch. A
  /// schedule goes by the data if the run or the schedule counts epochs.
  std::int64_t schedule_offset = 0;
  std::int64_t steps_per_epoch_before = -1;  // of the checkpoint; 0: an older one of a run in steps; -1: unknown
  double last_lr = 0;                        // of the step before a checkpoint
  std::int64_t num_rollbacks = 0;
  at::Tensor num_skipped;         // double []: updates left out (non-finite loss or gradients, fp16 overflow)
  at::Tensor window;              // double [2]: sum of losses and samples since the last log record, finite steps only
  dataset::Position next_sample;  // the data that comes next

  /// Whether this is the rank that saves and reports.
  bool is_first() const { return mesh->world().rank() == 0; }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(experiment.seed); }
  /// The learning rate of a step; the first is number 1.
  double lr_of_step(std::int64_t number) const;
  /// Updates that the rest of an epoch takes, whose samples before this one were seen.
  std::int64_t steps_left_in_epoch(std::int64_t sample) const;
  /// Sets schedule_offset, and what is left of a run in epochs. The checkpoint had this offset, and this batch on all
  /// ranks (0: unknown). If an epoch has other steps now, the place in the data tells the offset.
  void place_in_schedule(std::int64_t offset, std::int64_t batch_before);
  /// Returns how many samples an evaluation takes that `eval_steps` limits; 0: the whole set.
  std::int64_t num_sampled_for_evaluation() const;
  /// Begins anew with what compares evaluations.
  void forget_evaluations();
  /// For one micro-batch of this run: no rank keeps 16-bit copies of weights that it holds only its part of.
  amp::Autocast autocast() const;
  /// Everything that a resumed run needs to go on exactly. Called by all ranks.
  void visit_state(runtime::State& state);
};

/// For a run that only shows what it would take, on tensors without values (runtime/fake_tensor.h): no data is read.
struct DryRunSetup {
  c10::Device device;
  std::function<dataset::Datasets(const dataset::LoaderOptions&)> open_data;
  bool checks_initial_weights = false;  // the names and shapes in model.init_from
};

/// The rank that a run is of.
struct RankContext {
  comm::Group* group = nullptr;  // null: the run is alone
  std::int64_t local_rank = 0;
  std::int64_t local_world_size = 1;
  /// Samples of a step, of a run that goes on with another number of ranks than it began with: accumulation makes up
  /// for them. 0: what the config says.
  std::int64_t global_batch = 0;
  const DryRunSetup* dry_run = nullptr;  // null: the run trains
  /// Opens the data of a run that uses a trained model. Empty: the data are opened as the config says.
  std::function<dataset::Datasets(const dataset::LoaderOptions&)> open_data{};
};

/// One line a component. Facts of the machine that are wrong fail here; `notices` tells what the user should know.
std::unique_ptr<Run> build(const experiment::Experiment& experiment, std::vector<tracking::Notice>& notices,
                           const RankContext& rank = {});

}  // namespace trainctl::train
