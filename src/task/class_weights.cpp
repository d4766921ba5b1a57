#include "task/class_weights.h"

#include <ATen/ops/tensor.h>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::task {

const at::Tensor& ClassWeights::on(c10::Device device) const {
  if (!weights_.empty() && (!tensor_.defined() || tensor_.device() != device))
    tensor_ = at::tensor(weights_, at::kFloat).to(device);
  return tensor_;
}

void check_class_weights(const std::string& key, const std::vector<double>& weights, const dataset::SampleSpec& spec) {
  if (weights.empty() || std::ssize(weights) == spec.num_classes) return;
  throw core::Error(key + " has " + core::format_count(weights.size()) + " weights, and the dataset has " +
                    core::format_count(spec.num_classes) + " classes: " + core::list_words(spec.class_names));
}

}  // namespace trainctl::task
