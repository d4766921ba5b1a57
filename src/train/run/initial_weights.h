// `model.init_from`: published weights, or those of another run, by their names.
#pragma once

#include <filesystem>
#include <vector>

#include "dataset/dataset.h"
#include "model/model.h"
#include "pretrained/class_order.h"
#include "tracking/event.h"

namespace trainctl::train {

/// Returns how many sequences of equal length a sample has. A row of preferences has at least a pair of conversations,
/// each of which may have half of the row's tokens.
std::int64_t sequences_per_sample(const dataset::SampleSpec& samples);

/// Returns what a network must know of its samples. A value to predict is one output.
model::InputSpec input_spec(const dataset::SampleSpec& samples);

/// What the data say of the network whose weights are read.
struct WeightsData {
  model::InputSpec input;
  std::vector<std::string> class_names = {};  // empty: they have none, and nothing is compared
  pretrained::ClassesBy classes_by = pretrained::ClassesBy::user;
};

/// Copies the tensors of config.init_from (which is set) into the parameters and buffers of the same name, whatever
/// their float type. What doesn't fit is decided by config.init_policy; all of it is listed in one Error. Classes in
/// another order are an Error, too. A notice says which parameters keep their first values, and which tensors weren't
/// used.
void load_initial_weights(model::Model& model, const model::ModelConfig& config, const WeightsData& data,
                          std::vector<tracking::Notice>& notices);

/// Throws the Error that load_initial_weights would, and copies nothing: for a model without values.
void check_initial_weights(model::Model& model, const model::ModelConfig& config, const WeightsData& data);

/// load_initial_weights for a model whose parameters have no memory yet: they are taken from the file when they get
/// some, or else from `otherwise`. Buffers are copied at once.
model::FirstValues initial_weights(model::Model& model, const model::ModelConfig& config, const WeightsData& data,
                                   model::FirstValues otherwise, std::vector<tracking::Notice>& notices);

}  // namespace trainctl::train
