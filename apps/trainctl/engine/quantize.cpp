#include <ATen/core/grad_mode.h>

#include <cstdio>
#include <filesystem>
#include <functional>

#include "card.h"
#include "core/error.h"
#include "core/file.h"
#include "core/terminal.h"
#include "dataset/calibration.h"
#include "engine.h"
#include "model/lora.h"
#include "notice_printer.h"
#include "quantization/measure.h"
#include "runtime/device.h"
#include "task/task.h"
#include "train/loop/device_feed.h"
#include "train/loop/evaluate.h"

namespace trainctl::engine {

using namespace quantization;
namespace {

constexpr std::int64_t kUsualGroup = 128;

/// The levels of training are of as many bits as training rounds to. With fewer, the upper half of them is cut off.
void refuse_other_bits(const QuantizationRecipe& recipe, const QuantizationConfig& config) {
  const std::int64_t trained = trained_activation_bits(config);
  if (recipe.activation_bits == trained) return;
  const std::string bits = std::to_string(recipe.activation_bits);
  throw core::Error("activations of " + std::to_string(trained) + " bits were trained, and " + bits +
                    " with the engine " + std::string(config::name_of(recipe.backend)) +
                    " on this CPU aren't what the network has learned")
      .hint("leave --backend and --activation-bits out, or train with quantization.activation_bits: " + bits);
}

QuantizationRecipe recipe_of(const cli::QuantizeOptions& options, const experiment::Experiment& experiment) {
  const QuantizationConfig& config = experiment.quantization;
  const bool is_recurrent = config::traits_of(experiment.model.network).is_recurrent;
  const bool has_few_rows = is_recurrent && options.method != QuantizationMethod::qat;  // which has training's engine
  const ActivationScheme activations = options.activations.value_or(config.activation_scheme);
  QuantizationRecipe recipe{
      .method = options.method,
      .backend = resolved(options.backend.value_or(config.backend), has_few_rows ? RowsAtOnce::few : RowsAtOnce::many,
                          rounds_activations_ahead(options.method) ? activations : ActivationScheme::affine),
      .activations = activations,
      .skip_modules = config.skip_modules,
      .observer = options.observer.value_or(config.observer),
      .percentile = config.percentile,
      .engine_workarounds = config.engine_workarounds};
  const bool only_weights = recipe.method == QuantizationMethod::weight_only;
  if (!only_weights && (options.bits != 8 || options.group_size >= 0))
    throw core::Error("--bits and --group-size are for --method weight_only, and this is " +
                      std::string(config::name_of(options.method)));
  if (recipe.method == QuantizationMethod::qat && recipe.activations != config.activation_scheme) {
    const std::string scheme(config::name_of(recipe.activations));
    throw core::Error("--activation-scheme " + scheme + " isn't what the network was trained with")
        .hint("leave it out, or train with quantization.activation_scheme: " + scheme);
  }
  recipe.weight_bits = options.bits;
  if (only_weights)
    recipe.group_size = options.group_size >= 0 ? options.group_size : options.bits == 4 ? kUsualGroup : 0;
  check_weights(recipe);
  recipe.activation_bits =
      options.activation_bits.value_or(config.activation_bits.value.value_or(activation_bits(recipe.backend)));
  if (recipe.method == QuantizationMethod::qat) refuse_other_bits(recipe, config);
  recipe.skip_modules.insert(recipe.skip_modules.end(), options.skip_modules.begin(), options.skip_modules.end());
  return recipe;
}

/// Returns the first batches of a loader, on the model's device.
std::vector<dataset::Batch> first_batches(const train::Run& run, dataset::Loader& loader, std::int64_t count) {
  train::DeviceFeed feed(run.device, run.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous,
                         loader.spec().to_normalize);
  std::vector<dataset::Batch> batches;
  loader.seek({});
  while (static_cast<std::int64_t>(batches.size()) < count) {
    std::optional<dataset::Batch> batch = loader.next();
    if (!batch) break;
    batches.push_back(feed(std::move(*batch)));
  }
  return batches;
}

dataset::LoaderOptions calibration_options(const train::Run& run) {
  const std::int64_t cores = std::max<std::int64_t>(1, runtime::available_cores());
  return {.seed = run.seed(),
          .workers = 1,
          .most_workers = cores,
          .trained = std::make_shared<const dataset::SampleSpec>(run.data.train->spec())};
}

NamedMetrics metrics_of(train::Run& run, tracking::Sink& sink) {
  if (!run.data.eval) return {};
  const train::EvaluationResult result = train::evaluate(run, sink);
  run.model->set_training(false);
  return result.metrics;
}

ModelCost cost_of(train::Run& run, const model::ModelInput& input, tracking::Sink& sink,
                  const std::function<void()>& renew = {}) {
  return {.bytes = size_of(*run.model),
          .latency = measure_latency(*run.model, input, renew),
          .metrics = metrics_of(run, sink)};
}

/// Computes the metrics on a few batches.
NamedMetrics metrics_on(train::Run& run, const dataset::SampleSpec& spec, const std::vector<dataset::Batch>& batches) {
  const std::unique_ptr<task::Evaluation> evaluation = run.task->evaluate(*run.model, spec);
  for (const dataset::Batch& batch : batches) evaluation->add(batch);
  return evaluation->metrics();
}

void warn_of_saturation(const QuantizationRecipe& recipe, tracking::Sink& sink) {
  if (rounds_activations_ahead(recipe.method) && saturates_beyond_range(recipe.backend))
    sink.on(tracking::Notice{
        tracking::Level::info,
        "this CPU has no VNNI: convolutions by the engine " + std::string(config::name_of(recipe.backend)) +
            " saturate for activations beyond the calibrated range; --backend qnnpack is exact, and slower"});
}

/// Puts the files that `write` writes in the place of those of the same names. If one of them can't be written, as on a
/// full disk, older weights and their report stay together.
void replace_files(const std::filesystem::path& directory,
                   const std::function<void(const std::filesystem::path&)>& write) {
  const std::filesystem::path beside = directory / ".trainctl-quantize.tmp";
  std::error_code ignored;
  std::filesystem::remove_all(beside, ignored);
  try {
    write(beside);
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::directory_iterator(beside)) files.push_back(file.path());
    for (const auto& file : files) std::filesystem::rename(file, directory / file.filename());
  } catch (...) {
    std::filesystem::remove_all(beside, ignored);
    throw;
  }
  std::filesystem::remove(beside, ignored);
}

void refuse_two_inputs(const model::NetworkConfig& network) {
  if (config::traits_of(network).outputs.value.contains(model::Output::target_tokens))
    throw core::Error("quantize takes networks with one input, and " + std::string(network.kind()) +
                      " has two, a source and a target")
        .hint("trainctl export writes what transformers reads, which bitsandbytes or CTranslate2 quantize");
}

}  // namespace

