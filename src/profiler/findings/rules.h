// The rules, and the words that they share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/summary.h"

namespace trainctl::profiler {

/// Nothing, where the run is healthy in this respect or the change was made already.
using Rule = std::optional<Finding> (*)(const ProfileSummary& summary);

std::optional<Finding> slow_loader(const ProfileSummary& summary);
std::optional<Finding> tiny_batch(const ProfileSummary& summary);
std::optional<Finding> unfused_optimizer(const ProfileSummary& summary);
std::optional<Finding> needless_synchronisation(const ProfileSummary& summary);
std::optional<Finding> frequent_logging(const ProfileSummary& summary);
std::optional<Finding> layout_thrash(const ProfileSummary& summary);
std::optional<Finding> fp32_where_bf16_pays(const ProfileSummary& summary);
std::optional<Finding> fragmentation(const ProfileSummary& summary);
std::optional<Finding> memory_pressure(const ProfileSummary& summary);
std::optional<Finding> needless_recomputation(const ProfileSummary& summary);
std::optional<Finding> exposed_communication(const ProfileSummary& summary);
std::optional<Finding> pipeline_bubble(const ProfileSummary& summary);
std::optional<Finding> straggler(const ProfileSummary& summary);

/// Who waits for a slower rank isn't slowed by the network: what the least waiting rank waits is communication, ms.
/// Without the wait for other stages of a pipeline.
double exposed_on_every_rank(const ProfileSummary& summary);

std::string ms_text(double ms);
std::string mib_text(double mib);
std::string percent(double share);
/// "12 ms a step (1.15× the speed)"; `up_to`: where less may come of it.
enum class Certainty { expected, at_most };
std::string time_gain(const ProfileSummary& summary, double gain_ms, Certainty certainty = Certainty::at_most);

}  // namespace trainctl::profiler
