#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "amp/amp.h"
#include "checkpointed_run.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/seq2seq_prompt.h"
#include "dataset/shown_sample.h"
#include "engine.h"
#include "inference/generate.h"
#include "inference/predict.h"
#include "prediction_inputs.h"
#include "prediction_writer.h"
#include "tokenizer/tokenizer.h"
#include "train/run/run.h"

namespace trainctl::engine {
namespace {

using Json = nlohmann::ordered_json;

/// Returns {"text", "ended_by"} for each source, with the likeliest token at each place. A target ends with the
/// tokenizer's end token, or with as many tokens as the dataset's longest target has.
std::vector<Json> written_targets(train::Run& run, const tokenizer::Tokenizer& tokenizer,
                                  const std::vector<inference::PredictionInput>& sources) {
  std::vector<Json> answers;
  std::vector<std::int32_t> ends;
  if (const auto end = tokenizer.roles().end) ends.push_back(*end);
  for (const inference::PredictionInput& source : sources) {
    std::optional<dataset::Seq2SeqPrompt> prompt =
        dataset::seq2seq_prompt(run.experiment.dataset.source, tokenizer, source.text);
    core::ensure(prompt.has_value(), "targets are of pairs of texts");
    const inference::GenerationRequest request{.prompt = {prompt->start},
                                               .source = std::move(prompt->source),
                                               .max_tokens = run.data.train->spec().target_length,
                                               .vocab_size = tokenizer.vocab_size(),
                                               .ends = ends,
                                               .sampling = {.temperature = 0}};
    const inference::Generation generation = inference::generate(*run.model, request, [](std::int32_t) {});
    const bool is_whole = generation.ended_by == inference::GenerationEnd::end_token;
    answers.push_back({{"text", tokenizer.decode(generation.ids, tokenizer::SpecialTokens::leave_out)},
                       {"ended_by", is_whole ? "end_token" : "max_tokens"}});
  }
  return answers;
}

using Batch = std::vector<inference::PredictionInput>;
/// Returns an answer for each input.
using AnswerBatch = std::function<std::vector<Json>(const Batch& batch)>;

/// Returns what stands for the answer to an input that has none.
Json answer_of_error(const std::exception& error) {
  return {{"error", core::as_error(error).what()}};
}

/// Gathers inputs into batches, and writes an answer to each, in their order.
class Predictions {
 public:
  Predictions(std::size_t batch_size, AnswerBatch answer, PredictionWriter& writer)
      : batch_size_(batch_size), answer_(std::move(answer)), writer_(writer) {}

  void add(NamedInput input) {
    num_unopened_ += input.is_unopened ? 1 : 0;
    waiting_ += input.content ? 1 : 0;
    inputs_.push_back(std::move(input));
    if (waiting_ >= batch_size_) flush();
  }

  void flush() {
    std::vector<NamedInput> inputs = std::exchange(inputs_, {});
    waiting_ = 0;
    Batch batch;
    for (const NamedInput& input : inputs)
      if (input.content) batch.push_back(*input.content);
    const std::vector<Json> found = answers_to(batch);
    std::size_t next = 0;
    for (const NamedInput& input : inputs) {
      Json line = {{"input", input.name}};
      if (input.line) line["line"] = *input.line;
      line.update(input.content ? found[next++] : Json{{"error", input.error}});
      num_usable_ += line.contains("error") ? 0 : 1;
      writer_.write(line);
    }
    writer_.flush();
  }

  std::size_t num_usable() const { return num_usable_; }
  std::size_t num_unopened() const { return num_unopened_; }

 private:
  /// Answers a batch. If the batch fails, answers each input alone, so that only the faulty one gets an error.
  std::vector<Json> answers_to(const Batch& batch) {
    if (batch.empty()) return {};
    try {
      return answer_(batch);
    } catch (const std::exception& error) {
      if (batch.size() == 1) return {answer_of_error(error)};
    }
    std::vector<Json> answers;
    for (const inference::PredictionInput& one : batch) answers.push_back(answers_to({one}).front());
    return answers;
  }

  std::size_t batch_size_;
  AnswerBatch answer_;
  PredictionWriter& writer_;
  std::vector<NamedInput> inputs_;
  std::size_t waiting_ = 0;  // of them, those for the model
  std::size_t num_usable_ = 0;
  std::size_t num_unopened_ = 0;
};

/// Runs the model on a batch.
std::vector<Json> answers_of_outputs(train::Run& run, const inference::Answers& answers, std::int64_t pad,
                                     const Batch& batch) {
  const at::NoGradGuard no_grad;
  const amp::Autocast autocast(run.experiment.amp, run.device);
  model::ModelInput input = inference::collate(batch, pad);
  const auto here = [&](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(run.device) : tensor; };
  input = {.values = here(input.values), .token_types = here(input.token_types), .key_mask = here(input.key_mask)};
  const bool channels_last = run.channels_last && input.values.dim() == 4;
  if (channels_last) input.values = input.values.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor outputs = run.model->forward(input).to(at::kFloat).cpu();
  std::vector<Json> all;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    at::Tensor row = outputs[static_cast<std::int64_t>(i)];
    if (row.dim() == 2) row = row.narrow(0, 0, static_cast<std::int64_t>(batch[i].encoding.ids.size()));
    // Masks of the inputs before it are saved, so that the batch can't be answered again.
    try {
      all.push_back(answers.of(row, batch[i]));
    } catch (const std::exception& error) {
      all.push_back(answer_of_error(error));
    }
  }
  return all;
}

/// Writes masks into a directory, each under its image's name.
class MaskFiles {
 public:
  MaskFiles(std::string directory, std::set<std::filesystem::path> inputs)
      : directory_(std::move(directory)), inputs_(std::move(inputs)) {
    std::error_code failed;
    std::filesystem::create_directories(directory_, failed);
    if (failed) throw core::Error("cannot make the directory " + directory_.string() + ": " + failed.message());
  }

