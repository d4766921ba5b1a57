#include "cluster/goodput.h"

#include <cmath>

namespace trainctl::cluster {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kLackOfNodes = 1e-3;

/// Returns the expected time of one interval of training with its checkpoint, interruptions included.
double expected_time(const Interruptions& interruptions, double interval) {
  const double mean = interruptions.mean_time_between;
  return mean * std::exp(interruptions.restart / mean) * std::expm1((interval + interruptions.checkpoint) / mean);
}

}  // namespace

Goodput goodput_at(const Interruptions& interruptions, double interval) {
  const double time = expected_time(interruptions, interval);
  Goodput goodput{.interval = interval};
  goodput.training = interval / time;
  goodput.checkpointing = interruptions.checkpoint / time;
  goodput.lost = 1 - goodput.training - goodput.checkpointing;
  return goodput;
}

double young_daly_interval(const Interruptions& interruptions) {
  return std::sqrt(2 * interruptions.checkpoint * interruptions.mean_time_between);
}

Goodput best_goodput(const Interruptions& interruptions) {
  // The share has one maximum: golden-section search on the logarithm of the interval.
  const double golden = (std::sqrt(5.0) - 1) / 2;
  const double guess = std::log(young_daly_interval(interruptions));
  double low = guess - 5;
  double high = guess + 5;
  const auto share = [&](double at) { return goodput_at(interruptions, std::exp(at)).training; };
  for (int i = 0; i < 60; ++i) {
    const double left = high - golden * (high - low);
    const double right = low + golden * (high - low);
    if (share(left) < share(right))
      low = left;
    else
      high = right;
  }
  return goodput_at(interruptions, std::exp((low + high) / 2));
}

std::int64_t spare_nodes(double mean_time_between_s, double repair_s) {
  const double in_repair = repair_s / mean_time_between_s;
  double probability = std::exp(-in_repair);
  double lack = 1 - probability;
  std::int64_t spares = 0;
  while (lack > kLackOfNodes && spares < 10'000) {
    ++spares;
    probability *= in_repair / static_cast<double>(spares);
    lack -= probability;
  }
  return spares;
}

Interruptions interruptions_of(const Tables& tables, const Transformer& model, std::int64_t num_devices,
                               std::int64_t node_size) {
  const FailureRate& failures = find_failures(tables, tables.recovery.failures);
  const double nodes = std::ceil(static_cast<double>(num_devices) / static_cast<double>(node_size));
  const double bytes = static_cast<double>(model.num_parameters()) * tables.recovery.state_bytes;
  return {.mean_time_between = failures.device_hours * kSecondsPerHour / static_cast<double>(num_devices),
          .checkpoint = bytes / (tables.recovery.storage_gbs * 1e9 * nodes),
          .restart = tables.recovery.restart_s};
}

}  // namespace trainctl::cluster
