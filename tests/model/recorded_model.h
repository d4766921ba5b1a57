// A model of ours against what a script of tests/reference recorded (recorded_model.py): weights by the same names,
// then output, loss, every gradient and twenty steps of AdamW; and the other way, our weights in that script's model.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/model_support.h"
#include "support/reference.h"

namespace trainctl::testing {

/// All of the recorded weights, and none else.
inline void load_recorded(model::Model& model, const TensorMap& recorded) {
  const c10::NoGradGuard no_grad;
  std::size_t loaded = 0;
  model.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    INFO(name);
    REQUIRE(recorded.contains("weights/" + name));
    REQUIRE(recorded.at("weights/" + name).sizes() == decl.value.sizes());
    decl.value.copy_(recorded.at("weights/" + name));
    ++loaded;
  });
  std::size_t there = 0;
  for (const auto& [name, tensor] : recorded) there += name.starts_with("weights/") ? 1 : 0;
  CHECK(loaded == there);
}

inline model::ModelInput recorded_input(const TensorMap& recorded) {
  const auto find = [&](const std::string& name) {
    const auto found = recorded.find(name);
    return found == recorded.end() ? at::Tensor() : found->second;
  };
  model::ModelInput input{.values = find(recorded.contains("images") ? "images" : "ids"),
                          .token_types = find("token_types"),
                          .decoder_values = find("decoder_ids")};
  if (recorded.contains("key_mask")) input.key_mask = find("key_mask").to(at::kBool);
  return input;
}

/// The sum of a batch's losses, with gradients.
using LossSum = std::function<at::Tensor(model::Model&, const model::ModelInput&, const at::Tensor& labels)>;

/// From the output as it is.
inline at::Tensor plain_loss(model::Model& model, const model::ModelInput& input, const at::Tensor& labels) {
  const at::Tensor output = model.forward(input);
  if (labels.is_floating_point()) return at::mse_loss(output.flatten(), labels, at::Reduction::Sum);
  return at::cross_entropy_loss(output.flatten(0, -2), labels.flatten(), {}, at::Reduction::Sum);
}

inline void clear_gradients(model::Model& model) {
  for (model::NamedTensor& named : named_parameters(model)) named.tensor.mutable_grad() = at::Tensor();
}

/// A softmax doesn't change when all its inputs rise: the gradient of a key's bias is rounding alone, and is measured
/// by that of the query's.
inline std::string measured_by(const std::string& name) {
  const std::string key = "key.bias";
  return name.ends_with(key) ? name.substr(0, name.size() - key.size()) + "query.bias" : name;
}

/// The magnitude by which a gradient's difference is measured: its own largest. A shift before a convolution and the
/// next BatchNorm changes nothing: the gradient of such a bias is rounding alone, and is measured by its weight's.
inline double scale_of_gradient(const std::string& name, const TensorMap& recorded) {
  constexpr double kRounding = 1e-9;
  const double own = largest(recorded.at("gradients/" + measured_by(name)));
  const std::string bias = ".bias";
  if (!name.ends_with(bias)) return own;
  const auto weight = recorded.find("gradients/" + name.substr(0, name.size() - bias.size()) + ".weight");
  if (weight == recorded.end() || own > kRounding * largest(weight->second)) return own;
  return largest(weight->second);
}

/// The largest difference of a gradient, each relative to its tensor's largest magnitude.
inline double check_gradients(model::Model& model, const TensorMap& recorded) {
  double worst = 0;
  for (model::NamedTensor& named : named_parameters(model)) {
    INFO(named.name);
    REQUIRE(named.tensor.grad().defined());
    const double scale = scale_of_gradient(named.name, recorded);
    const double off = largest(named.tensor.grad().sub(recorded.at("gradients/" + named.name))) / scale;
    worst = std::max(worst, off);
    CHECK(off <= 1e-5);
  }
  return worst;
}

/// AdamW as recorded: 1e-3, decay 0.01 of everything.
class TwentySteps {
 public:
  explicit TwentySteps(model::Model& model) {
    for (model::NamedTensor& named : named_parameters(model)) {
      parameters_.push_back(named.tensor);
      first_.push_back(at::zeros_like(named.tensor));
      second_.push_back(at::zeros_like(named.tensor));
      steps_.push_back(at::zeros({}));
    }
  }
  void step() {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    for (at::Tensor& count : steps_) count.add_(1);
    at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false);
  }

 private:
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
};

/// The largest relative difference of a loss.
inline double check_twenty_steps(model::Model& model, const TensorMap& recorded, const LossSum& loss_sum) {
  const model::ModelInput input = recorded_input(recorded);
  const at::Tensor& labels = recorded.at("labels");
  const double count =
      labels.is_floating_point() ? static_cast<double>(labels.numel()) : labels.ge(0).sum().item<double>();
  TwentySteps optimizer(model);
  double worst = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    clear_gradients(model);
    const at::Tensor loss = loss_sum(model, input, labels).div(count);
    worst = std::max(worst, std::abs(loss.item<double>() / recorded.at("losses")[i].item<double>() - 1));
    loss.backward();
    optimizer.step();
  }
  CHECK(worst <= 1e-4);
  return worst;
}

