// The network of tests/reference/optimizers.py, on plain operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/optimizer.h"

namespace trainctl::testing {

struct SmallNet {
  std::vector<optimizer::OptimizedParameter> parameters;

  const at::Tensor& operator[](const std::string& name) const {
    for (const optimizer::OptimizedParameter& parameter : parameters)
      if (parameter.name == name) return parameter.tensor;
    throw std::out_of_range(name);
  }

  static const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& shapes() {
    static const std::vector<std::pair<std::string, std::vector<std::int64_t>>> all{
        {"conv1.weight", {4, 1, 3, 3}}, {"conv1.bias", {4}},      {"norm.weight", {4}},
        {"conv2.weight", {6, 4, 3, 3}}, {"conv2.bias", {6}},      {"hidden.weight", {16, 96}},
        {"hidden.bias", {16}},          {"head.weight", {5, 16}}, {"head.bias", {5}}};
    return all;
  }

  /// Returns how many layers come after the parameter's.
  static std::int64_t blocks_after(const std::string& name) {
    const std::vector<std::string> layers{"head", "hidden", "conv2", "norm", "conv1"};
    return std::find(layers.begin(), layers.end(), name.substr(0, name.find('.'))) - layers.begin();
  }

  /// `weight_of(name, shape)` gives the first values.
  template <class Source>
  static SmallNet of(const Source& weight_of, at::ScalarType dtype) {
    SmallNet net;
    for (const auto& [name, shape] : shapes())
      net.parameters.push_back({.name = name,
                                .tensor = weight_of(name, shape).to(dtype).clone().requires_grad_(),
                                .blocks_after = blocks_after(name),
                                .is_hidden_matrix = shape.size() > 1 && name != "head.weight"});
    return net;
  }

  at::Tensor loss(const at::Tensor& images, const at::Tensor& labels) const {
    const SmallNet& w = *this;
    at::Tensor x = at::relu(
        at::conv2d(images, w["conv1.weight"], w["conv1.bias"], 1, 1).mul(w["norm.weight"].view({1, -1, 1, 1})));
    x = at::relu(at::conv2d(x, w["conv2.weight"], w["conv2.bias"], 2, 1));
    x = at::relu(at::linear(x.flatten(1), w["hidden.weight"], w["hidden.bias"]));
    return at::cross_entropy_loss(at::linear(x, w["head.weight"], w["head.bias"]), labels);
  }

  /// Forward and backward; returns the loss.
  double backward(const at::Tensor& images, const at::Tensor& labels) const {
    optimizer::zero_grad(parameters);
    const at::Tensor value = loss(images.to(parameters.front().tensor.scalar_type()), labels);
    value.backward();
    return value.item<double>();
  }
};

}  // namespace trainctl::testing
