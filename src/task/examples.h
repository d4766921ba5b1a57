// Samples of an evaluation that a person looks at: the first ones, and those with the largest loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dataset/dataset.h"
#include "task/pool.h"

namespace trainctl::task {

/// A sample with the model's answer.
struct Example {
  std::int64_t sample = 0;  // number in the order of the evaluation set, from 0
  at::Tensor input;  // on the host: an image [C, H, W], the inputs of a row [F], or token ids without padding [T]
  double loss = 0;
  double target = 0;                   // class or value; 0 of a language model
  double answer = 0;                   // class or value; 0 of a language model
  double score = 0;                    // probability of the class that is the answer; 0 elsewhere
  std::vector<double> token_losses{};  // of a language model: [T], NaN where there is no target
};

struct Examples {
  std::vector<Example> first;
  std::vector<Example> worst;  // largest loss first
};

/// Keeps a number of samples of an evaluation, on the device. On a CPU, a batch costs a pass over its losses, and a
/// copy of the samples that are kept.
class ExampleCollector {
 public:
  /// `spec`: of the evaluation set.
  ExampleCollector(std::int64_t count, const dataset::SampleSpec& spec, c10::Device device);
  /// Whether these targets have answers that can be shown sample by sample.
  static bool takes(dataset::Targets targets);
  /// Takes what Evaluation::on_answers passes.
  void add(const dataset::Batch& batch, const at::Tensor& answers);
  /// Makes this the collection of all ranks. Once, by all of them.
  void pool(Pool& pool);
  Examples examples() const;

 private:
  /// Samples as rows of tensors.
  struct Rows {
    at::Tensor figures;       // double [N, 6]: sample, length, loss, target, answer, score
    at::Tensor inputs;        // [N, ...], of the spec's shape
    at::Tensor token_losses;  // float [N, T]; [N, 0] without tokens that have losses
    std::int64_t size() const { return figures.size(0); }
  };

  static Rows joined(const std::vector<Rows>& parts);
  static Rows chosen(const Rows& rows, const at::Tensor& indices);
  static std::vector<Example> on_host(const Rows& rows);
  Rows largest_losses(const Rows& rows) const;
  Rows rows_of(const dataset::Batch& batch, const at::Tensor& answers, std::int64_t count) const;
  at::Tensor figures_of(const dataset::Batch& batch, const at::Tensor& answers, std::int64_t count) const;
  bool is_worth_keeping(const at::Tensor& losses) const;

  std::int64_t count_;
  dataset::Targets targets_;
  std::vector<std::int64_t> shape_;  // of a sample's input
  Rows first_;
  Rows worst_;
};

}  // namespace trainctl::task
