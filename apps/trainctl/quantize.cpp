#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/error.h"
#include "trained_model.h"
#include "word_option.h"

namespace trainctl::cli {

using quantization::QuantizationMethod;

std::string_view meaning_of(QuantizationMethod method) {
  switch (method) {
    case QuantizationMethod::dynamic:
      return "activations rounded batch by batch";
    case QuantizationMethod::static_:
      return "activations rounded to levels found on training data";
    case QuantizationMethod::weight_only:
      return "activations stay floats";
    case QuantizationMethod::qat:
      return "static, after training with quantization.kind: qat";
  }
  throw std::logic_error("unknown method");
}

Action declare_quantize(CLI::App& app) {
  struct Options {
    TrainedModelOptions trained;
    QuantizeOptions quantize;
  };
  const auto options = std::make_shared<Options>();
  QuantizeOptions& quantize = options->quantize;
  add_trained_model_options(app, options->trained,
                            "A run, checkpoints or step directory, or one in Hugging Face layout");
  add_word_option<QuantizationMethod>(app, "--method", quantize.method, help_of_words<QuantizationMethod>())
      ->default_str("dynamic");
  app.add_option("--output", quantize.output, "Directory to write (default RUN/quantized)")->type_name("DIR");
  add_word_option<quantization::QuantizationBackend>(app, "--backend", quantize.backend,
                                                     "Engine (default quantization.backend)");
  add_word_option<quantization::ActivationScheme>(
      app, "--activation-scheme", quantize.activations,
      "Levels of activations; TensorRT needs symmetric (default quantization.activation_scheme)");
  add_word_option<quantization::RangeFrom>(app, "--observer", quantize.observer,
                                           "Method that finds ranges (default quantization.observer)");
  app.add_option("--activation-bits", quantize.activation_bits, "7 or 8 (default quantization.activation_bits)")
      ->check(CLI::Range(7, 8));
  app.add_option("--calibration-batches", quantize.calibration_batches, "Training batches to observe")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--bits", quantize.bits, "Bits of weights, with --method weight_only")
      ->check(CLI::IsMember({8, 4}))
      ->capture_default_str();
  app.add_option("--group-size", quantize.group_size,
                 "Inputs that share a scale, with --method weight_only; 0: a whole row (default 0, with 4 bits 128)")
      ->check(CLI::IsMember(std::vector(std::begin(quantization::kGroupSizes), std::end(quantization::kGroupSizes))));
  app.add_option("--skip-modules", quantize.skip_modules, "Layers to skip, in addition to quantization.skip_modules")
      ->delimiter(',')
      ->type_name("PATTERN");
  app.add_flag("--sweep", quantize.sweep, "Quantize each layer alone; report the error at the output and the metric");
  return [options] {
    options->quantize.output = output_path(options->trained, options->quantize.output, "quantized");
    return call_engine(engine_call(options->quantize, options->trained));
  };
}

}  // namespace trainctl::cli
