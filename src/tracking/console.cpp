#include "core/error.h"
#include "tracking/append_file.h"
#include "tracking/lines.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

bool is_trouble(const Event& event) {
  if (const auto* notice = std::get_if<Notice>(&event)) return notice->level == Level::warning;
  if (const auto* run = std::get_if<RunFinished>(&event)) return run->outcome == Outcome::failed;
  return false;
}

class ConsoleLines final : public Sink {
 public:
  ConsoleLines(int descriptor, Verbosity verbosity) : descriptor_(descriptor), verbosity_(verbosity) {}

  void on(const Event& event) override {
    if (const auto* run = std::get_if<RunStarted>(&event)) total_steps_ = run->total_steps;
    if (verbosity_ == Verbosity::quiet && !is_trouble(event)) return;
    const std::string line = line_of(event, total_steps_);
    if (!line.empty() && !write_all(descriptor_, line + "\n")) throw core::system_error("write", "standard error");
  }

 private:
  int descriptor_;
  Verbosity verbosity_;
  std::int64_t total_steps_ = 0;
};

}  // namespace

std::unique_ptr<Sink> make_console(int descriptor, Verbosity verbosity) {
  return std::make_unique<ConsoleLines>(descriptor, verbosity);
}

}  // namespace trainctl::tracking
