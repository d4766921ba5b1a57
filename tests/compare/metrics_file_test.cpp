#include "compare/metrics_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/file.h"
#include "support/temporary_directory.h"

namespace trainctl::compare {
namespace {

std::string step(std::int64_t number, const std::string& rest) {
  return R"({"event":"step","step":)" + std::to_string(number) + "," + rest + "}\n";
}

std::string eval(std::int64_t number, const std::string& rest) {
  return R"({"event":"eval","step":)" + std::to_string(number) + "," + rest + "}\n";
}

Metrics read(const std::string& text) {
  const testing::TemporaryDirectory scratch;
  core::write_file_atomically(scratch.path() / "metrics.jsonl", text);
  return read_metrics(scratch.path() / "metrics.jsonl");
}

const Curve& curve(const Metrics& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics.curves, name, &Curve::name);
  REQUIRE(found != metrics.curves.end());
  return *found;
}

TEST_CASE("records become curves against steps and the time that these took", "[compare]") {
  const Metrics metrics =
      read(step(10, R"("epoch":0,"loss":2.5,"step_ms":100)") + eval(10, R"("loss":2.0,"accuracy":0.5,"seconds":3)") +
           step(20, R"("epoch":0,"loss":1.5,"step_ms":50)"));
  REQUIRE(curve(metrics, "loss").points.size() == 2);
  CHECK(curve(metrics, "loss").points[0].seconds == Approx(1));
  CHECK(curve(metrics, "eval accuracy").points[0].seconds == Approx(4));
  CHECK(curve(metrics, "loss").points[1].seconds == Approx(4.5));
  CHECK(curve(metrics, "loss").points[1].value == 1.5);
  CHECK(metrics.seconds == Approx(4.5));
  CHECK(metrics.last_step == 20);
  CHECK(metrics.remarks.empty());
  CHECK(std::ranges::count(metrics.curves, "epoch", &Curve::name) == 0);
  CHECK(std::ranges::count(metrics.curves, "eval seconds", &Curve::name) == 0);
}

TEST_CASE("what a kill left torn is left out and said", "[compare]") {
  const Metrics metrics = read(step(1, R"("loss":2)") + R"({"event":"step","step":2,"lo)");
  CHECK(curve(metrics, "loss").points.size() == 1);
  REQUIRE(metrics.remarks.size() == 1);
  CHECK_THAT(metrics.remarks[0], Catch::Contains("ends within a line"));
}

TEST_CASE("damaged lines are left out and counted", "[compare]") {
  const Metrics metrics = read(step(1, R"("loss":2)") + "\x01\xff{]\n" + "[1]\n" + R"({"step":"x"})" + "\n" +
                               R"({"step":-4,"loss":1})" + "\n" + step(2, R"("loss":1)"));
  CHECK(curve(metrics, "loss").points.size() == 2);
  REQUIRE(metrics.remarks.size() == 1);
  CHECK_THAT(metrics.remarks[0], Catch::Contains("4 lines") && Catch::Contains("line 2"));
}

TEST_CASE("of steps that came again, the last time counts", "[compare]") {
  const Metrics metrics = read(step(10, R"("loss":3)") + step(20, R"("loss":2)") + eval(20, R"("loss":9)") +
                               step(20, R"("loss":2.5)") + eval(20, R"("loss":8)") + step(30, R"("loss":1)"));
  REQUIRE(curve(metrics, "loss").points.size() == 3);
  CHECK(curve(metrics, "loss").points[1].value == 2.5);
  REQUIRE(curve(metrics, "eval loss").points.size() == 1);
  CHECK(curve(metrics, "eval loss").points[0].value == 8);
  REQUIRE(metrics.remarks.size() == 1);
  CHECK_THAT(metrics.remarks[0], Catch::Contains("2 lines that came again"));
}

TEST_CASE("values that weren't finite are gaps", "[compare]") {
  const Metrics metrics = read(step(1, R"("loss":null,"non_finite":true)") + step(2, R"("loss":1)"));
  CHECK(std::isnan(curve(metrics, "loss").points[0].value));
  CHECK_THAT(metrics.remarks.at(0), Catch::Contains("not finite"));
}

TEST_CASE("a file without a record is said to be", "[compare]") {
  CHECK_THAT(read("").remarks.at(0), Catch::Contains("no record"));
}

}  // namespace
}  // namespace trainctl::compare
