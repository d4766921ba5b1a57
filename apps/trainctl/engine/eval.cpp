#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "engine.h"
#include "notice_printer.h"
#include "train/evaluate.h"
#include "train/restore.h"

namespace trainctl {
namespace {

std::string as_json(const EvaluationResult& result, std::int64_t step, const std::string& checkpoint) {
  nlohmann::ordered_json document = {{"checkpoint", checkpoint}, {"step", step}, {"seconds", result.seconds}};
  for (const auto& [name, value] : result.metrics) document["metrics"][name] = value;
  if (!result.details.empty()) document["details"] = nlohmann::ordered_json::parse(result.details);
  return document.dump(2);
}

void print_table(const EvaluationResult& result, std::int64_t step, const std::string& checkpoint) {
  std::printf("%s (step %s)\n", checkpoint.c_str(), format_count(step).c_str());
  for (const auto& [name, value] : result.metrics) std::printf("  %-16s %.6g\n", name.c_str(), value);
}

}  // namespace

int run_eval(const EngineCall& call) {
  const std::string checkpoint = step_directory_of(call.checkpoint).string();
  NoticePrinter printer;
  std::vector<Notice> notices;
  const std::unique_ptr<Run> run = build(call.loaded.experiment, notices);
  tell(printer, notices);
  if (!run->data.eval) throw Error("the experiment names no evaluation set").hint("give dataset.eval");
  restore(*run, checkpoint, call.loaded.flat, printer);
  const EvaluationResult result = evaluate(*run, printer);
  if (call.json)
    std::printf("%s\n", as_json(result, run->step, checkpoint).c_str());
  else
    print_table(result, run->step, checkpoint);
  return 0;
}

}  // namespace trainctl
