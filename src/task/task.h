// What a batch means: a loss to minimise, and metrics to report. Losses are sums with counts, never means, so that
// averages over micro-batches, ranks and padded tokens stay exact: divide once, by the global count.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset.h"
#include "model/model.h"
#include "task/config.h"
#include "task/pool.h"

namespace trainctl::task {

struct LossSum {
  at::Tensor sum;          // scalar, on the device, differentiable
  std::int64_t count = 0;  // samples in it, or tokens with a target
};

/// A metric's name and value, in the order in which they are shown: {"loss", 0.31}, {"accuracy", 0.91}, …
using Metrics = std::vector<std::pair<std::string, double>>;

/// Sums over an evaluation set, kept on the device until asked for.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  virtual void add(const dataset::Batch& batch) = 0;
  /// Makes this the evaluation of what all ranks have added. Once, by all of them.
  virtual void pool(Pool& pool) = 0;
  /// Scalars: loss first. Synchronises.
  virtual Metrics metrics() = 0;
  /// More than scalars, as a JSON document (per-class accuracy, confusion matrix); "" where there is nothing more.
  virtual std::string details() = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  /// Training loss of one micro-batch (already on the model's device). `key` names its randomness (mixup, cutmix).
  virtual LossSum loss(model::Model& model, const dataset::Batch& batch, std::uint64_t key) = 0;
  /// `spec`: of the set that is evaluated.
  virtual std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) = 0;
};

/// The task on training data of this kind; data of another kind is an Error that names the task for it.
std::unique_ptr<Task> build(const TaskConfig& config, const dataset::SampleSpec& spec);

}  // namespace trainctl::task
