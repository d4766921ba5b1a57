#include <algorithm>
#include <cstdio>

#include "core/error.h"
#include "core/terminal.h"
#include "core/text.h"
#include "engine.h"
#include "notice_printer.h"
#include "train/loop/coordinate_check.h"

namespace trainctl::engine {
namespace {

/// Returns up to four widths from the base's to the network's, each about the same multiple of the one before.
std::vector<std::int64_t> usual_widths(const model::ModelConfig& config, std::int64_t own) {
  constexpr int kWidths = 4;
  const std::int64_t base = config.mup ? config.mup->base_width : std::max<std::int64_t>(1, own / 8);
  std::vector<std::int64_t> widths;
  for (std::int64_t width = base; width < own; width *= 2)
    if (model::size_without(config.network, width).empty()) widths.push_back(width);
  if (widths.size() >= kWidths) widths.erase(widths.begin(), widths.end() - (kWidths - 1));
  widths.push_back(own);
  return widths;
}

std::vector<std::int64_t> widths_of(const model::ModelConfig& config, std::vector<std::int64_t> asked) {
  const std::optional<std::int64_t> own = model::width_of(config.network);
  if (!own)
    throw core::Error("--coordinates: model " + std::string(config.network.kind()) + " has no key for its width")
        .hint("take a network with hidden_size, hidden or widen_factor");
  std::vector<std::int64_t> widths = asked.empty() ? usual_widths(config, *own) : std::move(asked);
  std::sort(widths.begin(), widths.end());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  if (widths.size() < 2)
    throw core::Error("--coordinates compares two widths or more, and there is only " + std::to_string(widths.front()))
        .hint("give them, for example --widths " + std::to_string(*own) + "," + std::to_string(*own * 2));
  for (const std::int64_t width : widths)
    if (width < 1 || !model::size_without(config.network, width).empty())
      throw core::Error("--widths: the network can't have width " + std::to_string(width) + ": model." +
                        model::size_without(config.network, width) + " is no whole number there");
  return widths;
}

void print_values(const std::vector<double>& values) {
  for (const double value : values) core::print(stdout, " %9.3g", value);
}

void print(const train::CoordinateCheck& check) {
  std::size_t longest = 5;
  for (const train::BlockCoordinates& block : check.blocks) longest = std::max(longest, block.name.size());
  const auto name_width = static_cast<int>(longest);
  core::print(stdout, "mean absolute change of each block's output in %lld updates, average of %lld seeds\n",
              static_cast<long long>(check.options.steps), static_cast<long long>(check.options.seeds));
  core::print(stdout, "%-*s", name_width, "width");
  for (const std::int64_t width : check.options.widths) core::print(stdout, " %9lld", static_cast<long long>(width));
  core::print(stdout, "  %s\n", "slope");
  for (const train::BlockCoordinates& block : check.blocks) {
    core::print(stdout, "%-*s", name_width, block.name.c_str());
    print_values(block.change);
    core::print(stdout, "  %+.2f\n", block.slope);
  }
}

}  // namespace

int run_coordinate_check(const cli::EngineCall& call) {
  const auto& options = call.options<cli::CheckOptions>();
  const experiment::Experiment& experiment = call.loaded.experiment;
  std::vector<tracking::Notice> notices;
  const train::CoordinateCheck check = train::check_coordinates(
      experiment, {.widths = widths_of(experiment.model, options.widths), .steps = options.steps}, notices);
  NoticePrinter printer;
  tell(printer, notices);
  print(check);
  const train::BlockCoordinates* const failure = check.failure();
  if (failure == nullptr) {
    core::print(stdout, "the width doesn't change the size of updates: every slope is within ±%.2f\n",
                train::kLargestSlope);
  } else {
    core::print(stdout, "the width changes the size of updates: the slope of %s is %+.2f; expected at most ±%.2f\n",
                failure->name.c_str(), failure->slope, train::kLargestSlope);
    if (!experiment.model.mup)
      core::print(stdout, "  try: model.mup.base_width: %lld\n", static_cast<long long>(check.options.widths.front()));
  }
  core::flush_standard_output();
  return failure == nullptr ? core::kExitDone : core::kExitFailed;
}

}  // namespace trainctl::engine
