#include "plan/time/step_time.h"

#include <catch2/catch.hpp>

namespace trainctl::plan {

namespace {

/// 1 ms for each 1e6 bytes, 1 ms for each 1e9 FLOPs.
DeviceRates simple_rates() {
  DeviceRates rates;
  rates.curves[{.kind = roofline::WorkKind::stream}].add(1e6, 1e-3);
  rates.curves[{.kind = roofline::WorkKind::product}].add(1e9, 1e-3);
  rates.curves[{.kind = roofline::WorkKind::product, .is_narrow = true}].add(1e9, 4e-3);
  return rates;
}

roofline::Operation work(roofline::WorkKind kind, roofline::Pass pass, double flops, double bytes) {
  roofline::Operation operation;
  operation.kind = kind;
  operation.pass = pass;
  operation.flops = flops;
  operation.bytes = bytes;
  operation.least_extent = kWide;
  return operation;
}

}  // namespace

TEST_CASE("A step's time is the sum of its operators' by pass", "[plan]") {
  roofline::Operations operations;
  operations.list = {work(roofline::WorkKind::product, roofline::Pass::forward, 2e9, 1e6),
                     work(roofline::WorkKind::stream, roofline::Pass::forward, 0, 1e6),
                     work(roofline::WorkKind::product, roofline::Pass::backward, 4e9, 1e6),
                     work(roofline::WorkKind::stream, roofline::Pass::optimizer, 0, 5e6)};
  const PredictedTime time = predict_step_time(operations, simple_rates());
  CHECK(time.forward_ms == Approx(3));
  CHECK(time.backward_ms == Approx(4));
  CHECK(time.optimizer_ms == Approx(5));
  CHECK(time.step_ms == Approx(12));
  REQUIRE(time.kinds.size() == 2);
  CHECK(time.kinds[0].ms == Approx(6));
}

TEST_CASE("Calls cost beside their work", "[plan]") {
  roofline::Operations operations;
  operations.num_calls = {1000, 0, 0};
  DeviceRates rates = simple_rates();
  rates.seconds_per_call = 2e-6;
  const PredictedTime time = predict_step_time(operations, rates);
  CHECK(time.forward_ms == Approx(2));
  CHECK(time.calls_ms == Approx(2));
}

TEST_CASE("A product of which one extent is small is as slow as those that were measured so", "[plan]") {
  roofline::Operation operation = work(roofline::WorkKind::product, roofline::Pass::forward, 1e9, 1e6);
  CHECK(seconds_of(operation, simple_rates()) == Approx(1e-3));
  operation.least_extent = kNarrow;
  CHECK(seconds_of(operation, simple_rates()) == Approx(4e-3));
  operation.least_extent = 90;
  CHECK(seconds_of(operation, simple_rates()) > 1.5e-3);
  CHECK(seconds_of(operation, simple_rates()) < 3e-3);
}

TEST_CASE("Sums of gradients hide behind the backward pass, but for the last bucket", "[plan]") {
  roofline::Operations operations;
  operations.list = {work(roofline::WorkKind::product, roofline::Pass::backward, 100e9, 1e6)};
  DeviceRates rates = simple_rates();
  rates.link_bytes_per_s = 1e9;
  distributed::DistributedConfig config;
  config.how = distributed::DdpConfig{.bucket_mib = 1};
  const Traffic little = traffic_of(config, 2, 50e6);
  CHECK(little.total() == Approx(50e6));
  const PredictedTime hidden = predict_step_time(operations, rates, little);
  CHECK(hidden.communication_ms == Approx(50));
  CHECK(hidden.exposed_communication_ms == Approx(1.048576));
  const PredictedTime exposed = predict_step_time(operations, rates, traffic_of(config, 2, 500e6));
  CHECK(exposed.exposed_communication_ms == Approx(500 - 90));
  CHECK(exposed.step_ms == Approx(100 + 410));
}

TEST_CASE("What is gathered for the forward pass hides behind that pass alone", "[plan]") {
  roofline::Operations operations;
  operations.list = {work(roofline::WorkKind::product, roofline::Pass::forward, 50e9, 1e6),
                     work(roofline::WorkKind::product, roofline::Pass::backward, 100e9, 1e6)};
  DeviceRates rates = simple_rates();
  rates.link_bytes_per_s = 1e9;
  const PredictedTime time = predict_step_time(operations, rates, {.forward = 80e6});
  CHECK(time.communication_ms == Approx(80));
  CHECK(time.exposed_communication_ms == Approx(80 - 0.9 * 50));  // of 50 ms of computing, nine tenths
}

TEST_CASE("What a layout sends follows from its stage", "[plan]") {
  distributed::DistributedConfig config;
  CHECK(traffic_of(config, 1, 1e6).total() == 0);
  config.how = distributed::ZeroConfig{.stage = 1};
  CHECK(traffic_of(config, 4, 4e6).total() == Approx(2 * 3e6));
  config.how = distributed::ZeroConfig{.stage = 3};
  CHECK(traffic_of(config, 4, 4e6).total() == Approx(3 * 3e6));
  config.how = distributed::ZeroConfig{.stage = 3, .reshard_after_forward = false};
  CHECK(traffic_of(config, 4, 4e6).total() == Approx(2 * 3e6));
  config.how = distributed::DdpConfig{.gradient_compression = distributed::Bf16CompressionConfig{}};
  CHECK(traffic_of(config, 4, 4e6).total() == Approx(3e6));
  config.how = distributed::NotDistributedConfig{};
  CHECK(traffic_of(config, 4, 4e6).total() == 0);
}

TEST_CASE("A run's cost is that of all devices for its time", "[plan]") {
  PredictedTime time;
  time.step_ms = 360;
  const Finish finish = predict_finish(time, 10'000, {.per_device_hour = 2.5, .num_devices = 8});
  CHECK(finish.seconds == Approx(3600));
  CHECK(finish.cost == Approx(20));
}

}  // namespace trainctl::plan
