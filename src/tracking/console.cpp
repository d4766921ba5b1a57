#include "core/log.h"
#include "tracking/lines.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

core::Severity severity_of(const Event& event) {
  const auto* notice = std::get_if<Notice>(&event);
  if (notice != nullptr && notice->level == Level::warning) return core::Severity::warning;
  const auto* run = std::get_if<RunFinished>(&event);
  return run != nullptr && run->outcome == Outcome::failed ? core::Severity::error : core::Severity::info;
}

class ConsoleLines final : public Sink {
 public:
  ConsoleLines(int descriptor, Verbosity verbosity)
      : log_({.descriptor = descriptor,
              .least = verbosity == Verbosity::quiet ? core::Severity::warning : core::Severity::info}) {}

  void on(const Event& event) override {
    if (const auto* run = std::get_if<RunStarted>(&event)) run_ = *run;
    const auto* notice = std::get_if<Notice>(&event);
    const std::string line = notice != nullptr ? notice->text : line_of(event, run_);
    if (!line.empty()) log_.write(severity_of(event), line);
  }

 private:
  core::Log log_;
  RunStarted run_;
};

}  // namespace

std::unique_ptr<Sink> make_console(int descriptor, Verbosity verbosity) {
  return std::make_unique<ConsoleLines>(descriptor, verbosity);
}

}  // namespace trainctl::tracking
