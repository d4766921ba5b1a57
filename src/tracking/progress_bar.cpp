#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/terminal.h"
#include "tracking/append_file.h"
#include "tracking/lines.h"
#include "tracking/progress_line.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr std::string_view kEraseLine = "\r\x1b[2K";

/// Returns one column less than the terminal has, since a full line makes some terminals wrap.
std::int64_t columns_of(int descriptor) {
  return core::terminal_columns(descriptor).value_or(80) - 1;
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns the locale's character set, by the variables' precedence.
Glyphs glyphs_of_terminal() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = environment(name);
    if (locale.empty()) continue;
    const bool is_utf8 =
        locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
    return is_utf8 ? Glyphs::unicode : Glyphs::ascii;
  }
  return Glyphs::ascii;
}

class ProgressBar final : public Sink {
 public:
  ProgressBar(int descriptor, core::Clock now)
      : descriptor_(descriptor),
        now_(std::move(now)),
        look_{.glyphs = glyphs_of_terminal(), .colors = environment("NO_COLOR").empty() ? Colors::on : Colors::off} {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() override {
    if (is_shown_) write_all(descriptor_, "\n");
  }

  void on(const Event& event) override {
    if (const auto* run = std::get_if<RunStarted>(&event)) state_.run = *run;
    if (const auto* progress = std::get_if<Progress>(&event)) return show(*progress);
    if (const auto* step = std::get_if<StepLogged>(&event)) {
      state_.last = *step;  // the next redraw shows it
      state_.loss.reset();
      return;
    }
    if (const auto* evaluated = std::get_if<Evaluated>(&event)) state_.best = evaluated->best;
    if (const auto* run = std::get_if<RunFinished>(&event)) return end(*run);
    print_above(line_of(event, state_.run));
  }

 private:
  void show(const Progress& progress) {
    const bool is_new_phase = progress.phase != state_.now.phase;
    state_.now = progress;
    if (progress.loss) state_.loss = progress.loss;
    const core::TimePoint now = now_();
    if (!begin_) begin_ = now, begin_step_ = progress.step;
    if (!is_new_phase && now - drawn_ < kBetweenDraws && progress.done != progress.total) return;
    update_eta(now);
    drawn_ = now;
    write(std::string(kEraseLine) + drawn());
  }

  /// Estimates the remaining time from the whole run so far, including evaluations, since they recur.
  void update_eta(core::TimePoint now) {
    const std::int64_t done = state_.now.step - begin_step_;
    if (done <= 0 || state_.run.total_steps <= 0) return;
    const double elapsed = std::chrono::duration<double>(now - *begin_).count();
    state_.eta_s = elapsed / static_cast<double>(done) * static_cast<double>(state_.run.total_steps - state_.now.step);
  }

  void print_above(const std::string& line) {
    if (line.empty()) return;
    write((is_shown_ ? std::string(kEraseLine) : "") +
          core::wrap_words(core::without_controls(line), columns_of(descriptor_)) + "\n" + (is_shown_ ? drawn() : ""));
  }

  /// Takes the bar away: the last lines say more.
  void end(const RunFinished& run) {
    if (is_shown_) write(kEraseLine);
    is_shown_ = false;
    print_above(line_of(run, state_.run));
  }

  std::string drawn() {
    look_.columns = columns_of(descriptor_);
    is_shown_ = true;
    return progress_line(state_, look_);
  }

  void write(std::string_view text) {
    if (!write_all(descriptor_, text)) throw core::system_error("write", "the terminal");
  }

  int descriptor_;
  core::Clock now_;
  ProgressLook look_;
  ProgressState state_;
  bool is_shown_ = false;
  std::optional<core::TimePoint> begin_;
  std::int64_t begin_step_ = 0;
  core::TimePoint drawn_{};
};

}  // namespace

std::unique_ptr<Sink> make_progress_bar(int descriptor, core::Clock now) {
  return std::make_unique<ProgressBar>(descriptor, std::move(now));
}

}  // namespace trainctl::tracking
