// How long a step takes, from the operators of one and the rates of a device: a roofline of many roofs, one a kind of
// work, with what ranks exchange beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/config.h"
#include "plan/time/device_rates.h"
#include "roofline/operations.h"

namespace trainctl::plan {

/// What a rank sends in a step, in bytes.
struct Traffic {
  double forward = 0;        // parameters gathered for it
  double backward = 0;       // parameters gathered for it, gradients summed
  double update = 0;         // parameters gathered after it
  double last_piece = 0;     // of the backward pass's: nothing is left to compute beside it
  double within_layers = 0;  // between ranks that share layers or sequences, which wait for it

  double total() const { return forward + backward + update + within_layers; }
};

/// What ranks send that have the same part of the model. `parameter_bytes`: of its trained parameters, in the type that
/// they are exchanged in. Ring algorithms: a sum sends twice what a gathering does.
Traffic traffic_of(const distributed::DistributedConfig& config, std::int64_t num_ranks, double parameter_bytes);

/// A kind of work's part of a step.
struct KindTime {
  roofline::WorkKind kind = roofline::WorkKind::stream;
  double ms = 0;
  std::int64_t calls = 0;
  double flops = 0;
  double bytes = 0;
};

struct PredictedTime {
  double step_ms = 0;  // data is taken to be there
  double forward_ms = 0;
  double backward_ms = 0;
  double optimizer_ms = 0;
  double communication_ms = 0;          // of the link, with what is hidden behind computing
  double exposed_communication_ms = 0;  // of that, what the step waits for
  double calls_ms = 0;                  // of the passes' times: dispatching alone
  std::vector<KindTime> kinds;          // dearest first
};

/// Seconds of one operator on a device, without its dispatching.
double seconds_of(const roofline::Operation& operation, const DeviceRates& rates);

PredictedTime predict_step_time(const roofline::Operations& operations, const DeviceRates& rates,
                                const Traffic& traffic = {});

/// How many steps are left, how long they take, and what that costs.
struct Finish {
  std::int64_t steps = 0;
  double seconds = 0;
  double cost = 0;  // of all devices together
};
struct Price {
  double per_device_hour = 0;
  std::int64_t num_devices = 1;
};
Finish predict_finish(const PredictedTime& time, std::int64_t steps, const Price& price = {});

}  // namespace trainctl::plan
