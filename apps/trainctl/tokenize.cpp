#include <dlfcn.h>

#include <memory>

#include "command.h"
#include "core/error.h"
#include "load_engine.h"
#include "tokenize_call.h"

namespace trainctl::cli {
namespace {

int call_tokenize(const TokenizeOptions& options) {
  void* const library = open_library(library_directory() / kTokenizeFile, RTLD_LOCAL);
  const auto tokenize_main = reinterpret_cast<TokenizeMain>(dlsym(library, kTokenizeMain));
  core::ensure(tokenize_main != nullptr, "the library of tokenize has no entry point");
  return tokenize_main(options);
}

}  // namespace

Action declare_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  app.add_option("FILE", options->files, "Text files, read in order (default: standard input)");
  app.add_option("--tokenizer", options->tokenizer,
                 "tokenizer.json, vocab.txt, encoder.json, SentencePiece model, or a directory with one")
      ->type_name("PATH");
  app.add_flag("--tokens", options->tokens, "Also print the tokens' texts");
  app.add_flag("--decode", options->decode, "Convert lines of ids back to text");
  app.add_option("--special-tokens", options->special_tokens,
                 "Add special tokens to each line (default), or print them when decoding (default: leave out)")
      ->check(CLI::IsMember({"add", "leave_out"}));
  app.add_option("--max-length", options->max_length,
                 "Truncate lines to this number of tokens, including special tokens")
      ->check(CLI::PositiveNumber);
  CLI::Option* const train = app.add_flag("--train-bpe", options->train,
                                          "Learn a byte-level BPE from the files and write OUTPUT/tokenizer.json");
  app.add_option("--vocab-size", options->training.vocab_size, "Tokens to learn")->capture_default_str()->needs(train);
  app.add_option("--min-frequency", options->training.min_frequency, "Rarer pairs are not merged")
      ->capture_default_str()
      ->needs(train);
  app.add_option("--output", options->output, "Directory of the learned tokenizer")->type_name("DIR")->needs(train);
  return [options] { return call_tokenize(*options); };
}

}  // namespace trainctl::cli
