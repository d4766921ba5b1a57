#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

/// What rounding in training can't go with.
void check_training_for_eight_bits(Checked& c) {
  const quantization::QuantizationConfig& quantization = c.experiment.quantization;
  const auto* qat = quantization.training.get_if<quantization::QatConfig>();
  if (qat == nullptr) return;
  if (c.experiment.amp.mode != amp::Precision::fp32)
    c.report({"quantization.kind", "amp.mode"},
             "qat rounds fp32 values, and amp.mode is " + std::string(config::name_of(c.experiment.amp.mode)));
  if (c.experiment.model.lora)
    c.report({"quantization.kind", "model.lora"}, "qat trains all weights, and model.lora freezes them");
  if (!c.experiment.model.freeze.empty())
    c.report({"quantization.kind", "model.freeze"}, "qat trains all weights, and model.freeze freezes some");
  const model::NetworkConfig& network = c.experiment.model.network;
  if (config::traits_of(network).is_recurrent)
    c.report({"quantization.kind", "model.kind"}, "qat rounds what goes into products and convolutions, and " +
                                                      std::string(network.kind()) +
                                                      " has its own; quantize it dynamically");
  if (config::traits_of(network).outputs.value.contains(model::Output::target_tokens))
    c.report({"quantization.kind", "model.kind"}, "qat takes networks with one input, and " +
                                                      std::string(network.kind()) +
                                                      " has two, a source and a target; expected none");
  if (qat->scale == quantization::ScaleSource::learned && qat->freeze_observers_step &&
      *qat->freeze_observers_step >= qat->start_step)
    c.report({"quantization.freeze_observers_step", "quantization.scale"},
             "changes nothing: learned steps leave the observers at start_step");
}

void check_levels(Checked& c) {
  const quantization::QuantizationConfig& quantization = c.experiment.quantization;
  if (quantization.activation_scheme == quantization::ActivationScheme::symmetric &&
      quantization.activation_bits.value == 7)
    c.report({"quantization.activation_bits", "quantization.activation_scheme"}, "symmetric activations have 8 bits");
}

}  // namespace

void check_quantization(Checked& c) {
  check_training_for_eight_bits(c);
  check_levels(c);
}

}  // namespace trainctl::experiment
