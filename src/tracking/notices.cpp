#include <cmath>
#include <optional>

#include "tracking/append_file.h"
#include "tracking/record.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

class Notices final : public Sink {
 public:
  explicit Notices(const TrackerOptions& options)
      : path_(options.run_directory / "notices.jsonl"), unix_time_(options.unix_time) {
    if (!options.resumed) std::filesystem::remove(path_);
  }

  void on(const Event& event) override {
    if (const auto* step = std::get_if<StepLogged>(&event)) step_ = step->step;
    if (const auto* evaluated = std::get_if<Evaluated>(&event)) step_ = evaluated->step;
    if (const auto* started = std::get_if<RunStarted>(&event)) step_ = started->first_step;
    const auto* notice = std::get_if<Notice>(&event);
    if (notice == nullptr) return;
    Record record;
    record.text("level", notice->level == Level::warning ? "warning" : "info");
    record.count("step", step_);
    record.text("text", notice->text);
    record.number("time", std::round(unix_time_() * 1e3) / 1e3);
    if (!file_) file_.emplace(path_, IfExists::append);
    file_->append(record.line());
  }

 private:
  std::filesystem::path path_;
  std::function<double()> unix_time_;
  std::optional<AppendFile> file_;  // once there is a notice
  std::int64_t step_ = 0;           // of the newest record
};

}  // namespace

std::unique_ptr<Sink> make_notices(const TrackerOptions& options) {
  return std::make_unique<Notices>(options);
}

}  // namespace trainctl::tracking
