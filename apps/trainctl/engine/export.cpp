#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "card.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "dataset/chat_prompt.h"
#include "engine.h"
#include "experiment/config_hash.h"
#include "exporters/export_graph.h"
#include "exporters/graph_model.h"
#include "exporters/package/serving.h"
#include "exporters/side_files.h"
#include "exporters/tensorrt.h"
#include "gguf.h"
#include "model/lora.h"
#include "notice_printer.h"
#include "prediction_inputs.h"
#include "pretrained/adapter_file.h"
#include "pretrained/export_adapters.h"
#include "pretrained/export_weights.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/tokenizer_files.h"
#include "task/task.h"
#include "train/loop/device_feed.h"
#include "train/loop/evaluate.h"
#include "train/run/initial_weights.h"

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;
using cli::ExportFormat;

/// Returns the layout of Hugging Face or timm; for `auto`, ONNX if neither has the network.
exporters::ArtefactFormat published_format(const cli::ExportOptions& options, const model::NetworkConfig& network) {
  const model::ModelTraits& traits = config::traits_of(network);
  const bool is_in_transformers = !traits.transformers_type.value.empty();
  if (options.format == ExportFormat::auto_ && !is_in_transformers && !traits.is_in_timm)
    return exporters::ArtefactFormat::onnx;
  const bool timm = options.naming == "timm" || (options.naming == "auto" && traits.is_in_timm && !is_in_transformers);
  return timm ? exporters::ArtefactFormat::timm : exporters::ArtefactFormat::hugging_face;
}

exporters::ArtefactFormat format_of(const cli::ExportOptions& options, const model::NetworkConfig& network) {
  switch (options.format) {
    case ExportFormat::auto_:
    case ExportFormat::hf:
      return published_format(options, network);
    case ExportFormat::onnx:
    case ExportFormat::triton:
      return exporters::ArtefactFormat::onnx;
    case ExportFormat::mar:
    case ExportFormat::torchscript:
      return options.mobile ? exporters::ArtefactFormat::torchscript_mobile : exporters::ArtefactFormat::torchscript;
    case ExportFormat::safetensors:
    case ExportFormat::gguf:
      return exporters::ArtefactFormat::safetensors;
    case ExportFormat::peft:
      return exporters::ArtefactFormat::peft;
  }
  throw std::logic_error("unknown format");
}

/// Whether a server loads the output, which has its description in it.
bool is_served(ExportFormat format) {
  return format == ExportFormat::mar || format == ExportFormat::triton;
}

/// Returns the graph's file name in a directory; null if the format has no graph.
const char* graph_file_name(exporters::ArtefactFormat format) {
  switch (format) {
    case exporters::ArtefactFormat::torchscript:
      return "model.pt";
    case exporters::ArtefactFormat::torchscript_mobile:
      return "model.ptl";
    case exporters::ArtefactFormat::onnx:
      return "model.onnx";
    case exporters::ArtefactFormat::safetensors:
    case exporters::ArtefactFormat::quantized:
    case exporters::ArtefactFormat::hugging_face:
    case exporters::ArtefactFormat::timm:
    case exporters::ArtefactFormat::peft:
      return nullptr;
  }
  throw std::logic_error("unknown format");
}

pretrained::ExportLayout layout_of(exporters::ArtefactFormat format) {
  if (format == exporters::ArtefactFormat::timm) return pretrained::ExportLayout::timm;
  return format == exporters::ArtefactFormat::safetensors ? pretrained::ExportLayout::safetensors
                                                          : pretrained::ExportLayout::hugging_face;
}

/// Whether the call would evaluate what the run evaluated at a step. This is the run's own checkpoint, not an average,
/// on the whole evaluation set, under the same config.
bool is_own_evaluation(const CheckpointedRun& loaded, const cli::EngineCall& call, const fs::path& run) {
  return fs::path(loaded.checkpoint).filename().string().starts_with("step_") &&
         !call.loaded.experiment.train.eval_steps && experiment::is_run_of(run, call.loaded.flat);
}

