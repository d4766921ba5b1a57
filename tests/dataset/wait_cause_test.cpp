#include "dataset/loader/wait_cause.h"

#include <catch2/catch.hpp>

namespace trainctl::dataset::wait_cause_test {

using namespace trainctl;
using namespace trainctl::dataset;
using Catch::Matchers::Contains;

namespace {

WaitWindow window(LoaderStats loader, double copy_ms = 0) {
  return {.total_ms = 1000, .copy_ms = copy_ms, .loader = loader, .cores = 8};
}

}  // namespace

TEST_CASE("waits have the cause that took most of the workers' time", "[dataset]") {
  const LoaderStats busy{.wait_ms = 300, .batches = 10, .starved = 9, .workers = 8};
  LoaderStats disk = busy;
  disk.read_ms = 5000, disk.decode_ms = 900;
  CHECK(wait_cause(window(disk)) == WaitCause::disk);
  LoaderStats decode = busy;
  decode.read_ms = 100, decode.decode_ms = 6000, decode.transform_ms = 1500;
  CHECK(wait_cause(window(decode)) == WaitCause::decode);
  LoaderStats transform = busy;
  transform.decode_ms = 1000, transform.transform_ms = 6000;
  CHECK(wait_cause(window(transform)) == WaitCause::transform);
  LoaderStats alone = decode;
  alone.workers = 1;
  CHECK(wait_cause(window(alone)) == WaitCause::too_few_workers);
  alone.workers = 0;
  CHECK(wait_cause(window(alone)) == WaitCause::too_few_workers);
  disk.workers = 1;
  CHECK(wait_cause(window(disk)) == WaitCause::disk);
  CHECK(wait_cause(window(decode, 400)) == WaitCause::copy);
  CHECK(wait_cause(window(busy)) == WaitCause::none);
}

TEST_CASE("waits up to a twentieth of the time are passed over", "[dataset]") {
  CHECK(wait_cause(window({.wait_ms = 50, .decode_ms = 500, .workers = 1})) == WaitCause::none);
  CHECK(wait_cause(window({.wait_ms = 51, .decode_ms = 500, .workers = 1})) != WaitCause::none);
  CHECK(describe_wait(WaitCause::none, window({})).empty());
}

TEST_CASE("the line says how much, why, and which key to change", "[dataset]") {
  const WaitWindow slow = window({.wait_ms = 300, .read_ms = 10, .decode_ms = 900, .transform_ms = 90, .workers = 1});
  CHECK_THAT(describe_wait(wait_cause(slow), slow), Contains("30 % of the time") && Contains("too few workers") &&
                                                        Contains("dataset.num_workers to 2 or more") &&
                                                        Contains("decode 90 %"));
  CHECK_THAT(describe_wait(WaitCause::copy, slow), Contains("dataset.pin_memory"));
  CHECK_THAT(describe_wait(WaitCause::transform, slow), Contains("dataset.transforms"));
}

}  // namespace trainctl::dataset::wait_cause_test
