#include "train/run/frozen_network.h"

#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "train/run/initial_weights.h"
#include "train/run/stored_logits.h"

namespace trainctl::train {
namespace {

/// Returns the network with the weights of its init_from, as `key` of the experiment gives it.
std::unique_ptr<model::Model> load_frozen(const model::ModelConfig& config, const std::string& key,
                                          const dataset::SampleSpec& spec, const FrozenPlace& place) {
  const WeightsData data{.input = input_spec(spec), .class_names = spec.class_names};
  std::unique_ptr<model::Model> network = model::build(config, data.input);
  const bool reads_files = place.dry_run == nullptr;
  if (!reads_files && place.dry_run->checks_initial_weights) check_initial_weights(*network, config, data);
  model::materialize(*network, place.device, place.seed, place.channels_last && network->prefers_channels_last());
  if (!reads_files) return network;
  try {
    load_initial_weights(*network, config, data, place.notices);
  } catch (core::Error& error) {
    error.during("loading " + key);
    throw;
  }
  return network;
}

/// Tells that dropout makes the network differ from its reference where training has not.
void tell_of_dropout(const model::NetworkConfig& network, std::vector<tracking::Notice>& notices) {
  std::vector<std::string> keys;
  network.visit([&](const auto& config) {
    if constexpr (requires { config.dropout > 0; })
      if (config.dropout > 0) keys.emplace_back("model.dropout");
    if constexpr (requires { config.attention_dropout > 0; })
      if (config.attention_dropout > 0) keys.emplace_back("model.attention_dropout");
  });
  if (!keys.empty())
    notices.push_back(
        {tracking::Level::warning,
         "dpo trains with dropout, and its reference has none, so that they differ from the first step; " +
             core::list_words(keys) + " should be 0"});
}

/// Returns the sum of a tensor's elements, whose bits are read as integers: exact on each device, in any order.
std::string sum_of_bits(const at::Tensor& tensor) {
  const at::ScalarType integers[] = {at::kByte, at::kShort, at::kInt, at::kLong};
  for (const at::ScalarType type : integers)
    if (static_cast<std::int64_t>(c10::elementSize(type)) == tensor.element_size())
      return std::to_string(tensor.detach().view(type).sum(at::kLong).item<std::int64_t>());
  return "";
}

std::string checksum_of_weights(model::Model& network) {
  std::string sums;
  for (const model::NamedTensor& named : model::named_parameters(network)) sums += sum_of_bits(named.tensor) + " ";
  for (const model::NamedTensor& named : model::named_buffers(network)) sums += sum_of_bits(named.tensor) + " ";
  return core::checksum(sums);
}

/// Returns the sum over some of the rows: there may be more than are read in a moment.
std::string checksum_of_logits(const at::Tensor& logits) {
  constexpr std::int64_t kRows = 1024;
  const std::int64_t every = std::max<std::int64_t>(1, logits.size(0) / kRows);
  return core::checksum(sum_of_bits(logits.slice(0, 0, logits.size(0), every)));
}

/// Returns the logits of a file, as far as a dry run reads it.
at::Tensor load_logits(const std::string& path, const dataset::Datasets& data, const FrozenPlace& place) {
  if (place.dry_run == nullptr) return read_logits(path, data);
  return at::zeros({1, data.train->spec().num_classes});  // the file is mapped, so that its size takes no memory
}

task::Companions load_teacher(const task::DistillationConfig& config, model::Model& student,
                              const dataset::Datasets& data, const FrozenPlace& place) {
  if (!config.teacher) {
    const at::Tensor logits = load_logits(*config.logits, data, place);
    return {.teacher = std::make_shared<const task::Teacher>(logits, config),
            .checksums = {{"distillation.logits", checksum_of_logits(logits)}}};
  }
  const dataset::SampleSpec& spec = data.train->spec();
  const std::string& path = config.teacher->init_from;
  std::unique_ptr<model::Model> network =
      load_frozen({.network = config.teacher->network, .init_from = path, .init_policy = model::InitPolicy::strict},
                  "distillation.teacher", spec, place);
  const model::VocabularyHead* const theirs = network->vocabulary_head();
  const model::VocabularyHead* const ours = student.vocabulary_head();
  if (theirs != nullptr && ours != nullptr && theirs->vocabulary_size() != ours->vocabulary_size())
    throw core::Error("distillation.teacher has a vocabulary of " + core::format_count(theirs->vocabulary_size()) +
                      " tokens, and the trained network one of " + core::format_count(ours->vocabulary_size()))
        .hint("choose networks for the same tokenizer, and model.vocab_size as the teacher has it");
  const std::string checksum = place.dry_run == nullptr ? checksum_of_weights(*network) : "";
  return {.teacher = std::make_shared<const task::Teacher>(std::move(network), config),
          .checksums = {{"distillation.teacher.init_from", checksum}}};
}

/// Returns the reference in evaluation mode; null if no weights are named.
std::shared_ptr<model::Model> load_reference(const std::optional<std::string>& named, const model::ModelConfig& model,
                                             const dataset::SampleSpec& spec, const FrozenPlace& place) {
  const std::optional<std::string>& path = named ? named : model.init_from;
  if (!path) return nullptr;
  std::shared_ptr<model::Model> network =
      load_frozen({.network = model.network, .init_from = path, .init_policy = model.init_policy},
                  "the reference of dpo", spec, place);
  network->set_training(false);
  if (place.dry_run == nullptr) tell_of_dropout(model.network, place.notices);
  return network;
}

}  // namespace

task::Companions load_companions(const experiment::Experiment& experiment, model::Model& student,
                                 const dataset::Datasets& data, const FrozenPlace& place) {
  task::Companions companions;
  if (experiment.distillation) companions = load_teacher(*experiment.distillation, student, data, place);
  experiment.task.visit([&](const auto& task) {
    if constexpr (requires { task.reference; }) {
      companions.reference = load_reference(task.reference, experiment.model, data.train->spec(), place);
      if (companions.reference && place.dry_run == nullptr)
        companions.checksums[task.reference ? "task.reference" : "model.init_from"] =
            checksum_of_weights(*companions.reference);
    }
  });
  return companions;
}

}  // namespace trainctl::train