/// Returns the metrics that the run recorded for this checkpoint. Without a record they are computed, unless `verify`
/// is off.
task::Metrics metrics_of(const CheckpointedRun& loaded, const cli::EngineCall& call) {
  const fs::path run = fs::path(loaded.checkpoint).parent_path().parent_path();
  const fs::path known = run / "evaluation.json";
  if (is_own_evaluation(loaded, call, run) && fs::is_regular_file(known)) {
    const auto json = core::parse_json_or_discard<nlohmann::ordered_json>(core::read_file(known));
    task::Metrics metrics;
    const auto recorded = core::object_member(json, "metrics");
    for (const auto& [name, value] : recorded.items())
      if (value.is_number()) metrics.emplace_back(name, value.get<double>());
    if (core::number_member(json, "step") == static_cast<double>(loaded.run->step) && !metrics.empty()) return metrics;
  }
  const cli::ExportOptions& options = call.options<cli::ExportOptions>();
  if (!options.verify || !loaded.run->data.eval) return {};
  NoticePrinter printer;
  task::Metrics metrics = train::evaluate(*loaded.run, printer).metrics;
  loaded.run->model->set_training(false);
  return metrics;
}

/// Takes the tokenizer's special tokens, the one with which a decoder begins, and the one that ends an answer.
void take_special_tokens(const cli::EngineCall& call, exporters::ModelCard& card) {
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = open_tokenizer(call);
  card.facts.roles = tokenizer->roles();
  const dataset::SourceConfig& source = call.loaded.experiment.dataset.source;
  if (const auto chat = dataset::trained_chat(source, *tokenizer)) card.facts.end_of_answer = chat->end;
  if (const auto* pairs = source.get_if<dataset::TextSeq2SeqConfig>())
    card.facts.decoder_start = pairs->start_token(card.facts.roles.pad);
}

/// Adds to the card what a program needs to run the graph: signature, tokens.
void describe_graph(exporters::ModelCard& card, const cli::EngineCall& call, const train::Run& run) {
  const dataset::DatasetConfig& dataset = run.experiment.dataset;
  card.signature = exporters::signature_of(run.experiment.model.network, card.facts);
  const std::optional<std::string> tokenizer = card.facts.vocab_size > 0 ? tokenizer_path(call) : std::nullopt;
  if (!tokenizer) return;
  take_special_tokens(call, card);
  card.bytes_are_tokens = *tokenizer == "bytes";
  card.encoding = encoding_of(dataset, run.experiment.task);
}

model::ModelInput row_of(const model::ModelInput& batch, std::int64_t row) {
  const auto of = [row](const at::Tensor& rows) { return rows.defined() ? rows.narrow(0, row, 1) : rows; };
  return {.values = of(batch.values),
          .token_types = of(batch.token_types),
          .key_mask = of(batch.key_mask),
          .decoder_values = of(batch.decoder_values)};
}

/// Returns real samples: a batch of the evaluation set (else of the training set), and its first sample alone.
std::vector<model::ModelInput> samples_of(train::Run& run) {
  dataset::Loader& loader = run.data.eval ? *run.data.eval : *run.data.train;
  loader.seek({});
  train::DeviceFeed feed(run.device, at::MemoryFormat::Contiguous, loader.spec().to_normalize);
  const auto batch = loader.next();
  core::ensure(batch.has_value(), "a loader has a batch");
  model::ModelInput whole = task::model_input(feed(*batch));
  whole.documents = at::Tensor();  // what is exported knows one document a row
  return {whole, row_of(whole, 0)};
}

