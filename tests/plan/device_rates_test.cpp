#include "plan/time/device_rates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <vector>

#include "runtime/memory.h"
#include "support/temporary_directory.h"

namespace trainctl::plan {

using trainctl::testing::TemporaryDirectory;

namespace {

roofline::Operation stream_of(double bytes) {
  roofline::Operation operation;
  operation.kind = roofline::WorkKind::stream;
  operation.bytes = bytes;
  return operation;
}

/// Counters by hand: in each measurement a second passes, of which others take a share.
LoadReader load_of(std::vector<double> shares) {
  return [counters = LoadCounters{}, shares = std::move(shares), readings = std::size_t{0}]() mutable {
    const std::size_t measurement = std::min(readings / 2, shares.size() - 1);
    if (readings++ % 2 == 1) {
      counters.ran_s += 1 - shares[measurement];
      counters.waited_s += shares[measurement];
    }
    return counters;
  };
}

}  // namespace

TEST_CASE("Between two points a rate's curve is straight in logarithms, beyond the last it is proportional", "[plan]") {
  RateCurve curve;
  curve.add(1e3, 1e-6);
  curve.add(1e5, 1e-5);
  CHECK(curve.seconds(1e3) == Approx(1e-6));
  CHECK(curve.seconds(1e4) == Approx(std::sqrt(1e-11)));
  CHECK(curve.seconds(1e6) == Approx(1e-4));
  CHECK(curve.seconds(1) == Approx(0.25e-6));
  CHECK(curve.seconds(0) == 0);
}

TEST_CASE("Work of a type or kind that wasn't measured goes by the nearest that was", "[plan]") {
  DeviceRates rates;
  rates.curves[{.kind = roofline::WorkKind::stream}].add(1e6, 1e-3);
  rates.curves[{.kind = roofline::WorkKind::product}].add(1e9, 1e-2);
  CHECK(rates.find({.kind = roofline::WorkKind::softmax, .dtype = at::kHalf}) ==
        &rates.curves[{.kind = roofline::WorkKind::stream}]);
  CHECK(rates.find({.kind = roofline::WorkKind::attention_backward}) ==
        &rates.curves[{.kind = roofline::WorkKind::product}]);
  CHECK(DeviceRates{}.find({}) == nullptr);
}

TEST_CASE("Rates are measured once, and read from the file afterwards", "[plan]") {
  const TemporaryDirectory directory;
  roofline::Operations operations;
  operations.list = {stream_of(1e6)};
  MeasuredRates first(at::kCPU, directory.path(), MeasuredRates::Kept::read, load_of({0}));
  REQUIRE(first.missing(operations).size() == 1);
  first.measure(first.missing(operations));
  CHECK(first.missing(operations).empty());
  const MeasuredRates again(at::kCPU, directory.path());
  CHECK(again.missing(operations).empty());
  CHECK(again.rates().seconds_per_call == Approx(first.rates().seconds_per_call));
  CHECK(again.rates().curves.at({.kind = roofline::WorkKind::stream}).points() ==
        first.rates().curves.at({.kind = roofline::WorkKind::stream}).points());
  CHECK(MeasuredRates(at::kCPU, directory.path(), MeasuredRates::Kept::renew).missing(operations).size() == 1);
}

TEST_CASE("A file of rates that is damaged is measured again", "[plan]") {
  const TemporaryDirectory directory;
  roofline::Operations operations;
  operations.list = {stream_of(1e6)};
  {
    MeasuredRates rates(at::kCPU, directory.path(), MeasuredRates::Kept::read, load_of({0}));
    rates.measure(rates.missing(operations));
  }
  for (const auto& file : std::filesystem::directory_iterator(directory.path())) std::ofstream(file.path()) << "{\"cur";
  CHECK(MeasuredRates(at::kCPU, directory.path()).missing(operations).size() == 1);
}

TEST_CASE("Rates of a busy machine are used, marked, and measured again by the next who asks", "[plan]") {
  const TemporaryDirectory directory;
  roofline::Operations operations;
  operations.list = {stream_of(1e6)};
  const RateKey stream{.kind = roofline::WorkKind::stream};
  {
    MeasuredRates rates(at::kCPU, directory.path(), MeasuredRates::Kept::read, load_of({0.4}));
    rates.measure(rates.missing(operations));
    CHECK(rates.rates().curves.contains(stream));
    CHECK_FALSE(rates.knows(stream));
    CHECK(rates.disturbed_share(operations) == Approx(0.4));
  }
  MeasuredRates again(at::kCPU, directory.path(), MeasuredRates::Kept::read, load_of({0.01}));
  CHECK(again.disturbed_share(operations) == Approx(0.4));
  REQUIRE(again.missing(operations) == std::vector<RateKey>{stream});
  again.measure(again.missing(operations));
  CHECK(again.missing(operations).empty());
  CHECK(again.disturbed_share(operations) == 0);
  CHECK(MeasuredRates(at::kCPU, directory.path()).knows(stream));
}

TEST_CASE("A measurement that was disturbed is made again at once, and the better one is kept", "[plan]") {
  const TemporaryDirectory directory;
  roofline::Operations operations;
  operations.list = {stream_of(1e6)};
  // Calls, disturbed and then not; the stream, twice disturbed.
  MeasuredRates rates(at::kCPU, directory.path(), MeasuredRates::Kept::read, load_of({0.3, 0, 0.5, 0.2}));
  rates.measure(rates.missing(operations));
  CHECK(rates.rates().calls_disturbed == 0);
  CHECK(rates.rates().disturbed.at({.kind = roofline::WorkKind::stream}) == Approx(0.2));
}

TEST_CASE("Every kind of work can be measured on the CPU, at sizes far apart", "[plan]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  core::TimePoint time{};
  const core::Clock clock = [&] { return time += std::chrono::milliseconds(5); };  // that a run takes, whatever it does
  for (std::size_t i = 0; i < roofline::kNumWorkKinds; ++i) {
    const auto kind = static_cast<roofline::WorkKind>(i);
    CAPTURE(name_of(kind));
    const RateCurve curve = measure_curve({.kind = kind}, at::kCPU, clock);
    REQUIRE(curve.points().size() >= 2);
    CHECK(curve.points().rbegin()->first > 8 * curve.points().begin()->first);
    for (const auto& [work, seconds] : curve.points()) CHECK(seconds == Approx(5e-3));
  }
  CHECK(measure_seconds_per_call(at::kCPU) > 0);
}

TEST_CASE("Devices are found by name whatever its spelling, and have rates for every kind of work", "[plan]") {
  REQUIRE(find_device("h100 sxm") != nullptr);
  CHECK(find_device("H100-SXM")->memory_gb_per_s == 3350);
  CHECK(find_device("a100")->name == "A100 80GB");
  CHECK(find_device("abacus") == nullptr);
  for (const char* part : {"a1", "h", "rtx4"}) CHECK(find_device(part) == nullptr);
  const DeviceRates rates = rates_of(*find_device("h200"), FloatProducts::tf32);
  for (std::size_t i = 0; i < roofline::kNumWorkKinds; ++i)
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
      CHECK(rates.curves.contains({.kind = static_cast<roofline::WorkKind>(i), .dtype = dtype}));
}

}  // namespace trainctl::plan
