#include "plan/time/step_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/units.h"

namespace trainctl::plan {
namespace {

/// The share of the backward pass that overlaps with sums of gradients: the first buckets fill a little after its
/// beginning.
constexpr double kOverlap = 0.9;

double ring_share(std::int64_t world) {
  return static_cast<double>(world - 1) / static_cast<double>(world);
}

Traffic traffic_of_replicas(double parameter_bytes, const distributed::GradientSums& gradients, double share) {
  const double sums = 2 * share * parameter_bytes * gradients.sent_share;
  return {.backward = sums, .last_piece = std::min(sums, 2 * share * gradients.bucket_mib * core::kMiB)};
}

Traffic traffic_of_shards(double parameter_bytes, const distributed::ShardStage& shards, double share) {
  const double once = share * parameter_bytes;
  if (shards.stage < 3) return {.backward = once, .update = once, .last_piece = 0};
  return {.forward = once, .backward = shards.gathers_twice ? 2 * once : once};
}

/// Returns the time of a product. One with a small extent is between the two curves, by the extent's logarithm.
double seconds_of_product(const roofline::Operation& operation, const DeviceRates& rates, RateKey key) {
  const RateCurve* narrow = rates.find(key);
  key.is_narrow = false;
  const RateCurve* wide = rates.find(key);
  if (narrow == nullptr || wide == nullptr) return 0;
  const double extent = static_cast<double>(std::max<std::int64_t>(1, operation.least_extent));
  const double share =
      std::clamp(std::log(extent / kNarrow) / std::log(static_cast<double>(kWide) / kNarrow), 0.0, 1.0);
  const double slow = narrow->seconds(operation.flops);
  const double fast = wide->seconds(operation.flops);
  return std::exp(std::log(std::max(slow, 1e-12)) * (1 - share) + std::log(std::max(fast, 1e-12)) * share);
}

}  // namespace

Traffic traffic_of(const distributed::DistributedConfig& config, std::int64_t num_ranks, double parameter_bytes) {
  if (num_ranks <= 1) return {};
  const double share = ring_share(num_ranks);
  const distributed::DistributedFacts facts = config::facts_of(config.how);
  switch (config::traits_of(config.how).layout) {
    case distributed::Layout::alone:
      return {};
    case distributed::Layout::replicated:
      return traffic_of_replicas(parameter_bytes, facts.gradients, share);
    case distributed::Layout::sharded:
      return traffic_of_shards(parameter_bytes, facts.shards.value.value(), share);
  }
  throw std::logic_error("unknown layout");
}

double seconds_of(const roofline::Operation& operation, const DeviceRates& rates) {
  const RateKey key = key_of(operation);
  const bool computes = is_computation(operation.kind) && operation.flops > 0;
  if (computes && key.is_narrow) return seconds_of_product(operation, rates, key);
  const RateCurve* curve = rates.find(computes                         ? key
                                      : is_computation(operation.kind) ? RateKey{.dtype = key.dtype}
                                                                       : key);
  return curve == nullptr ? 0 : curve->seconds(computes ? operation.flops : operation.bytes);
}

PredictedTime predict_step_time(const roofline::Operations& operations, const DeviceRates& rates,
                                const Traffic& traffic) {
  std::array<double, roofline::kNumPasses> passes{};
  std::array<KindTime, roofline::kNumWorkKinds> kinds{};
  for (const roofline::Operation& operation : operations.list) {
    const double ms = 1e3 * seconds_of(operation, rates);
    passes[static_cast<std::size_t>(operation.pass)] += ms;
    KindTime& kind = kinds[static_cast<std::size_t>(operation.kind)];
    kind.kind = operation.kind;
    kind.ms += ms;
    kind.flops += operation.flops;
    kind.bytes += operation.bytes;
    ++kind.calls;
  }
  PredictedTime time;
  for (std::size_t pass = 0; pass < roofline::kNumPasses; ++pass) {
    const double calls = 1e3 * rates.seconds_per_call * static_cast<double>(operations.num_calls[pass]);
    passes[pass] += calls;
    time.calls_ms += calls;
  }
  time.forward_ms = passes[static_cast<std::size_t>(roofline::Pass::forward)];
  time.backward_ms = passes[static_cast<std::size_t>(roofline::Pass::backward)];
  time.optimizer_ms = passes[static_cast<std::size_t>(roofline::Pass::optimizer)];
  if (traffic.total() > 0 && rates.link_bytes_per_s > 0) {
    const auto ms_of = [&](double bytes) { return 1e3 * bytes / rates.link_bytes_per_s; };
    const double behind_backward =
        std::max(0.0, ms_of(traffic.backward - traffic.last_piece) - kOverlap * time.backward_ms);
    const double behind_forward = std::max(0.0, ms_of(traffic.forward) - kOverlap * time.forward_ms);
    time.communication_ms = ms_of(traffic.total());
    time.exposed_communication_ms = behind_forward + behind_backward + ms_of(traffic.last_piece) +
                                    ms_of(traffic.update) + ms_of(traffic.within_layers);
  }
  time.step_ms = time.forward_ms + time.backward_ms + time.optimizer_ms + time.exposed_communication_ms;
  for (const KindTime& kind : kinds)
    if (kind.calls > 0) time.kinds.push_back(kind);
  std::sort(time.kinds.begin(), time.kinds.end(), [](const KindTime& a, const KindTime& b) { return a.ms > b.ms; });
  return time;
}

Finish predict_finish(const PredictedTime& time, std::int64_t steps, const Price& price) {
  const double seconds = time.step_ms / 1e3 * static_cast<double>(steps);
  return {.steps = steps,
          .seconds = seconds,
          .cost = seconds / 3600 * price.per_device_hour * static_cast<double>(price.num_devices)};
}

}  // namespace trainctl::plan
