#include <nlohmann/json.hpp>

#include "cluster/page.js.h"
#include "cluster/report.h"
#include "core/text.h"
#include "html_report/page.h"

namespace trainctl::cluster {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMostShown = 64;  // micro-batches of the timeline
constexpr std::int64_t kMostActions = 20'000;
constexpr std::int64_t kBeyond = 4;  // times the data ranks of the layout
constexpr double kMicroseconds = 1e6;

/// One point for each number of copies: powers of two, and the layout's own.
ordered_json scaling_points(const ReportSubject& subject, const Layout& layout) {
  const SearchRequest& request = subject.request;
  ordered_json points = ordered_json::array();
  const auto add = [&](std::int64_t data) {
    Layout copies = layout;
    copies.data = data;
    const Setup setup{.model = request.model, .layout = copies, .cluster = request.cluster};
    const StepTime step = step_time(setup);
    const double rate = static_cast<double>(copies.global_batch() * request.model.sequence_length) / step.total;
    ordered_json point{{"world", copies.world()}, {"tokens_per_second", rate}, {"step_s", step.total}};
    if (subject.cost_per_hour > 0)
      point["cost_per_million_tokens"] =
          subject.cost_per_hour * static_cast<double>(copies.world()) / 3600 * 1e6 / rate;
    points.push_back(std::move(point));
  };
  for (std::int64_t data = 1; data <= kBeyond * layout.data; data *= 2) {
    if (data > layout.data && data / 2 < layout.data) add(layout.data);
    add(data);
  }
  return points;
}

ordered_json memory_by_rank(const Setup& setup) {
  ordered_json ranks = ordered_json::array();
  for (const MemoryUse& use : memory_of_ranks(setup))
    ranks.push_back({{"states", use.states},
                     {"activations", use.activations},
                     {"workspace", use.workspace},
                     {"overhead", use.overhead}});
  return ranks;
}

std::int64_t kind_of(pipeline::ActionKind kind) {
  if (kind == pipeline::ActionKind::forward) return 0;
  return kind == pipeline::ActionKind::backward_weight ? 2 : 1;
}

/// Returns tracks for src/html_report/timeline.js. An interval has begin and duration in us, depth, name and kind.
ordered_json timeline_of(const Setup& setup) {
  ordered_json names = ordered_json::array();
  ordered_json tracks = ordered_json::array();
  if (setup.layout.pipeline > 1) {
    const std::int64_t most = kMostActions / (3 * setup.layout.pipeline * setup.layout.stages_per_rank);
    const pipeline::Timeline timeline = first_timeline(setup, std::min(kMostShown, most));
    for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
      ordered_json intervals = ordered_json::array();
      for (const pipeline::TimedAction& timed : timeline.ranks[rank]) {
        intervals.push_back({timed.begin * kMicroseconds, (timed.end - timed.begin) * kMicroseconds, 0, names.size(),
                             kind_of(timed.action.kind)});
        names.push_back(pipeline::text_of(timed.action));
      }
      tracks.push_back({{"name", "rank " + std::to_string(rank)}, {"intervals", std::move(intervals)}});
    }
  }
  return {{"names", std::move(names)}, {"tracks", std::move(tracks)}};
}

}  // namespace

std::string format_html(const ReportSubject& subject) {
  const SearchRequest& request = subject.request;
  const Layout& layout = subject.result.best.front().layout;
  const Setup setup{.model = request.model, .layout = layout, .cluster = request.cluster};
  ordered_json data = ordered_json::parse(format_json(subject));
  data["conditions"] = "On " + core::format_count(request.world) + " × " + request.cluster.device.name + ", nodes of " +
                       core::format_count(request.cluster.network.domain) + ", network " +
                       request.cluster.network.name + ": " + axes_text(layout) + ".";
  data["scaling"] = scaling_points(subject, layout);
  data["memory"] = memory_by_rank(setup);
  data["timeline"] = timeline_of(setup);
  return html_report::format_page({.title = subject.experiment + ": layouts of a cluster",
                                   .data = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
                                   .script = kClusterPageJs});
}

}  // namespace trainctl::cluster
