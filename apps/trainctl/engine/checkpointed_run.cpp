#include "checkpointed_run.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/description.h"
#include "engine.h"
#include "exporters/graph_model.h"
#include "exporters/model_card.h"
#include "model/lora.h"
#include "notice_printer.h"
#include "quantization/quantization.h"
#include "train/run/initial_weights.h"
#include "train/run/restore.h"

namespace trainctl::engine {
namespace {

/// Returns the dataset's `tokenizer:` key, if it has one.
std::optional<std::string> dataset_tokenizer(const dataset::DatasetConfig& dataset) {
  const dataset::DatasetFacts facts = config::facts_of(dataset.source);
  return facts.tokens() == nullptr ? std::nullopt : *facts.tokens()->tokenizer;
}

/// Returns none if `path` has weights in another layout, or no checkpoint. Notices tell of damaged ones.
std::optional<checkpoint::Found> newest_step(const std::filesystem::path& path,
                                             std::vector<tracking::Notice>& notices) {
  if (!std::filesystem::is_directory(path)) return std::nullopt;
  std::vector<std::string> passed_over;
  std::optional<checkpoint::Found> found = checkpoint::find_newest(path, &passed_over);
  for (const std::string& reason : passed_over)
    if (found) notices.push_back({tracking::Level::warning, "a checkpoint is passed over: " + reason});
  return found;
}

using OpenData = std::function<dataset::Datasets(const dataset::LoaderOptions&)>;

dataset::EvaluatedSet evaluated_set(Samples samples) {
  if (samples == Samples::test) return dataset::EvaluatedSet::test;
  return samples == Samples::train ? dataset::EvaluatedSet::train : dataset::EvaluatedSet::eval;
}

/// Returns a function that opens the data for a trained model. If no samples are needed, the description of the
/// checkpoint is enough; an exported model takes that of its run's newest checkpoint. If samples are needed, the
/// classes are those that the model was trained with, and so are the inputs made of a table's columns.
OpenData data_of(const std::optional<checkpoint::Found>& used, const std::string& run_dir, Samples samples,
                 const dataset::DatasetConfig& config) {
  std::vector<checkpoint::Found> found;  // their tensors needn't be read for a description
  if (used)
    found = {*used};
  else if (!run_dir.empty())
    found = checkpoint::find_complete(run_dir);
  const OpenData from_files = [config, samples](dataset::LoaderOptions options) {
    options.evaluated = evaluated_set(samples);
    return dataset::build(config, options);
  };
  if (found.empty()) return from_files;
  const checkpoint::CheckpointInfo info = checkpoint::Checkpoint(found.front().path).info();
  if (info.data_description.empty()) return from_files;
  const auto describe = [info] { return dataset::described_datasets(info.data_description, info.data_fingerprint); };
  if (samples == Samples::not_needed) return [describe](const dataset::LoaderOptions&) { return describe(); };
  const auto trained = std::make_shared<const dataset::SampleSpec>(describe().train->spec());
  return [trained, describe, from_files](dataset::LoaderOptions options) {
    options.trained = trained;
    dataset::Datasets data = from_files(options);
    if (data.train) return data;
    dataset::Datasets described = describe();
    data.train = std::move(described.train);
    data.fingerprint = std::move(described.fingerprint);
    return data;
  };
}

/// Returns what the model.json of exported or quantized weights says of the training data, if there is one.
exporters::ListedData listed_data(const std::filesystem::path& path) {
  const std::filesystem::path file =
      (std::filesystem::is_directory(path) ? path : path.parent_path()) / exporters::kModelJson;
  if (!std::filesystem::is_regular_file(file)) return {};
  return exporters::data_in(core::read_file(file));
}

void load_published(train::Run& run, const std::string& path, pretrained::ClassesBy classes,
                    std::vector<tracking::Notice>& notices) {
  model::ModelConfig config = run.experiment.model;
  config.init_from = path;
  config.init_policy = model::InitPolicy::strict;
  const dataset::SampleSpec& spec = run.data.train->spec();
  train::load_initial_weights(*run.model, config, {train::input_spec(spec), spec.class_names, classes}, notices);
}

/// Replaces the network by the exported file. The network's sizes give the signature of the file's inputs.
void use_graph(CheckpointedRun& loaded) {
  train::Run& run = *loaded.run;
  const dataset::SampleSpec& spec = run.data.train->spec();
  pretrained::ModelInfo facts = pretrained::model_info_of(*run.model, spec.input_shape);
  facts.labels = spec.labels;
  const exporters::Signature signature = exporters::signature_of(run.experiment.model.network, facts);
  loaded.replaced = std::exchange(run.model, exporters::open_graph(loaded.checkpoint, signature));
}

/// Returns one sample of zeros.
at::Tensor empty_sample(const dataset::SampleSpec& spec) {
  std::vector<std::int64_t> shape = spec.input_shape;
  shape.insert(shape.begin(), 1);
  return at::zeros(shape, at::TensorOptions().dtype(spec.vocab_size > 0 ? at::kLong : at::kFloat));
}

std::unique_ptr<quantization::Quantization> use_quantized(train::Run& run, const std::string& directory) {
  run.model->set_training(false);
  model::merge_adapters(*run.model);
  quantization::QuantizedTraining::take(*run.model);
  return quantization::load_quantized(*run.model, directory, empty_sample(run.data.train->spec()));
}

}  // namespace

CheckpointedRun load_checkpointed_run(const cli::EngineCall& call, Samples samples) {
  NoticePrinter printer;
  std::vector<tracking::Notice> notices;
  experiment::Experiment experiment = call.loaded.experiment;
  const bool is_graph = exporters::is_graph_file(call.checkpoint);
  exporters::ListedData trained_on;
  if (is_graph) {
    trained_on = exporters::data_of_graph(call.checkpoint);  // before the data is prepared
    experiment.device.kind = runtime::DeviceKind::cpu;
  }
  const bool quantized = quantization::is_quantized(call.checkpoint);
  if (quantized) {
    experiment.device.kind = runtime::DeviceKind::cpu;
    experiment.amp = {};
  }
  std::visit(
      [&](auto& task) {
        if constexpr (requires { task.reference; }) {
          if (!task.reference) task.reference = experiment.model.init_from;
          if (samples == Samples::not_needed) task.reference = std::nullopt;
        }
      },
      experiment.task.value);
  experiment.model.init_from = std::nullopt;   // the checkpoint has all weights
  experiment.distillation = std::nullopt;      // training alone asks a teacher
  experiment.train.eval_steps = std::nullopt;  // a sample is for the time during training
  if (auto* zero = std::get_if<distributed::ZeroConfig>(&experiment.distributed.how.value))
    zero->offload = {};  // weights are used whole
  experiment.distributed = distributed::without_parts(experiment.distributed);
  const std::optional<checkpoint::Found> found =
      is_graph || quantized ? std::nullopt : newest_step(call.checkpoint, notices);
  if (!found && call.checkpoint == call.run_dir) train::step_directory_of(call.run_dir);  // throws, with the reasons
  train::RankContext rank;
  rank.open_data = data_of(found, call.run_dir, samples, experiment.dataset);
  CheckpointedRun loaded{.run = train::build(experiment, notices, rank), .checkpoint = call.checkpoint};
  loaded.num_parameters = model::num_parameters(*loaded.run->model);
  const auto stated = call.loaded.flat.find("dataset.class_names");
  const bool by_user = stated != call.loaded.flat.end() && stated->second != "[]";
  const pretrained::ClassesBy classes_by = by_user ? pretrained::ClassesBy::user : pretrained::ClassesBy::data;
  if (!is_graph && !found) trained_on = listed_data(call.checkpoint);
  pretrained::check_exported_classes(call.checkpoint, trained_on.classes, loaded.run->data.train->spec().class_names,
                                     classes_by);
  if (loaded.run->data.train->spec().table && !trained_on.fingerprint.empty() &&
      trained_on.fingerprint != loaded.run->data.fingerprint)
    notices.push_back({tracking::Level::warning,
                       call.checkpoint + " was trained on other data than the experiment has now, so that scales of "
                                         "columns may differ; the run's directory keeps its own"});
  if (!found) loaded.run->optimizer->eval();  // before other weights are there, which it must leave as they are
  if (is_graph) {
    use_graph(loaded);
  } else if (quantized) {
    loaded.quantization = use_quantized(*loaded.run, call.checkpoint);
  } else if (found) {
    loaded.checkpoint = found->path.string();
    train::restore_for_use(*loaded.run, found->path, train::with_contents(call.loaded.flat), printer);
    if (loaded.run->ema) loaded.run->ema->swap();
  } else {
    load_published(*loaded.run, call.checkpoint, classes_by, notices);
  }
  loaded.run->ema.reset();  // the weights to use are in the model
  loaded.run->model->set_training(false);
  tell(printer, notices);
  return loaded;
}

std::string title(const CheckpointedRun& loaded) {
  const std::int64_t step = loaded.run->step;
  return step > 0 ? loaded.checkpoint + " (step " + core::format_count(step) + ")" : loaded.checkpoint;
}

std::optional<std::string> tokenizer_path(const cli::EngineCall& call) {
  if (!call.tokenizer.empty()) return call.tokenizer;
  return dataset_tokenizer(call.loaded.experiment.dataset);
}

std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const cli::EngineCall& call) {
  const std::optional<std::string> path = tokenizer_path(call);
  if (!path) throw core::Error("the dataset names no tokenizer").hint("give --tokenizer");
  return *path == "bytes" ? tokenizer::byte_tokenizer() : tokenizer::load_tokenizer(*path);
}

}  // namespace trainctl::engine
