#include "tracking/progress_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/text.h"
#include "tracking/lines.h"

namespace trainctl::tracking {
namespace {

constexpr std::int64_t kMinBar = 8;
constexpr std::int64_t kMaxBar = 40;

struct Part {
  std::string text;
  int rank;  // parts with a higher rank are dropped first
};

std::string of_total(std::int64_t done, std::int64_t total) {
  return std::to_string(done) + (total > 0 ? "/" + std::to_string(total) : "");
}

std::string clock(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  char text[64];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
  }
  return text;
}

/// Formats "epoch 2/3"; "" for a run of one epoch, which the steps tell about.
std::string epoch_text(const ProgressState& state) {
  const std::int64_t per_epoch = state.run.steps_per_epoch;
  const std::int64_t total = state.run.total_steps + state.run.schedule_offset;
  if (per_epoch <= 0 || total <= per_epoch) return "";
  const std::int64_t epoch =
      (std::max<std::int64_t>(state.now.step, 1) - 1 + state.run.schedule_offset) / per_epoch + 1;
  return "epoch " + of_total(epoch, (total + per_epoch - 1) / per_epoch);
}

std::vector<Part> parts_of(const ProgressState& state) {
  std::vector<Part> parts{{of_total(state.now.done, state.now.total), 0}};
  if (state.now.phase != "train") parts.push_back({"step " + of_total(state.now.step, state.run.total_steps), 1});
  if (const std::string epoch = epoch_text(state); !epoch.empty()) parts.push_back({epoch, 4});
  if (state.loss)
    parts.push_back({"loss " + core::format_metric(*state.loss), 2});
  else if (state.last)
    parts.push_back({loss_text(*state.last), 2});
  if (state.best) parts.push_back({"best " + format_metrics({{state.best->metric, state.best->value}}), 5});
  if (state.last) {
    parts.push_back({"lr " + core::format_digits(state.last->lr, 3), 7});
    const bool tokens = state.last->tokens_per_s > 0;
    const double rate = tokens ? state.last->tokens_per_s : state.last->samples_per_s;
    parts.push_back({core::format_fixed(rate, 0) + (tokens ? " tokens/s" : " samples/s"), 6});
  }
  if (state.eta_s >= 0 && state.eta_s < 1e7) parts.push_back({"ETA " + clock(state.eta_s), 3});
  if (!state.last) return parts;
  if (state.last->step_ms > 0)
    parts.push_back(
        {"data wait " + core::format_fixed(100 * state.last->data_wait_ms / state.last->step_ms, 1) + "%", 10});
  if (state.last->mfu && state.run.is_on_gpu)
    parts.push_back({"mfu " + core::format_fixed(100 * *state.last->mfu, 0) + "%", 9});
  parts.push_back({format_mib(state.last->memory_mib), 8});
  return parts;
}

std::int64_t width_of(const std::vector<Part>& parts) {
  std::int64_t width = 0;
  for (const Part& part : parts) width += 2 + static_cast<std::int64_t>(part.text.size());
  return width;
}

std::string repeat(const char* glyph, std::int64_t times) {
  std::string text;
  for (; times > 0; --times) text += glyph;
  return text;
}

std::string bar(const Progress& now, std::int64_t columns, const ProgressLook& look) {
  const double share =
      now.total > 0 ? std::clamp(static_cast<double>(now.done) / static_cast<double>(now.total), 0.0, 1.0) : 0;
  const auto full = static_cast<std::int64_t>(share * static_cast<double>(columns));
  const bool is_unicode = look.glyphs == Glyphs::unicode;
  const std::string done = repeat(is_unicode ? "━" : "#", full);
  const std::string left = repeat(is_unicode ? "─" : "-", columns - full);
  return look.colors == Colors::on ? "\x1b[32m" + done + "\x1b[0;2m" + left + "\x1b[0m" : done + left;
}

}  // namespace

std::string progress_line(const ProgressState& state, const ProgressLook& look) {
  std::vector<Part> parts = parts_of(state);
  const std::string& phase = state.now.phase;
  const std::int64_t fixed = static_cast<std::int64_t>(phase.size()) + 1;
  const auto has_room = [&](std::int64_t bar_columns) { return fixed + bar_columns + width_of(parts) <= look.columns; };
  while (!has_room(kMinBar) && parts.size() > 1)
    parts.erase(
        std::max_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  std::string line;
  if (has_room(kMinBar))
    line = phase + " " + bar(state.now, std::min(kMaxBar, look.columns - fixed - width_of(parts)), look);
  for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
  const bool fits = has_room(kMinBar) || static_cast<std::int64_t>(line.size()) <= look.columns;
  return fits ? line : line.substr(0, static_cast<std::size_t>(std::max<std::int64_t>(look.columns, 0)));
}

}  // namespace trainctl::tracking