/// The largest difference, relative to the output's largest magnitude.
inline double check_output(model::Model& model, const model::ModelInput& input, const TensorMap& recorded) {
  const c10::NoGradGuard no_grad;
  const at::Tensor output = model.forward(input);
  at::Tensor counts = at::zeros_like(output).add_(1);
  // What comes out at padding is nobody's business.
  if (output.dim() == 3 && input.key_mask.defined() && !input.decoder_values.defined())
    counts.mul_(input.key_mask.unsqueeze(2));
  const double off = difference(output.mul(counts), recorded.at("output").reshape(output.sizes()).mul(counts));
  CHECK(off <= 1e-5);
  return off;
}

/// The largest relative differences.
struct Differences {
  double output;
  double gradients;
  double steps;  // of the losses of twenty steps
};

/// `model` is materialised and has no dropout. Each way to the loss gives the recorded loss and gradients, the last one
/// the recorded steps.
inline Differences check_against_recorded(model::Model& model, const TensorMap& recorded,
                                          const std::vector<LossSum>& losses) {
  load_recorded(model, recorded);
  const model::ModelInput input = recorded_input(recorded);
  Differences off{.output = check_output(model, input, recorded), .gradients = 0, .steps = 0};
  for (const LossSum& loss_sum : losses) {
    clear_gradients(model);
    const at::Tensor loss = loss_sum(model, input, recorded.at("labels"));
    CHECK(difference(loss.detach(), recorded.at("loss")) <= 1e-5);
    loss.backward();
    off.gradients = std::max(off.gradients, check_gradients(model, recorded));
  }
  off.steps = check_twenty_steps(model, recorded, losses.back());
  std::fprintf(stderr, "largest relative differences: output %.2e, gradients %.2e, losses of 20 steps %.2e\n",
               off.output, off.gradients, off.steps);
  return off;
}

/// Float, double and int64 tensors.
inline void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor values = tensor.contiguous();
    const std::size_t begin = data.size();
    data.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
    header[name] = {{"dtype", values.scalar_type() == at::kLong     ? "I64"
                              : values.scalar_type() == at::kDouble ? "F64"
                                                                    : "F32"},
                    {"shape", values.sizes().vec()},
                    {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof length) << text << data;
}

enum class Precision { single, double_ };

struct RecordedCase {
  std::string part;
  model::NetworkConfig network;
  model::InputSpec input;
  Precision precision = Precision::single;  // of the recorded tensors
};

inline std::unique_ptr<model::Model> model_of(const RecordedCase& one, std::uint64_t seed) {
  std::unique_ptr<model::Model> model = ready_model(one.network, one.input, seed);
  if (one.precision == Precision::double_) make_double(*model);
  return model;
}

inline TensorMap part_of(const TensorMap& all, const std::string& part) {
  TensorMap tensors;
  for (const auto& [name, tensor] : all)
    if (name.starts_with(part + "/")) tensors[name.substr(part.size() + 1)] = tensor;
  return tensors;
}

/// What the script checks: weights of ours, and the output that they give for the recorded inputs.
inline void add_ours(const RecordedCase& one, const TensorMap& recorded, TensorMap& ours) {
  const auto model = model_of(one, /*seed=*/3);
  for (const std::string name : {"images", "ids", "token_types", "key_mask", "decoder_ids"})
    if (recorded.contains(name)) ours[one.part + "/" + name] = recorded.at(name);
  model->visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    ours[one.part + "/weights/" + name] = decl.value.detach();
  });
  model->set_training(false);
  const c10::NoGradGuard no_grad;
  ours[one.part + "/output"] = model->forward(recorded_input(recorded));
}

/// Recorded weights in our models, and ours in the script's.
inline void check_both_ways(const std::string& script, const std::vector<RecordedCase>& cases,
                            const std::vector<LossSum>& losses = {plain_loss}) {
  const auto all = reference(script, "record");
  TensorMap ours;
  for (const RecordedCase& one : cases) {
    INFO(one.part);
    const TensorMap recorded = part_of(all, one.part);
    std::fprintf(stderr, "%s: ", one.part.c_str());
    check_against_recorded(*model_of(one, /*seed=*/1), recorded, losses);
    add_ours(one, recorded, ours);
  }
  const TemporaryDirectory directory;
  write_safetensors(directory / "ours.safetensors", ours);
  run_reference(script, {"check", (directory / "ours.safetensors").string()});
}

}  // namespace trainctl::testing
