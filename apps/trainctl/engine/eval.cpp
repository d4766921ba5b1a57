#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpointed_run.h"
#include "core/error.h"
#include "engine.h"
#include "notice_printer.h"
#include "train/loop/evaluate.h"

namespace trainctl::engine {
namespace {

std::string as_json(const train::EvaluationResult& result, const CheckpointedRun& loaded) {
  nlohmann::ordered_json document = {
      {"checkpoint", loaded.checkpoint}, {"step", loaded.run->step}, {"seconds", result.seconds}};
  for (const auto& [name, value] : result.metrics) document["metrics"][name] = value;
  if (!result.details.empty()) document["details"] = nlohmann::ordered_json::parse(result.details);
  return document.dump(2);
}

void print_table(const train::EvaluationResult& result, const CheckpointedRun& loaded) {
  std::printf("%s\n", title(loaded).c_str());
  for (const auto& [name, value] : result.metrics) std::printf("  %-20s %.6g\n", name.c_str(), value);
}

}  // namespace

int run_eval(const cli::EngineCall& call) {
  const CheckpointedRun loaded = load_checkpointed_run(call, Samples::needed);
  if (!loaded.run->data.eval) throw core::Error("the experiment names no evaluation set").hint("give dataset.eval");
  const bool needs_head = loaded.run->model->vocabulary_head() == nullptr && loaded.replaced != nullptr &&
                          loaded.replaced->vocabulary_head() != nullptr;
  if (needs_head)
    throw core::Error("language models are evaluated from checkpoints: an exported graph gives all logits at once")
        .hint("'trainctl predict' runs the graph");
  NoticePrinter printer;
  const train::EvaluationResult result = train::evaluate(*loaded.run, printer);
  if (call.json)
    std::printf("%s\n", as_json(result, loaded).c_str());
  else
    print_table(result, loaded);
  return 0;
}

}  // namespace trainctl::engine
