#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpointed_run.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "core/text.h"
#include "dataset/chat_prompt.h"
#include "dataset/seq2seq_prompt.h"
#include "engine.h"
#include "inference/generate.h"
#include "inference/text_stream.h"
#include "pretrained/tokenizer_files.h"
#include "runtime/random.h"

namespace trainctl::engine {
namespace {

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  core::flush_standard_output();
}

std::vector<std::int32_t> prompt_ids(const tokenizer::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<std::int32_t> ids = tokenizer.encode(prompt, {}).ids;
  const tokenizer::SpecialTokenIds roles = tokenizer.roles();
  // A template may close the text, but it is to go on.
  if (ids.size() > 1 && roles.end && ids.back() == *roles.end) ids.pop_back();
  if (ids.empty() && (roles.begin || roles.end)) ids.push_back(roles.begin ? *roles.begin : *roles.end);
  return ids;
}

/// The tokens that generation begins with, and the one that ends it.
struct Prompt {
  std::vector<std::int32_t> ids;
  std::optional<std::int32_t> end;
  std::vector<std::int32_t> source{};  // of an encoder-decoder
};

bool has_published_weights(const cli::EngineCall& call) {
  return std::filesystem::is_regular_file(std::filesystem::path(call.checkpoint) / "config.json");
}

/// Reads the settings of the weights' directory of transformers, or of the one that training began with.
pretrained::GenerationSettings settings_of(const cli::EngineCall& call, const experiment::Experiment& experiment) {
  const std::filesystem::path base =
      has_published_weights(call) ? call.checkpoint : experiment.model.init_from.value_or("");
  return std::filesystem::is_directory(base) ? pretrained::read_generation_settings(base)
                                             : pretrained::GenerationSettings();
}

/// Warns if transformers draws tokens in another way.
void warn_of_sampling(const pretrained::GenerationSettings& settings, const cli::GenerateOptions& options) {
  const cli::GenerateOptions usual;
  const std::map<std::string, bool> is_given = {{"temperature", options.temperature != usual.temperature},
                                                {"top_k", options.top_k != usual.top_k},
                                                {"top_p", options.top_p != usual.top_p}};
  std::vector<std::string> others;
  for (const auto& [key, value] : settings.sampling)
    if (const auto given = is_given.find(key); given == is_given.end() || !given->second)
      others.push_back(key + " " + value);
  if (options.temperature > 0 && !others.empty())
    core::log().warning(settings.file.string() + " draws tokens with " + core::list_words(others) +
                        ", and this text is drawn without; see --temperature, --top-k and --top-p");
}

/// Warns if transformers' text from the weights' directory is another one.
void warn_of_settings(const cli::EngineCall& call, const pretrained::GenerationSettings& settings,
                      const Prompt& prompt) {
  const std::string file = settings.file.string();
  if (!settings.not_computed.empty())
    core::log().warning(file + " has " + core::list_words(settings.not_computed) +
                        ", which transformers computes and trainctl doesn't: the text may be another");
  if (!has_published_weights(call)) return;
  warn_of_sampling(settings, call.options<cli::GenerateOptions>());
  if (!prompt.source.empty() && settings.decoder_start.value_or(prompt.ids.front()) != prompt.ids.front())
    core::log().warning(file + " begins targets with token " + std::to_string(*settings.decoder_start) +
                        ", and this one begins with " + std::to_string(prompt.ids.front()) +
                        "; see dataset.decoder_start_token_id");
}

/// Returns the tokens that end the text. To the prompt's own end come those of the directory of transformers that
/// training began with. Weights of such a directory end a text as it says, whatever the tokenizer calls the end. If it
/// names no token, none ends the text, as in transformers.
std::vector<std::int32_t> ends_of(const cli::EngineCall& call, pretrained::GenerationSettings settings,
                                  const std::optional<std::int32_t>& end) {
  const bool is_continued = has_published_weights(call) && !call.options<cli::GenerateOptions>().is_question;
  if (is_continued && settings.ends.empty())
    core::log().warning(settings.file.string() + " has no eos_token_id, so no token ends the text before --max-tokens");
  if (end && !is_continued) settings.ends.push_back(*end);
  return settings.ends;
}

Prompt prompt_of(const cli::GenerateOptions& options, const tokenizer::Tokenizer& tokenizer,
                 const dataset::SourceConfig& source) {
  if (!options.is_question) {
    if (std::optional<dataset::Seq2SeqPrompt> pair = dataset::seq2seq_prompt(source, tokenizer, options.prompt))
      return {{pair->start}, tokenizer.roles().end, std::move(pair->source)};
    return {prompt_ids(tokenizer, options.prompt), tokenizer.roles().end};
  }
  const std::optional<dataset::ChatPrompt> prompt = dataset::chat_prompt(source, tokenizer, options.prompt);
  if (!prompt)
    throw core::Error("--chat: dataset.kind is " + std::string(source.kind()) +
                      "; expected chat or preference, which have a chat template");
  return {tokenizer.encode(prompt->text, {.special_tokens = tokenizer::SpecialTokens::leave_out}).ids,
          prompt->end ? prompt->end : tokenizer.roles().end};
}

inference::GenerationRequest request_of(const cli::EngineCall& call, const tokenizer::Tokenizer& tokenizer,
                                        const experiment::Experiment& experiment) {
  const cli::GenerateOptions& options = call.options<cli::GenerateOptions>();
  const model::NetworkConfig& network = experiment.model.network;
  const model::OwnSizes sizes = sizes_of(network);
  Prompt prompt = prompt_of(options, tokenizer, experiment.dataset.source);
  const pretrained::GenerationSettings settings = settings_of(call, experiment);
  warn_of_settings(call, settings, prompt);
  return {.prompt = std::move(prompt.ids),
          .source = std::move(prompt.source),
          .max_tokens = options.max_tokens,
          .max_position_embeddings = sizes.extends_positions ? std::nullopt : *sizes.max_position_embeddings,
          .vocab_size = tokenizer.vocab_size(),
          .ends = ends_of(call, settings, prompt.end),
          .sampling = {.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p},
          .earlier = config::traits_of(network).has_kv_cache ? inference::EarlierTokens::cached
                                                             : inference::EarlierTokens::recomputed};
}

const char* reason(inference::GenerationEnd end) {
  switch (end) {
    case inference::GenerationEnd::end_token:
      return "end_token";
    case inference::GenerationEnd::max_tokens:
      return "max_tokens";
    case inference::GenerationEnd::max_position_embeddings:
      return "max_position_embeddings";
  }
  throw std::logic_error("unknown end");
}

/// Writes texts to stdout as they come, or all in one document.
class Output {
 public:
  Output(const cli::EngineCall& call, const tokenizer::Tokenizer& tokenizer) : call_(call), tokenizer_(tokenizer) {}