/// Loads the written files as another program would.
std::unique_ptr<model::Model> load_written(const CheckpointedRun& loaded, const exporters::ModelCard& card,
                                           const fs::path& path) {
  if (graph_file_name(card.format) != nullptr) return exporters::open_graph(path, card.signature);
  const model::InputSpec input = train::input_spec(loaded.run->data.train->spec());
  model::ModelConfig config = loaded.run->experiment.model;
  if (card.format == exporters::ArtefactFormat::peft) {
    config = pretrained::with_adapters_of(config, path);
  } else {
    config.lora = std::nullopt;
    config.init_from = path.string();
    config.init_policy = model::InitPolicy::strict;
  }
  std::unique_ptr<model::Model> model = model::build(config, input);
  model::materialize(*model, at::kCPU, /*seed=*/0, /*channels_last=*/false);
  std::vector<tracking::Notice> notices;
  train::load_initial_weights(*model, config, {input}, notices);
  model->set_training(false);
  return model;
}

constexpr double kMostDifference = 1e-3;  // of the largest output: beyond it something is wrong, not rounded otherwise
constexpr double kMostSteps = 8;  // of a quantized output: values between two levels go to either, layer after layer
constexpr double kMostRounded = 2e-2;    // of the largest output, where rounding depends on the batch
constexpr double kMostBatchEffects = 2;  // or this often what the batch around a sample changes

/// Returns the step between two levels of the quantized output; 0 if the output has no levels.
double step_of_output(model::Model& model) {
  double step = 0;
  model.visit_buffers([&](const std::string& name, model::TensorDecl& decl) {
    if (name.ends_with("output_scale")) step = decl.value.item<double>();  // layers are listed in their order
  });
  return step;
}

/// Returns by how much the model's outputs for a sample alone differ at most from those for it within the batch.
/// Dynamic activations have the levels of their batch's range: in another batch all are rounded anew.
double effect_of_batch(model::Model& model, const model::ModelInput& batch) {
  const at::NoGradGuard no_grad;
  const at::Tensor within = model.forward(batch).to(at::kFloat);
  double effect = 0;
  for (std::int64_t row = 0; row < within.size(0); ++row) {
    const at::Tensor alone = model.forward(row_of(batch, row)).to(at::kFloat);
    effect = std::max(effect, alone.sub(within.narrow(0, row, 1)).abs().max().item<double>());
  }
  return effect;
}

/// Returns the largest difference that rounding explains.
double most_difference(const CheckpointedRun& loaded, const std::vector<model::ModelInput>& samples,
                       const exporters::LargestDifference& found) {
  const double largest = found.relative > 0 ? found.absolute / found.relative : 0;
  if (loaded.quantization == nullptr) return kMostDifference * largest;
  if (const double step = step_of_output(*loaded.run->model); step > 0) return kMostSteps * step;
  const double rounded = kMostRounded * largest;
  const bool is_dynamic = loaded.quantization->recipe().method == quantization::QuantizationMethod::dynamic;
  if (!is_dynamic || found.absolute <= rounded) return rounded;  // the batch's effect takes a forward pass for each row
  return std::max(rounded, kMostBatchEffects * effect_of_batch(*loaded.run->model, samples.front()));
}

exporters::LargestDifference verify(const CheckpointedRun& loaded, const exporters::ModelCard& card,
                                    const fs::path& path) {
  const std::unique_ptr<model::Model> written = load_written(loaded, card, path);
  const std::vector<model::ModelInput> samples = samples_of(*loaded.run);
  const exporters::LargestDifference difference = exporters::compare(*loaded.run->model, *written, samples);
  if (!(difference.absolute <= most_difference(loaded, samples, difference))) {
    char text[64];
    std::snprintf(text, sizeof text, "%.3g (%.3g of the largest output)", difference.absolute, difference.relative);
    throw core::Error(path.string() + " doesn't compute what the model computes: outputs differ by up to " + text)
        .hint("don't use the file; another format may do");
  }
  return difference;
}

struct Written {
  fs::path model;               // the file of a graph, or a directory
  std::vector<fs::path> files;  // all of them
};

