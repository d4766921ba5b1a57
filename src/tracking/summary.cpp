#include <nlohmann/json.hpp>
#include <utility>

#include "core/file.h"
#include "tracking/record.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

std::string_view text_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::finished:
      return "finished";
    case Outcome::stopped:
      return "stopped";
    case Outcome::failed:
      return "failed";
  }
  return "failed";
}

class Summary final : public Sink {
 public:
  explicit Summary(std::filesystem::path directory) : directory_(std::move(directory)) {}

  void on(const Event& event) override {
    if (const auto* evaluated = std::get_if<Evaluated>(&event)) write(*evaluated);
    if (const auto* predicted = std::get_if<SamplesPredicted>(&event))
      core::write_file_atomically(directory_ / "predictions.json", predicted->document + "\n");
    if (const auto* finished = std::get_if<RunFinished>(&event)) write(*finished);
  }

 private:
  void write(const Evaluated& evaluated) {
    Record record;
    record.count("step", evaluated.step);
    record.numbers("metrics", evaluated.metrics);
    record.number("seconds", evaluated.seconds);
    if (!evaluated.details.empty()) {
      auto details = nlohmann::ordered_json::parse(evaluated.details, nullptr, false);
      record.object("details", details.is_discarded() ? nlohmann::ordered_json(evaluated.details) : std::move(details));
    }
    core::write_file_atomically(directory_ / "evaluation.json", record.line());
  }

  static nlohmann::ordered_json memory_by_rank(const RunFinished& finished) {
    auto ranks = nlohmann::ordered_json::array();
    for (const RankMemory& rank : finished.memory_by_rank)
      ranks.push_back({{"peak_mib", rank.peak_mib}, {"allocated_mib", rank.allocated_mib}});
    return ranks;
  }

  void write(const RunFinished& finished) {
    Record record;
    record.text("outcome", text_of(finished.outcome));
    if (!finished.error.empty()) record.text("error", finished.error);
    record.count("steps", finished.steps);
    record.numbers("final_metrics", finished.final_metrics);
    record.numbers("best_metrics", finished.best_metrics);
    record.count("best_step", finished.best_step);
    record.number("wall_s", finished.wall_s);
    // A start that found all steps done has no measurements.
    const auto measured = [&](const char* key, double value) {
      if (value > 0) record.number(key, value);
    };
    measured("time_to_first_step_s", finished.time_to_first_step_s);
    measured("median_step_ms", finished.median_step_ms);
    measured("samples_per_s", finished.samples_per_s);
    measured("tokens_per_s", finished.tokens_per_s);
    record.number("data_wait_share", finished.data_wait_share);
    record.text("data_wait_cause", finished.data_wait_cause);
    record.count("data_workers", finished.data_workers);
    measured("peak_memory_mib", finished.peak_memory_mib);
    if (!finished.memory_by_rank.empty()) record.object("memory_by_rank", memory_by_rank(finished));
    record.count("num_parameters", finished.num_parameters);
    record.count("skipped_steps", finished.num_skipped);
    record.object("provenance", nlohmann::ordered_json(finished.provenance));
    core::write_file_atomically(directory_ / "summary.json", record.pretty(), core::Durability::disk);
  }

  std::filesystem::path directory_;
};

}  // namespace

std::unique_ptr<Sink> make_summary(const TrackerOptions& options) {
  // Files of an earlier run would be taken for this run's, and a summary of an earlier start for this start's.
  std::filesystem::remove(options.run_directory / "summary.json");
  if (!options.resumed)
    for (const char* name : {"evaluation.json", "predictions.json"})
      std::filesystem::remove(options.run_directory / name);
  return std::make_unique<Summary>(options.run_directory);
}

}  // namespace trainctl::tracking
