// The features of llama's families on ranks that share layers, tokens, sequences or stages, against one process.
#include "model_layout.h"
#include "support/llama_families.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// A family with windows shorter than the sequences, and dropout in attention.
NamedLlama family(const std::string& name) {
  for (NamedLlama& one : llama_families()) {
    if (one.name != name) continue;
    if (one.config.sliding_window) one.config.sliding_window = 5;
    one.config.attention_dropout = 0.1;
    return one;
  }
  throw std::logic_error("no family " + name);
}

void check(const std::string& name, ModelLayout layout) {
  layout.name = name;
  layout.change = network(family(name).config);
  check_layout(tokens(), layout);
}

}  // namespace

TEST_CASE("ranks that share layers make the steps of one process in each family of llama", "[train][dist][tensor]") {
  for (const char* name : {"gemma2", "gemma3", "qwen2_sliding", "smollm3"}) check(name, {.tensor = 2});
  for (const char* name : {"gemma3", "qwen3"}) check(name, {.tensor = 2, .sequence_parallel = true});
}

TEST_CASE("ranks that share sequences slide their windows over all of them", "[train][dist][context]") {
  for (const char* name : {"gemma3", "smollm3_sliding"}) check(name, {.context = 2});
  check("mistral", {.context = 4});
}

TEST_CASE("stages of each family of llama make the steps of one process", "[train][dist][pipeline]") {
  check("gemma2", {.pipeline = 2});
  check("gemma3", {.pipeline = 3});
}

}  // namespace trainctl::train