/// Writes the graph to `output`, or into it if it is a directory. A path without an extension is a directory.
Written write_graph(const CheckpointedRun& loaded, const cli::EngineCall& call, const exporters::ModelCard& card) {
  const fs::path output = call.options<cli::ExportOptions>().output;
  const bool is_directory = fs::is_directory(output) || output.extension().empty();
  std::error_code failed;
  if (is_directory) fs::create_directories(output, failed);
  if (failed) throw core::Error("cannot make the directory " + output.string() + ": " + failed.message());
  Written written{.model = is_directory ? output / graph_file_name(card.format) : output, .files = {}};
  loaded.run->model->set_segments({});
  written.files = exporters::export_graph(*loaded.run->model, card, written.model);
  return written;
}

/// Whether programs load tokenizers from the directory of an export with this format.
bool is_beside_tokenizer(const cli::EngineCall& call, exporters::ArtefactFormat format) {
  if (graph_file_name(format) != nullptr) return !is_served(call.options<cli::ExportOptions>().format);
  return format == exporters::ArtefactFormat::hugging_face || format == exporters::ArtefactFormat::peft;
}

/// Returns the tokenizer whose files go along; sets the card's special tokens.
std::optional<fs::path> tokenizer_beside(const cli::EngineCall& call, exporters::ModelCard& card) {
  const std::optional<std::string> path = tokenizer_path(call);
  if (card.facts.vocab_size == 0 || !is_beside_tokenizer(call, card.format) || !path) return std::nullopt;
  const bool is_graph = graph_file_name(card.format) != nullptr;  // which describe_graph() describes
  if (!is_graph) take_special_tokens(call, card);
  if (*path != "bytes") return *path;
  if (!is_graph) core::log().info("no tokenizer files are written: the byte tokenizer has none");
  return std::nullopt;
}

/// Returns the chat templates that go in the place of the tokenizer's; none if these stay.
chat_template::NamedTemplates replaced_templates(const cli::EngineCall& call) {
  const auto chat = dataset::trained_chat(call.loaded.experiment.dataset.source, *open_tokenizer(call));
  return !chat || (chat->is_of_tokenizer && call.tokenizer.empty()) ? chat_template::NamedTemplates{} : chat->templates;
}

/// Puts the chat templates of training in the place of those that the tokenizer's copied files have.
void write_chat_templates(const cli::EngineCall& call, const fs::path& directory, std::vector<fs::path>& files) {
  const chat_template::NamedTemplates templates = replaced_templates(call);
  if (templates.empty()) return;
  for (const fs::path& file : pretrained::write_chat_templates(templates, directory))
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  std::erase_if(files, [](const fs::path& file) { return !fs::exists(file); });
}

/// Whether the task trains a network that generates text.
bool is_generator(const cli::EngineCall& call) {
  const model::Output output = config::traits_of(call.loaded.experiment.task).output;
  return output == model::Output::next_tokens || output == model::Output::target_tokens;
}

/// Writes what a program needs to generate text beside weights and tokenizer. These are the chat templates of training,
/// the settings with which the model began, and the tokens that end its answers.
void write_generation_files(const cli::EngineCall& call, const exporters::ModelCard& card, const fs::path& directory,
                            std::vector<fs::path>& files) {
  write_chat_templates(call, directory, files);
  if (!is_generator(call)) return;
  const fs::path base = call.options<cli::ExportOptions>().published;
  if (const auto file = pretrained::write_generation_config(base, card.facts, directory)) files.push_back(*file);
}

/// Returns the names of the files besides the weights that the export writes and that programs obey.
std::set<std::string> side_files_to_write(const cli::EngineCall& call, const exporters::ModelCard& card,
                                          const model::NetworkConfig& network,
                                          const std::optional<fs::path>& tokenizer) {
  std::set<std::string> names;
  if (card.format == exporters::ArtefactFormat::hugging_face &&
      !pretrained::preprocessor_config(network, card.facts).is_null())
    names.insert(pretrained::kPreprocessorConfig);
  if (!tokenizer) return names;
  for (const auto& [name, source] : pretrained::tokenizer_copies(*tokenizer)) names.insert(name);
  for (const auto& [name, source] : replaced_templates(call)) names.insert(pretrained::name_of_template(name));
  const fs::path base = call.options<cli::ExportOptions>().published;
  if (is_generator(call) && pretrained::needs_generation_config(base, card.facts))
    names.insert(pretrained::kGenerationConfig);
  return names;
}