  std::string save(const std::string& image, const at::Tensor& classes) {
    const std::filesystem::path file = directory_ / (std::filesystem::path(image).stem().string() + ".png");
    std::error_code unreadable;
    if (inputs_.contains(std::filesystem::weakly_canonical(file, unreadable)))
      throw core::Error("the mask " + file.string() + " would replace an input").hint("choose another --masks");
    if (!written_.insert(file.string()).second)
      throw core::Error("the mask " + file.string() + " is that of an earlier input with the same name")
          .hint("predict images with equal names in separate calls");
    core::write_file_atomically(file, dataset::mask_file_of(classes));
    return file.string();
  }

 private:
  std::filesystem::path directory_;
  std::set<std::filesystem::path> inputs_;
  std::set<std::string> written_;
};

/// Returns what saves masks; null if the user names no directory. Throws core::Error if the task has no masks.
std::shared_ptr<MaskFiles> mask_files_of(const cli::PredictOptions& options, const task::TaskConfig& task,
                                         const std::set<std::filesystem::path>& inputs) {
  if (options.masks.empty()) return nullptr;
  if (config::traits_of(task).output != model::Output::per_pixel)
    throw core::Error("--masks is for semantic_segmentation; this model's task is " + std::string(task.kind()));
  return std::make_shared<MaskFiles>(options.masks, inputs);
}

/// Returns what answers a batch by the outputs of the model, as the task says.
AnswerBatch answer_by_outputs(train::Run& run, const tokenizer::Tokenizer* tokenizer,
                              const cli::PredictOptions& options, const std::set<std::filesystem::path>& inputs) {
  inference::AnswerOptions told{.class_names = run.data.train->spec().class_names,
                                .tokenizer = tokenizer,
                                .top = options.top,
                                .labels = run.data.train->spec().labels};
  if (const std::shared_ptr<MaskFiles> files = mask_files_of(options, run.experiment.task, inputs))
    told.save_mask = [files](const std::string& image, const at::Tensor& classes) {
      return files->save(image, classes);
    };
  const std::shared_ptr<const inference::Answers> answers =
      inference::make_answers(run.experiment.task, std::move(told));
  const std::int64_t pad = tokenizer == nullptr ? 0 : tokenizer->roles().pad.value_or(0);
  return [&run, answers, pad](const Batch& batch) { return answers_of_outputs(run, *answers, pad, batch); };
}

/// Refuses an output that would replace one of the inputs.
void refuse_input_as_output(const std::string& output, const std::set<std::filesystem::path>& inputs) {
  std::error_code unreadable;
  if (output.empty() || !inputs.contains(std::filesystem::weakly_canonical(output, unreadable))) return;
  throw core::Error("--output " + output + " is one of the inputs, which it would replace")
      .hint("choose another --output, outside directories of inputs");
}

}  // namespace

int run_predict(const cli::EngineCall& call) {
  const cli::PredictOptions& options = call.options<cli::PredictOptions>();
  const CheckpointedRun loaded = load_checkpointed_run(call, Samples::not_needed);
  train::Run& run = *loaded.run;
  const dataset::SampleSpec& spec = run.data.train->spec();
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = spec.vocab_size > 0 ? open_tokenizer(call) : nullptr;
  const std::int64_t batch_size =
      options.batch_size > 0 ? options.batch_size : run.experiment.dataset.samples_per_batch();
  const bool writes_targets =
      options.masks.empty() && config::traits_of(run.experiment.task).output == model::Output::target_tokens;
  const std::vector<InputFile> inputs = list_inputs(loaded, options.inputs, tokenizer.get());
  const bool writes_files = !options.output.empty() || !options.masks.empty();
  const std::set<std::filesystem::path> input_paths =
      writes_files ? paths_of(inputs) : std::set<std::filesystem::path>();
  refuse_input_as_output(options.output, input_paths);
  const AnswerBatch answer = writes_targets
                                 ? [&](const Batch& batch) { return written_targets(run, *tokenizer, batch); }
                                 : answer_by_outputs(run, tokenizer.get(), options, input_paths);
  PredictionWriter writer(options.format == "csv" ? PredictionFormat::csv : PredictionFormat::jsonl, options.output);
  Predictions predictions(static_cast<std::size_t>(batch_size), answer, writer);
  read_inputs(loaded, inputs, tokenizer.get(), [&](NamedInput input) { predictions.add(std::move(input)); });
  predictions.flush();
  writer.close();
  if (predictions.num_usable() == 0)
    throw core::Error("there was no input that could be used").hint("the lines above say why, if there was any");
  if (predictions.num_unopened() > 0)
    throw core::Error(core::format_count(predictions.num_unopened()) + " of the named files could not be opened")
        .hint("the lines with \"error\" name them; all other inputs are answered");
  return core::kExitDone;
}

}  // namespace trainctl::engine
