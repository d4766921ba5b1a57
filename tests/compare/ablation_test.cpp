#include "compare/ablation.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "compare/report.h"

namespace trainctl::compare {
namespace {

std::vector<Strategy> three() {
  return {{"a", {"x=1"}, {"x=0"}}, {"b", {"y=1"}, {}}, {"c", {}, {"z=0"}}};
}

std::vector<std::string> names(const std::vector<Variant>& variants) {
  std::vector<std::string> all;
  for (const Variant& variant : variants) all.push_back(variant.name);
  return all;
}

VariantResult result(const std::string& name, const std::vector<double>& step_ms, double peak_mib, double loss = 1) {
  VariantResult one{.variant = {name, 0}, .rounds = {}};
  for (const double ms : step_ms)
    one.rounds.push_back({.step_ms = ms, .samples_per_s = 1e3 / ms, .peak_mib = peak_mib, .losses = {loss, loss}});
  return one;
}

TEST_CASE("variants are none, each alone, all, and all but each, every set once", "[compare]") {
  CHECK(names(ablation_variants(three())) ==
        std::vector<std::string>{"baseline", "a", "b", "c", "all", "all but a", "all but b", "all but c"});
  CHECK(names(ablation_variants({three()[0], three()[1]})) == std::vector<std::string>{"baseline", "a", "b", "all"});
  CHECK(names(ablation_variants({three()[0]})) == std::vector<std::string>{"baseline", "a"});
}

TEST_CASE("a variant's assignments switch on what it has, and off what it hasn't", "[compare]") {
  CHECK(assignments(three(), 0b000) == std::vector<std::string>{"x=0", "z=0"});
  CHECK(assignments(three(), 0b011) == std::vector<std::string>{"x=1", "y=1", "z=0"});
  CHECK(assignments(three(), 0b111) == std::vector<std::string>{"x=1", "y=1"});
}

TEST_CASE("a measurement's step is the middle one, of an even number the mean of the two in the middle", "[compare]") {
  CHECK(measured({30, 10, 50}, 60, 7, {1, 2}).step_ms == 30);
  const Measurement even = measured({40, 10, 30, 50}, 70, 7, {1, 2});
  CHECK(even.step_ms == 35);
  CHECK(even.samples_per_s == Approx(2000));
  CHECK(even.peak_mib == 7);
  CHECK(even.losses == std::vector<double>{1, 2});
}

TEST_CASE("a drift that all variants share is none of their worth", "[compare]") {
  // The machine halves its speed from round to round; b is twice as fast as the baseline in each.
  const auto figures = compare_variants({result("baseline", {100, 200, 400}, 50), result("b", {50, 100, 200}, 25)});
  CHECK(figures[1].speedup.mean == Approx(2));
  CHECK(figures[1].speedup.low == Approx(2));
  CHECK(figures[1].speedup.high == Approx(2));
  CHECK(figures[1].memory == Approx(0.5));
  CHECK(figures[1].step_ms == Approx(100));
}

TEST_CASE("the interval is Student's, of the logarithms", "[compare]") {
  const auto figures = compare_variants({result("baseline", {100, 100, 100}, 1), result("b", {80, 100, 125}, 1)});
  const double reach = 4.303 * std::log(1.25) / std::sqrt(3.0);
  CHECK(figures[1].speedup.mean == Approx(1));
  CHECK(figures[1].speedup.high == Approx(std::exp(reach)));
  CHECK(figures[1].speedup.low == Approx(std::exp(-reach)));
  CHECK(std::isinf(compare_variants({result("baseline", {1}, 1)})[0].speedup.high));
}

TEST_CASE("the fastest is recommended, and of equals that with the least memory", "[compare]") {
  const auto best = [](const std::vector<VariantResult>& results) { return recommended(compare_variants(results)); };
  CHECK(best({result("baseline", {100}, 10), result("b", {120}, 5)}) == 0);
  CHECK(best({result("baseline", {100}, 10), result("b", {80}, 20)}) == 0);
  CHECK(best({result("baseline", {100, 100}, 10), result("b", {80, 80}, 20)}) == 1);
  CHECK(best({result("baseline", {100, 100}, 10), result("b", {80, 80}, 20), result("c", {80.4, 80.4}, 9)}) == 2);
  // One round proves nothing. Once faster and once slower is not faster.
  CHECK(best({result("baseline", {100, 100}, 10), result("b", {50, 110}, 20)}) == 0);
}

TEST_CASE("what should change is recommended, and nothing that is as good as it is", "[compare]") {
  // The experiment has a and b; b surely slows it down, a makes no sure difference, and c would help.
  std::vector<Strategy> strategies = three();
  strategies[0].is_on = strategies[1].is_on = true;
  strategies[0].off = {"s.x=0"};
  strategies[1].off = {"t=0"};
  strategies[2].on = {"u.z=1"};
  std::vector<VariantResult> results{result("baseline", {100, 100}, 10), result("a", {99, 101}, 10),
                                     result("b", {120, 121}, 10), result("c", {50, 51}, 10)};
  for (unsigned i = 1; i < 4; ++i) results[i].variant.on = 1U << (i - 1);
  const std::vector<VariantFigures> figures = compare_variants(results);
  CHECK(recommended(figures) == 3);
  CHECK(recommended_changes(strategies, results, figures, 3) == std::vector<std::string>{"t=0", "u.z=1"});
  // Where the baseline is best, good defaults stay.
  const std::vector<VariantResult> same{results[0], results[1]};
  CHECK(recommended_changes(strategies, same, compare_variants(same), 0).empty());
}

TEST_CASE("the report has every variant, the loss's gap and the recommended lines, in each form", "[compare]") {
  AblationReport report{
      .experiment = "a <b>", .machine = "cpu", .num_steps = 5, .num_rounds = 2, .strategies = three()};
  report.results = {result("baseline", {100, 100}, 10, 2.0), result("all", {50, 50}, 20, 2.01)};
  report.results[1].variant.on = 0b111;
  report.strategies[0].on = {"s.x=1", "s.deep={}"};
  report.strategies[1].on = {"t=1"};
  report.figures = compare_variants(report.results);
  report.recommended = recommended(report.figures);
  CHECK(report.figures[1].loss_gap == Approx(0.005));
  CHECK_THAT(format_table(report), Catch::Contains("recommended: all: 2.00×") &&
                                       Catch::Contains("  s: {x: 1, deep: {}}\n  t: 1\n") &&
                                       Catch::Contains("+0.50 %"));
  CHECK_THAT(format_json(report), Catch::Contains("\"recommended\": \"all\""));
  CHECK_THAT(format_html(report), Catch::Contains("a &lt;b&gt;") && Catch::Contains("s: {x: 1"));
}

}  // namespace
}  // namespace trainctl::compare