/// Returns the names of the files that an older export left in the directory, and that programs would obey.
std::vector<std::string> find_stale_files(const CheckpointedRun& loaded, const cli::EngineCall& call,
                                          const exporters::ModelCard& card, const std::optional<fs::path>& tokenizer) {
  const bool reads_tokenizer = card.facts.vocab_size > 0 || graph_file_name(card.format) == nullptr;
  if (!is_beside_tokenizer(call, card.format) || !reads_tokenizer) return {};
  const std::set<std::string> written =
      side_files_to_write(call, card, loaded.run->experiment.model.network, tokenizer);
  return exporters::stale_files(call.options<cli::ExportOptions>().output, card.format, written);
}

/// Writes the adapters that peft loads beside what the run began with.
Written write_adapters(const CheckpointedRun& loaded, const cli::EngineCall& call, const exporters::ModelCard& card,
                       const std::optional<fs::path>& tokenizer) {
  pretrained::AdapterRequest request{.directory = call.options<cli::ExportOptions>().output,
                                     .base = call.loaded.experiment.model.init_from,
                                     .tokenizer = tokenizer};
  pretrained::ExportedAdapters exported =
      pretrained::export_adapters(*loaded.run->model, loaded.run->experiment.model, card.facts, request);
  core::log().info("the adapters' base is " + exported.base.string());
  if (request.tokenizer) write_generation_files(call, card, request.directory, exported.files);
  return {.model = request.directory, .files = std::move(exported.files)};
}

Written write_weights(const CheckpointedRun& loaded, const cli::EngineCall& call, const exporters::ModelCard& card,
                      const std::optional<fs::path>& tokenizer) {
  if (card.format == exporters::ArtefactFormat::peft) return write_adapters(loaded, call, card, tokenizer);
  const pretrained::ExportRequest request{
      .layout = layout_of(card.format), .directory = call.options<cli::ExportOptions>().output, .tokenizer = tokenizer};
  const model::NetworkConfig& network = loaded.run->experiment.model.network;
  Written written{.model = request.directory,
                  .files = pretrained::export_weights(*loaded.run->model, network, card.facts, request)};
  if (request.tokenizer) write_generation_files(call, card, request.directory, written.files);
  return written;
}