  inference::Generation operator()(model::Model& model, const inference::GenerationRequest& request,
                                   std::int64_t number) {
    const cli::GenerateOptions& options = call_.options<cli::GenerateOptions>();
    if (!call_.json && options.num_samples > 1) print("--- " + std::to_string(number + 1) + "\n");
    // What an encoder-decoder writes doesn't go on from the prompt, nor does an answer.
    const bool goes_on = !options.is_question && request.source.empty();
    if (!call_.json && goes_on) print(options.prompt);
    inference::TextStream stream(tokenizer_, request.source.empty() ? request.prompt : std::vector<std::int32_t>());
    std::string text;
    const auto tell = [&](const std::string& piece) {
      text += piece;
      if (!call_.json) print(piece);
    };
    inference::Generation generation =
        inference::generate(model, request, [&](std::int32_t id) { tell(stream.add(id)); });
    tell(stream.finish());
    if (!call_.json) print("\n");
    if (generation.ended_by == inference::GenerationEnd::max_position_embeddings)
      core::log().info("stopped after " + core::format_count(generation.ids.size()) + " of " +
                       core::format_count(request.max_tokens) +
                       " tokens: with the prompt these are all positions that the model has "
                       "(model.max_position_embeddings)");
    samples_.push_back({{"text", text}, {"tokens", generation.ids}, {"ended_by", reason(generation.ended_by)}});
    return generation;
  }

  nlohmann::ordered_json samples() const { return samples_; }

 private:
  const cli::EngineCall& call_;
  const tokenizer::Tokenizer& tokenizer_;
  nlohmann::ordered_json samples_ = nlohmann::ordered_json::array();
};

}  // namespace

int run_generate(const cli::EngineCall& call) {
  const cli::GenerateOptions& options = call.options<cli::GenerateOptions>();
  const CheckpointedRun loaded = load_checkpointed_run(call, Samples::not_needed);
  const model::Output output_kind = config::traits_of(loaded.run->experiment.task).output;
  if (output_kind != model::Output::next_tokens && output_kind != model::Output::target_tokens)
    throw core::Error("only a causal language model or an encoder-decoder generates text, and task.kind is " +
                      std::string(loaded.run->experiment.task.kind()));
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = open_tokenizer(call);
  inference::GenerationRequest request = request_of(call, *tokenizer, loaded.run->experiment);
  Output output(call, *tokenizer);
  const auto begin = std::chrono::steady_clock::now();
  std::size_t num_tokens = 0;
  for (std::int64_t i = 0; i < options.num_samples; ++i) {
    request.key = runtime::mix(options.seed, runtime::key_of("generate"), static_cast<std::uint64_t>(i));
    num_tokens += output(*loaded.run->model, request, i).ids.size();
  }
  if (!call.json) return 0;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const nlohmann::ordered_json document = {
      {"checkpoint", loaded.checkpoint},
      {"step", loaded.run->step},
      {"prompt", options.prompt},
      {"num_prompt_tokens", request.source.empty() ? request.prompt.size() : request.source.size()},
      {"samples", output.samples()},
      {"seconds", seconds.count()},
      {"tokens_per_s", static_cast<double>(num_tokens) / seconds.count()}};
  std::printf("%s\n", core::indented_json(document).c_str());
  return 0;
}

}  // namespace trainctl::engine
