#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpointed_run.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "dataset/loader/bad_samples.h"
#include "engine.h"
#include "notice_printer.h"
#include "train/loop/evaluate.h"
#include "train/loop/logits_of_samples.h"
#include "train/run/stored_logits.h"

namespace trainctl::engine {
namespace {

std::string as_json(const train::EvaluationResult& result, const CheckpointedRun& loaded, const std::string& split) {
  nlohmann::ordered_json document = {
      {"checkpoint", loaded.checkpoint}, {"step", loaded.run->step}, {"split", split}, {"seconds", result.seconds}};
  for (const auto& [name, value] : result.metrics) document["metrics"][name] = value;
  if (!result.details.empty()) document["details"] = nlohmann::ordered_json::parse(result.details);
  return core::indented_json(document);
}

/// Warns of samples that can't be read. Returns how many of them were left out.
std::int64_t tell_bad_samples(const train::Run& run) {
  constexpr std::size_t kMostNamed = 5;
  if (run.data.bad_samples == nullptr) return 0;
  const std::vector<dataset::BadSampleReport> reports = run.data.bad_samples->take();
  if (reports.empty()) return 0;
  const bool are_left_out = run.data.bad_samples->policy() == dataset::OnBadSample::skip;
  core::log().warning(core::format_count(reports.size()) + " samples can't be read, and " +
                      (are_left_out ? "are left out" : "others stand for them, which count twice"));
  for (std::size_t i = 0; i < std::min(reports.size(), kMostNamed); ++i) core::log().warning(reports[i].what);
  return are_left_out ? std::ssize(reports) : 0;
}

void print_table(const train::EvaluationResult& result, const CheckpointedRun& loaded, const std::string& split,
                 std::int64_t num_left_out) {
  const std::int64_t num_samples = loaded.run->data.eval->num_samples();
  core::print(stdout, "%s: %s set, %s%s samples\n", title(loaded).c_str(), split.c_str(),
              core::format_count(num_samples - num_left_out).c_str(),
              num_left_out == 0 ? "" : (" of " + core::format_count(num_samples)).c_str());
  for (const auto& [name, value] : result.metrics) core::print(stdout, "  %-20s %.6g\n", name.c_str(), value);
}

void refuse_missing_set(const dataset::DatasetConfig& dataset, const std::string& split) {
  if (split == "eval" && !dataset.has_evaluation_set())
    throw core::Error("the experiment names no evaluation set").hint("give dataset.eval, or --split train");
  if (split == "test" && !dataset.has_test_set())
    throw core::Error("the experiment names no test set")
        .hint(
            "--set dataset.test=… names files that training has not seen; dataset.test_fraction keeps samples, if it "
            "is set before training");
}

Samples samples_of(const std::string& split) {
  if (split == "test") return Samples::test;
  return split == "train" ? Samples::train : Samples::eval;
}

}  // namespace

int run_eval(const cli::EngineCall& call) {
  const std::string& split = call.options<cli::EvalOptions>().split;
  refuse_missing_set(call.loaded.experiment.dataset, split);
  const CheckpointedRun loaded = load_checkpointed_run(call, samples_of(split));
  const bool needs_head = loaded.run->model->vocabulary_head() == nullptr && loaded.replaced != nullptr &&
                          loaded.replaced->vocabulary_head() != nullptr;
  if (needs_head)
    throw core::Error("language models are evaluated from checkpoints: an exported graph gives all logits at once")
        .hint("'trainctl predict' runs the graph");
  NoticePrinter printer;
  if (const std::string& path = call.options<cli::EvalOptions>().logits; !path.empty()) {
    if (split != "train") throw core::Error("--logits is of the training set").hint("--split train --logits " + path);
    train::write_logits(path, train::logits_of_samples(*loaded.run, printer), loaded.run->data);
  }
  const train::EvaluationResult result = train::evaluate(*loaded.run, printer);
  const std::int64_t num_left_out = tell_bad_samples(*loaded.run);
  if (call.json)
    core::print(stdout, "%s\n", as_json(result, loaded, split).c_str());
  else
    print_table(result, loaded, split, num_left_out);
  return 0;
}

}  // namespace trainctl::engine