/// Writes the repository or archive that a server loads. The graph within is verified like any other.
Written write_served(const CheckpointedRun& loaded, const cli::EngineCall& call, const exporters::ModelCard& card) {
  const fs::path output = call.options<cli::ExportOptions>().output;
  loaded.run->model->set_segments({});
  exporters::ServedModel served{.card = card, .name = exporters::served_name(card.name)};
  const bool triton = call.options<cli::ExportOptions>().format == ExportFormat::triton;
  const auto tokenizer = card.facts.vocab_size > 0 ? tokenizer_path(call) : std::nullopt;
  if (!triton && tokenizer && *tokenizer != "bytes") {
    const fs::path path(*tokenizer);
    served.tokenizer = {fs::is_directory(path) ? path / "tokenizer.json" : path};
    if (served.tokenizer.front().filename() != "tokenizer.json" || !fs::is_regular_file(served.tokenizer.front()))
      throw core::Error("TorchServe's handler reads a tokenizer.json, and " + path.string() + " has none")
          .hint("give --tokenizer, or export to onnx");
    if (open_tokenizer(call)->is_changed_by_side_files())
      throw core::Error("TorchServe's handler reads tokenizer.json alone, and files beside " +
                        served.tokenizer.front().string() + " change its tokens")
          .hint("save it anew with transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
  }
  Written written;
  written.files = triton ? exporters::write_triton_repository(*loaded.run->model, served, output)
                         : exporters::write_torchserve_archive(*loaded.run->model, served, output);
  written.model = written.files.front();
  return written;
}

/// Writes the card, and a graph's tokenizer files, beside an export that is a directory.
void write_card(exporters::ModelCard& card, const cli::EngineCall& call, const std::optional<fs::path>& tokenizer,
                Written& written) {
  const fs::path output = call.options<cli::ExportOptions>().output;
  if (!fs::is_directory(output) || is_served(call.options<cli::ExportOptions>().format)) return;
  if (tokenizer && graph_file_name(card.format) != nullptr) {
    for (fs::path& file : pretrained::copy_tokenizer(*tokenizer, output)) written.files.push_back(std::move(file));
    write_chat_templates(call, output, written.files);
  }
  card.side_files = exporters::checksums_of_side_files(output, written.files);
  for (const auto& [name, text] : exporters::notes_of(card)) {
    core::write_file_atomically(output / name, text);
    written.files.push_back(output / name);
  }
}

/// Returns the known problems with building a TensorRT engine of an ONNX file; none if it is no ONNX file.
std::optional<std::vector<std::string>> tensorrt_problems_of(const exporters::ModelCard& card, const Written& written) {
  if (card.format != exporters::ArtefactFormat::onnx) return std::nullopt;
  return exporters::tensorrt_problems(written.model);
}

void tell_tensorrt(const std::vector<std::string>& problems) {
  if (problems.empty())
    core::print(stdout, "TensorRT: no known incompatibility; scripts/tensorrt.sh builds the engine\n");
  for (const std::string& problem : problems) core::print(stdout, "TensorRT: %s\n", problem.c_str());
}

void tell_written(const CheckpointedRun& loaded, const cli::EngineCall& call, const Written& written,
                  const std::optional<exporters::LargestDifference>& difference,
                  const std::optional<std::vector<std::string>>& tensorrt) {
  if (call.json) {
    nlohmann::ordered_json document = {{"checkpoint", loaded.checkpoint}, {"step", loaded.run->step}};
    for (const auto& file : written.files) document["files"].push_back(file.string());
    if (difference)
      document["largest_difference"] = {
          {"absolute", difference->absolute}, {"relative", difference->relative}, {"samples", difference->num_samples}};
    if (tensorrt) document["tensorrt_problems"] = *tensorrt;
    std::printf("%s\n", core::indented_json(document).c_str());
    return;
  }
  core::print(stdout, "%s\n", title(loaded).c_str());
  for (const auto& file : written.files) core::print(stdout, "  %s\n", file.c_str());
  if (difference)
    core::print(stdout, "largest difference from the live model: %.3g (%.2g of the largest output), on %lld samples\n",
                difference->absolute, difference->relative, static_cast<long long>(difference->num_samples));
  if (tensorrt) tell_tensorrt(*tensorrt);
}

/// Returns the size of the output's last axis.
std::int64_t num_outputs(model::Model& model, const exporters::Signature& signature) {
  constexpr std::int64_t kLength = 16;
  const exporters::GraphInput& values = signature.inputs.front();
  std::vector<std::int64_t> shape = values.shape;
  std::replace(shape.begin(), shape.end(), exporters::kBatchAxis, std::int64_t{1});
  std::replace(shape.begin(), shape.end(), exporters::kSequenceAxis, std::min(kLength, signature.longest));
  const model::ModelInput sample{.values = at::zeros(shape, values.dtype)};  // real ones may not be there
  const at::NoGradGuard no_grad;
  return model.forward(exporters::model_input(signature, exporters::graph_inputs(signature, sample))).size(-1);
}

/// Returns why files of weights can't stand for the model; none if they can.
std::optional<std::string> obstacle_to_weights(const exporters::ModelCard& card) {
  if (card.facts.labels == dataset::kAsTheyAre) return std::nullopt;
  return "the network gives standardized labels (dataset.label_scaling), and files of weights have no place for their "
         "mean and deviation";
}

/// Refuses a checkpoint that was exported already, and a layout of floats for a quantized one.
void check_exportable(const CheckpointedRun& loaded, const exporters::ModelCard& card) {
  if (loaded.replaced != nullptr)
    throw core::Error(loaded.checkpoint + " is exported already").hint("export the checkpoint that it was made from");
  if (loaded.quantization != nullptr && graph_file_name(card.format) == nullptr)
    throw core::Error(loaded.checkpoint + " is quantized, and this layout is of floats")
        .hint("--format onnx, or export the checkpoint that isn't quantized; quantized.safetensors has the bytes");
  if (const auto obstacle = obstacle_to_weights(card); obstacle && graph_file_name(card.format) == nullptr)
    throw core::Error(*obstacle).hint("--format onnx or torchscript: the graph gives labels in their own units");
}

/// Tells the user, before anything is written, on which CPUs ONNX Runtime's results differ from the quantized model's.
void tell_saturation(const CheckpointedRun& loaded, const exporters::ModelCard& card) {
  if (card.format != exporters::ArtefactFormat::onnx || loaded.quantization == nullptr) return;
  if (!quantization::activations_exceed_seven_bits(loaded.quantization->recipe())) return;
  NoticePrinter().on(
      tracking::Notice{tracking::Level::info,
                       "on x86 CPUs without VNNI, ONNX Runtime's eight-bit sums saturate unless the session sets "
                       "session.x64quantprecision=1 (docs/export.md)"});
}

/// Takes ONNX if the layout that trainctl chose can't express the network.
void choose_expressible_format(exporters::ModelCard& card, const model::NetworkConfig& network) {
  if (graph_file_name(card.format) != nullptr) return;
  std::optional<std::string> obstacle = obstacle_to_weights(card);
  if (!obstacle) obstacle = pretrained::obstacle_to(layout_of(card.format), network, card.facts);
  if (obstacle) {
    core::log().info("exports ONNX: " + *obstacle);
    card.format = exporters::ArtefactFormat::onnx;
  }
}

}  // namespace

