#include "written_targets.h"

#include "core/error.h"
#include "dataset/seq2seq_prompt.h"
#include "inference/generate.h"

namespace trainctl::engine {

std::vector<nlohmann::ordered_json> written_targets(train::Run& run, const tokenizer::Tokenizer& tokenizer,
                                                    const std::vector<inference::PredictionInput>& sources) {
  std::vector<nlohmann::ordered_json> answers;
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

}  // namespace trainctl::engine
