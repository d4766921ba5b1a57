// The rules, and the words that they share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/summary.h"

namespace trainctl::profiler {

/// Nothing, where the run is healthy in this respect or the change was made already.
using Rule = std::optional<Verdict> (*)(const ProfileSummary& summary);

std::optional<Verdict> slow_loader(const ProfileSummary& summary);
std::optional<Verdict> tiny_batch(const ProfileSummary& summary);
std::optional<Verdict> unfused_optimizer(const ProfileSummary& summary);
std::optional<Verdict> needless_synchronisation(const ProfileSummary& summary);
std::optional<Verdict> frequent_logging(const ProfileSummary& summary);
std::optional<Verdict> layout_thrash(const ProfileSummary& summary);
std::optional<Verdict> fp32_where_bf16_pays(const ProfileSummary& summary);
std::optional<Verdict> fragmentation(const ProfileSummary& summary);
std::optional<Verdict> memory_pressure(const ProfileSummary& summary);
std::optional<Verdict> needless_recomputation(const ProfileSummary& summary);
std::optional<Verdict> exposed_communication(const ProfileSummary& summary);
std::optional<Verdict> straggler(const ProfileSummary& summary);

/// Who waits for a slower rank isn't slowed by the network: what the least waiting rank waits is communication, ms.
double exposed_on_every_rank(const ProfileSummary& summary);

std::string ms_text(double ms);
std::string mib_text(double mib);
std::string percent(double share);
/// "12 ms a step (1.15× the speed)"; `up_to`: where less may come of it.
enum class Certainty { expected, at_most };
std::string time_gain(const ProfileSummary& summary, double gain_ms, Certainty certainty = Certainty::at_most);

}  // namespace trainctl::profiler