int run_export(const cli::EngineCall& given) {
  const cli::ExportOptions& options = given.options<cli::ExportOptions>();
  if (options.format == ExportFormat::gguf) return export_gguf_file(given);
  cli::EngineCall call = given;
  call.loaded.experiment.device.kind = runtime::DeviceKind::cpu;
  const CheckpointedRun loaded = load_checkpointed_run(call, options.verify ? Samples::eval : Samples::not_needed);
  exporters::ModelCard card = card_of(loaded, call, format_of(options, loaded.run->experiment.model.network),
                                      metrics_of(loaded, call), loaded.quantization.get());
  if (options.format == ExportFormat::auto_) choose_expressible_format(card, loaded.run->experiment.model.network);
  check_exportable(loaded, card);
  tell_saturation(loaded, card);
  const bool is_graph = graph_file_name(card.format) != nullptr;
  if (is_graph) describe_graph(card, call, *loaded.run);
  if (is_served(options.format)) card.num_outputs = num_outputs(*loaded.run->model, card.signature);
  const std::optional<fs::path> tokenizer = tokenizer_beside(call, card);
  const std::vector<std::string> stale = find_stale_files(loaded, call, card, tokenizer);
  Written written = is_served(options.format) ? write_served(loaded, call, card)
                    : is_graph                ? write_graph(loaded, call, card)
                                              : write_weights(loaded, call, card, tokenizer);
  for (const std::string& name : stale) fs::remove(fs::path(options.output) / name);
  std::optional<exporters::LargestDifference> difference;
  if (options.verify) difference = verify(loaded, card, written.model);
  write_card(card, call, tokenizer, written);
  tell_written(loaded, call, written, difference, tensorrt_problems_of(card, written));
  return 0;
}

}  // namespace trainctl::engine
