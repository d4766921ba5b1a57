// A weight for each class of the data, where the loss is.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "dataset/dataset.h"

namespace trainctl::task {

/// Weights of classes in the order of their numbers; or none, and each class counts as one.
class ClassWeights {
 public:
  explicit ClassWeights(std::vector<double> weights) : weights_(std::move(weights)) {}

  bool empty() const { return weights_.empty(); }
  double operator[](std::int64_t number) const { return weights_[static_cast<std::size_t>(number)]; }
  /// Returns float [num_classes] on the device; an undefined tensor if there are none.
  const at::Tensor& on(c10::Device device) const;

 private:
  std::vector<double> weights_;
  mutable at::Tensor tensor_;  // made when the device is known
};

/// Throws Error if there are weights, but not one for each class of the data. `key`: of the experiment.
void check_class_weights(const std::string& key, const std::vector<double>& weights, const dataset::SampleSpec& spec);

}  // namespace trainctl::task