int run_quantize(const cli::EngineCall& call) {
  const cli::QuantizeOptions& options = call.options<cli::QuantizeOptions>();
  cli::EngineCall on_cpu = call;
  on_cpu.loaded.experiment.device.kind = runtime::DeviceKind::cpu;
  on_cpu.loaded.experiment.amp = {};  // what is rounded to eight bits begins with floats
  refuse_two_inputs(call.loaded.experiment.model.network);
  const QuantizationRecipe recipe = recipe_of(options, call.loaded.experiment);
  const CheckpointedRun loaded = load_checkpointed_run(on_cpu, Samples::eval);
  train::Run& run = *loaded.run;
  const at::NoGradGuard no_grad;
  NoticePrinter printer;
  warn_of_saturation(recipe, printer);
  model::merge_adapters(*run.model);
  dataset::Loader& measured = run.data.eval ? *run.data.eval : *run.data.train;
  const std::vector<dataset::Batch> samples =
      first_batches(run, measured, options.sweep ? options.calibration_batches : 1);
  if (samples.empty()) throw core::Error("the dataset has no samples to measure on");
  const model::ModelInput input = task::model_input(samples.front());

  const bool was_trained = run.quantized_training.has_value();
  if (recipe.method == QuantizationMethod::qat && !was_trained)
    throw core::Error("--method qat is for what was trained with quantization.kind: qat").hint("--method static");
  TrainedLevelsByLayer trained = QuantizedTraining::take(*run.model);
  run.quantized_training.reset();
  if (recipe.method != QuantizationMethod::qat) trained.clear();

  QuantizationReport report{.before = cost_of(run, input, printer), .after = {}, .blocks = {}, .layers = {}};
  if (options.sweep) {
    report.sweep_before = metrics_on(run, measured.spec(), samples);
    for (const dataset::Batch& batch : samples) report.sweep_samples += batch.size();
  }
  Quantization quantization(*run.model, recipe, input.values.narrow(0, 0, 1), std::move(trained));
  if (quantization.wants_calibration()) {
    quantization.watch();
    const auto calibration = dataset::build_calibration(run.experiment.dataset, calibration_options(run));
    for (const dataset::Batch& batch : first_batches(run, *calibration, options.calibration_batches))
      run.model->forward(task::model_input(batch));
  }
  quantization.convert();
  report.blocks = block_errors(quantization, *run.model, input);
  if (options.sweep)
    report.layers = sweep(quantization, *run.model, input, [&] { return metrics_on(run, measured.spec(), samples); });
  quantization.finish();
  report.after = cost_of(run, input, printer, [&] { quantization.prepare(); });
  const std::string json = as_json(report, quantization);
  std::map<std::string, std::string> notes = exporters::notes_of(
      card_of(loaded, call, exporters::ArtefactFormat::quantized, report.after.metrics, &quantization));
  notes["report.json"] = json + "\n";
  notes["report.html"] = as_page(report, quantization, run.experiment.name);
  replace_files(options.output, [&](const std::filesystem::path& directory) {
    save_quantized(*run.model, quantization, directory);
    for (const auto& [name, text] : notes) core::write_file_atomically(directory / name, text);
  });
  if (call.json)
    core::print(stdout, "%s\n", json.c_str());
  else
    core::print(stdout, "%s\n%s\nwritten to %s\n", title(loaded).c_str(), as_table(report, quantization).c_str(),
                options.output.c_str());
  return 0;
}

}  // namespace trainctl::engine
