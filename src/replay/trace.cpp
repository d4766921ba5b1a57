#include "replay/trace.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "core/median.h"

namespace trainctl::replay {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 8> kCollectives{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                       "all_to_all", "send",       "receive",        "barrier"};

Json json_of(const Communication& one) {
  return {{"kind", kCollectives[static_cast<std::size_t>(one.kind)]},
          {"axes", one.axes},
          {"bytes", one.bytes},
          {"members", one.members}};
}

Communication communication_of(const Json& json) {
  const auto kind = json.at("kind").get<std::string>();
  const auto* const found = std::find(kCollectives.begin(), kCollectives.end(), kind);
  if (found == kCollectives.end()) throw core::Error("a trace has an unknown collective: " + kind);
  return {.kind = static_cast<Collective>(found - kCollectives.begin()),
          .axes = json.at("axes").get<std::string>(),
          .bytes = json.at("bytes").get<double>(),
          .members = json.at("members").get<std::vector<std::int64_t>>()};
}

RankTrace trace_of(const Json& json) {
  RankTrace trace{.rank = json.at("rank").get<std::int64_t>(),
                  .compute_s_after = json.at("compute_s_after").get<double>(),
                  .receipts_queue = json.at("receipts_queue").get<bool>()};
  for (const Json& one : json.at("communications")) trace.communications.push_back(communication_of(one));
  for (const Json& event : json.at("events")) {
    trace.events.push_back({.compute_s = event.at(0).get<double>(),
                            .waits = event.at(1).get<bool>(),
                            .communication = event.at(2).get<std::size_t>()});
    if (trace.events.back().communication >= trace.communications.size())
      throw core::Error("a trace has an event of communication " + std::to_string(trace.events.back().communication) +
                        ", and " + std::to_string(trace.communications.size()) + " of them");
  }
  return trace;
}

}  // namespace

std::vector<RankTrace> read_traces(const std::string& json) {
  try {
    std::vector<RankTrace> traces;
    for (const Json& one : core::parse_json(json, "the traces of ranks")) traces.push_back(trace_of(one));
    return traces;
  } catch (const Json::exception& error) {
    throw core::Error("cannot read the traces of ranks: " + std::string(error.what()));
  }
}

std::string format_traces(const std::vector<RankTrace>& traces) {
  Json list = Json::array();
  for (const RankTrace& trace : traces) {
    Json communications = Json::array();
    for (const Communication& one : trace.communications) communications.push_back(json_of(one));
    Json events = Json::array();
    for (const Event& event : trace.events)
      events.push_back(Json::array({event.compute_s, event.waits, event.communication}));
    list.push_back({{"rank", trace.rank},
                    {"communications", std::move(communications)},
                    {"events", std::move(events)},
                    {"compute_s_after", trace.compute_s_after},
                    {"receipts_queue", trace.receipts_queue}});
  }
  return list.dump();
}

RankTrace median_of(const std::vector<RankTrace>& steps) {
  RankTrace median_step = steps.front();
  const auto median_over = [&](const std::function<double(const RankTrace&)>& value) {
    std::vector<double> values;
    values.reserve(steps.size());
    for (const RankTrace& step : steps) values.push_back(value(step));
    return core::median(std::move(values));
  };
  for (const RankTrace& step : steps)
    core::ensure(step.events.size() == median_step.events.size() && step.communications == median_step.communications,
                 "steps communicate alike");
  for (std::size_t i = 0; i < median_step.events.size(); ++i)
    median_step.events[i].compute_s = median_over([i](const RankTrace& step) { return step.events[i].compute_s; });
  median_step.compute_s_after = median_over([](const RankTrace& step) { return step.compute_s_after; });
  return median_step;
}

}  // namespace trainctl::replay
