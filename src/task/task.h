// What a batch means: a loss to minimise, and metrics to report. Losses are sums with counts, never means, so that
// averages over micro-batches, ranks and padded tokens stay exact: divide once, by the global count.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset.h"
#include "model/model.h"
#include "task/config.h"
#include "task/pool.h"
#include "task/teacher.h"

namespace trainctl::task {

/// A batch as the model is given it.
model::ModelInput model_input(const dataset::Batch& batch);

/// A micro-batch as the model is given it, and what its output is compared with.
struct MicroBatch {
  dataset::Batch batch;
  model::ModelInput input;
  double count = 0;             // what the loss is a sum over: samples or their weight, or tokens with a target
  bool is_placeholder = false;  // the loss doesn't count: this rank has no samples left
  double share = 1;  // of each sample's own target; the rest is the target of the sample before (mixup, cutmix)
};

struct LossSum {
  at::Tensor sum;    // scalar, on the device, differentiable
  double count = 0;  // samples in it or their weight, or tokens with a target
};

/// A metric's name and value, in the order in which they are shown: {"loss", 0.31}, {"accuracy", 0.91}, …
using Metrics = std::vector<std::pair<std::string, double>>;

/// Sums over an evaluation set, kept on the device until asked for.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  /// `input`: of the batch, and of the model's last blocks where others ran before (ModelInput::hidden).
  virtual void add(const dataset::Batch& batch, const model::ModelInput& input) = 0;
  void add(const dataset::Batch& batch) { add(batch, model_input(batch)); }
  /// Makes this the evaluation of what all ranks have added. Once, by all of them.
  virtual void pool(Pool& pool) = 0;
  /// Scalars: loss first. Synchronises.
  virtual Metrics metrics() = 0;
  /// More than scalars, as a JSON document (per-class accuracy, confusion matrix); "" where there is nothing more.
  virtual std::string details() = 0;

  /// Is called by add(), if set, with the batch and the model's answers. Classes have logits [B, C], and a regression
  /// has values [B]. A language model has the losses [1, T] of the first sequence's tokens, NaN if a token has no
  /// target.
  std::function<void(const dataset::Batch& batch, const at::Tensor& answers)> on_answers{};
};

class Task {
 public:
  virtual ~Task() = default;
  /// Returns the sum of the weights of the classes of the batch's samples; none if classes have no weights. `batch`: on
  /// the host, so that no device is waited for.
  virtual std::optional<double> weight_of(const dataset::Batch& batch) const = 0;
  /// `batch`: on the model's device. `key` names the randomness of training (mixup, cutmix).
  virtual MicroBatch prepare(dataset::Batch batch, std::uint64_t key) const = 0;
  /// Runs the model, or the blocks of `micro_batch.input`, to the end, and returns the training loss.
  virtual LossSum loss(model::Model& model, const MicroBatch& micro_batch) const = 0;
  /// `spec`: of the set that is evaluated.
  virtual std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) = 0;
};

/// Returns the config with all metrics of its evaluations: those that it lists, or the usual ones, and those that the
/// run watches. Throws Error if such data have no such metric.
TaskConfig with_metrics(TaskConfig config, const dataset::SampleSpec& spec, const std::vector<std::string>& watched);

/// Frozen networks beside the trained one.
struct Companions {
  TeacherPtr teacher{};                            // whose outputs count in the training loss; null: targets are all
  std::shared_ptr<model::Model> reference{};       // of dpo, in evaluation mode; null: it neither trains nor evaluates
  std::map<std::string, std::string> checksums{};  // of what their files hold, by the key that names these
};

/// The task on training data of this kind; data of another kind is an Error that names the task for it.
std::unique_ptr<Task> build(const TaskConfig& config, const dataset::SampleSpec& spec,
                            const Companions& companions = {});

}  // namespace trainctl::task
