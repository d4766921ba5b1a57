#include <memory>

#include "number_option.h"
#include "trained_model.h"

namespace trainctl::cli {

Action declare_generate(CLI::App& app) {
  struct Options {
    TrainedModelOptions trained;
    std::string tokenizer;
    bool greedy = false;
    GenerateOptions generate;
  };
  const auto options = std::make_shared<Options>();
  add_trained_model_options(app, options->trained,
                            "A run, checkpoints or step directory, or one in Hugging Face layout");
  GenerateOptions& generate = options->generate;
  app.add_option("--prompt", generate.prompt, "Beginning of the text")->required()->type_name("TEXT");
  app.add_flag("--chat", generate.is_question,
               "The prompt is a user's question: the dataset's chat template is put around it");
  app.add_option("--max-tokens", generate.max_tokens, "Largest number of tokens to generate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", generate.temperature,
                 "Below 1: less random; above 1: more random; 0: same as --greedy")
      ->check(finite_number(0, 1e6))
      ->capture_default_str();
  app.add_option("--top-k", generate.top_k, "Draw from this number of most likely tokens; 0: from all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--top-p", generate.top_p, "Draw from the most likely tokens that together have this probability")
      ->check(finite_number(0, 1))
      ->capture_default_str();
  app.add_flag("--greedy", options->greedy, "Always take the most likely token");
  app.add_option("--seed", generate.seed, "Seed of the random draws")->capture_default_str();
  app.add_option("--num-samples", generate.num_samples, "Texts to generate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tokenizer", options->tokenizer, "Tokenizer file or directory, or bytes (default the dataset's)")
      ->type_name("PATH");
  return [options] {
    if (options->greedy) options->generate.temperature = 0;
    EngineCall call = engine_call(options->generate, options->trained);
    call.tokenizer = options->tokenizer;
    return call_engine(call);
  };
}

}  // namespace trainctl::cli
