#include "cluster/rehearsed.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "compare/text_table.h"
#include "core/json.h"
#include "core/text.h"

namespace trainctl::cluster {
namespace {

constexpr double kMs = 1e3;

RankGroup group_of(const std::vector<std::int64_t>& members, std::int64_t nodes_of) {
  std::map<std::int64_t, std::int64_t> by_node;
  for (const std::int64_t member : members) ++by_node[member / nodes_of];
  std::int64_t most = 1;
  for (const auto& [node, count] : by_node) most = std::max(most, count);
  return {.num_ranks = static_cast<double>(members.size()), .ranks_within_node = static_cast<double>(most)};
}

/// Whether the bytes pass through a ring once, as in a gathering; those of a sum do it twice.
bool is_gather(replay::Collective kind) {
  return kind == replay::Collective::all_gather || kind == replay::Collective::reduce_scatter ||
         kind == replay::Collective::all_to_all || kind == replay::Collective::broadcast;
}

/// Returns the time of so many bytes, from the time of the communication.
double seconds_of(const replay::Communication& what, double bytes, const Collectives& collectives,
                  const RankGroup& group) {
  if (what.is_transfer()) return collectives.transfer(bytes, group.ranks_within_node < group.num_ranks);
  return is_gather(what.kind) ? collectives.gather(bytes, group) : collectives.sum(bytes, group);
}

std::string ms_text(double seconds) {
  return core::format_fixed(seconds * kMs, 1);
}

std::string axes_text(const replay::RankTime& rank) {
  std::string text;
  for (const auto& [axes, seconds] : rank.exposed_s)
    if (seconds > 0) text += (text.empty() ? "" : ", ") + axes + " " + ms_text(seconds);
  return text.empty() ? "-" : text;
}

}  // namespace

replay::Cost cost_of(const replay::Communication& what, const Collectives& collectives, std::int64_t nodes_of) {
  constexpr double kNoBytes = 1e-9;  // of none, there is no communication
  const RankGroup group = group_of(what.members, nodes_of);
  const double bytes = std::max(kNoBytes, what.bytes);
  const double whole = seconds_of(what, bytes, collectives, group);
  double link = whole - seconds_of(what, kNoBytes, collectives, group);
  // A ring that gathers half of a sum's bytes, at the rate of sums: others can use the link while it stalls.
  if (is_gather(what.kind)) link = collectives.sum(bytes / 2, group) - collectives.sum(kNoBytes, group);
  return {.link_s = link, .delay_s = whole - link, .device_share = collectives.network().multiprocessor_share};
}

std::string format_rehearsed(const RehearsedStep& rehearsed) {
  std::string text = rehearsed.experiment + ": " + core::format_count(rehearsed.world) + " ranks, " +
                     core::format_count(rehearsed.nodes_of) + " of a node, computing as on this device, network " +
                     rehearsed.network + "\n\nstep " + ms_text(rehearsed.step.step_s) + " ms\n\n";
  std::vector<compare::TextRow> rows{{"rank", "computing ms", "bubble ms", "exposed ms", "of that, by axes"}};
  for (const replay::RankTime& rank : rehearsed.step.ranks)
    rows.push_back({core::format_count(rank.rank), ms_text(rank.compute_s), ms_text(rank.bubble_s),
                    ms_text(rank.all_exposed_s()), axes_text(rank)});
  return text + compare::align(rows);
}

std::string format_rehearsed_json(const RehearsedStep& rehearsed) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const replay::RankTime& rank : rehearsed.step.ranks) {
    nlohmann::ordered_json exposed = nlohmann::ordered_json::object();
    for (const auto& [axes, seconds] : rank.exposed_s) exposed[axes] = seconds * kMs;
    ranks.push_back({{"rank", rank.rank},
                     {"compute_ms", rank.compute_s * kMs},
                     {"bubble_ms", rank.bubble_s * kMs},
                     {"exposed_ms", rank.all_exposed_s() * kMs},
                     {"exposed_ms_by_axes", std::move(exposed)},
                     {"total_ms", rank.total_s * kMs}});
  }
  const nlohmann::ordered_json document{{"experiment", rehearsed.experiment}, {"device", "here"},
                                        {"network", rehearsed.network},       {"world", rehearsed.world},
                                        {"nodes_of", rehearsed.nodes_of},     {"step_ms", rehearsed.step.step_s * kMs},
                                        {"ranks", std::move(ranks)}};
  return core::indented_json(document);
}

}  // namespace trainctl::cluster
