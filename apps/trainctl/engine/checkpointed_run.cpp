#include "checkpointed_run.h"

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "engine.h"
#include "notice_printer.h"
#include "train/initial_weights.h"
#include "train/restore.h"

namespace trainctl {
namespace {

/// The dataset's `tokenizer:` key, where it has one.
std::optional<std::string> dataset_tokenizer(const DatasetConfig& dataset) {
  return dataset.source.visit([](const auto& source) -> std::optional<std::string> {
    if constexpr (requires { source.tokenizer; }) return source.tokenizer;
    return std::nullopt;
  });
}

void load_published(Run& run, const std::string& path, std::vector<Notice>& notices) {
  ModelConfig config = run.experiment.model;
  config.init_from = path;
  config.init_policy = InitPolicy::strict;
  const SampleSpec& spec = run.data.train->spec();
  load_initial_weights(*run.model, config, InputSpec{spec.input_shape, spec.num_classes, spec.vocab_size}, notices);
}

}  // namespace

CheckpointedRun load_checkpointed_run(const EngineCall& call) {
  NoticePrinter printer;
  std::vector<Notice> notices;
  Experiment experiment = call.loaded.experiment;
  experiment.model.init_from = std::nullopt;  // the checkpoint has all weights
  CheckpointedRun loaded{.run = build(experiment, notices)};
  if (find_newest(call.checkpoint)) {
    loaded.checkpoint = step_directory_of(call.checkpoint).string();
    restore(*loaded.run, loaded.checkpoint, call.loaded.flat, printer);
    if (loaded.run->ema) loaded.run->ema->swap();
  } else {
    loaded.checkpoint = call.checkpoint;
    load_published(*loaded.run, call.checkpoint, notices);
  }
  loaded.run->model->set_training(false);
  tell(printer, notices);
  return loaded;
}

std::optional<std::string> tokenizer_path(const EngineCall& call) {
  if (!call.tokenizer.empty()) return call.tokenizer;
  return dataset_tokenizer(call.loaded.experiment.dataset);
}

std::unique_ptr<Tokenizer> open_tokenizer(const EngineCall& call) {
  const std::optional<std::string> path = tokenizer_path(call);
  if (!path) throw Error("the dataset names no tokenizer").hint("give --tokenizer");
  return *path == "bytes" ? byte_tokenizer() : load_tokenizer(*path);
}

}  // namespace trainctl
