#include "comm/reduce/power_sgd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "comm/world.h"
#include "members.h"
#include "support/map_state.h"
#include "support/reference.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;
using testing::MapState;
using testing::no_errors;
using testing::on_threads;

/// A member whose loss has the gradients that it is told to have.
class Sloped {
 public:
  Sloped(Group& group, const std::map<std::string, std::vector<std::int64_t>>& shapes, const LowRankOptions& options,
         std::int64_t bucket_bytes = 25 << 20) {
    for (const auto& [name, shape] : shapes)
      parameters_.push_back({name, at::zeros(shape, at::kDouble).requires_grad_(true)});
    reducer_ =
        make_gradient_reducer(group, parameters_, {},
                              {.bucket_bytes = bucket_bytes, .first_bucket_bytes = bucket_bytes, .low_rank = options});
  }

  template <class Slope>
  void step(const Slope& slope) {
    reducer_->prepare_forward();
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (const NamedParameter& parameter : parameters_)
      loss = loss.add(parameter.tensor.mul(slope(parameter.name)).sum());
    reducer_->prepare_backward(loss);
    loss.backward();
  }
  at::Tensor gradient(const std::string& name) const {
    for (const NamedParameter& parameter : parameters_)
      if (parameter.name == name) return parameter.tensor.grad();
    throw std::logic_error("no parameter " + name);
  }
  void zero() {
    for (const NamedParameter& parameter : parameters_) parameter.tensor.mutable_grad().zero_();
  }
  GradientReducer& reducer() { return *reducer_; }

 private:
  std::vector<NamedParameter> parameters_;
  std::unique_ptr<GradientReducer> reducer_;
};

double gap(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

TEST_CASE("powersgd sums as torch's hook does, step after step", "[comm]") {
  for (const std::int64_t rank : {1, 3}) {
    const auto expected = testing::reference("power_sgd.py", "rank" + std::to_string(rank));
    const std::map<std::string, std::vector<std::int64_t>> shapes{
        {"wide", {12, 40}}, {"tall", {30, 8}}, {"kernel", {16, 4, 3, 3}}, {"small", {3, 3}}, {"bias", {12}}};
    const auto groups = thread_groups(2, 20s);
    CHECK(on_threads(2, [&](std::int64_t member) {
            Sloped sloped(*groups[static_cast<std::size_t>(member)], shapes, {.rank = rank, .start_step = 2});
            MapState state = MapState::of(sloped.reducer());
            for (auto& [name, tensor] : state.tensors)
              if (name.starts_with("q.")) tensor = expected.at(name);
            state.restore_into(sloped.reducer());
            for (std::int64_t step = 0; step < 6; ++step) {
              const std::string number = std::to_string(step) + ".";
              sloped.step(
                  [&](const std::string& name) { return expected.at(number + std::to_string(member) + "." + name); });
              for (const auto& [name, shape] : shapes)
                if (gap(sloped.gradient(name), expected.at(number + "mean." + name).mul(2)) > 1e-9)
                  throw std::logic_error(number + name);
              sloped.zero();
            }
          }) == no_errors(2));
  }
}

TEST_CASE("powersgd is exact for sums of its rank, and in many buckets", "[comm]") {
  const auto groups = thread_groups(3, 20s);
  const std::map<std::string, std::vector<std::int64_t>> shapes{
      {"a", {40, 30}}, {"b", {20, 60}}, {"c", {7}}, {"d", {50, 50}}, {"e", {30, 30}}};
  CHECK(on_threads(3, [&](std::int64_t member) {
          Sloped sloped(*groups[static_cast<std::size_t>(member)], shapes, {.rank = 2}, /*bucket_bytes=*/4096);
          const auto slope = [&](const std::string& name, double weight) {
            const std::vector<std::int64_t>& shape = shapes.at(name);
            if (shape.size() == 1) return at::full(shape, weight, at::kDouble);
            const at::Tensor left = at::full({shape[0], 1}, 1.0, at::kDouble).cumsum(0).sin();
            const at::Tensor right = at::full({1, shape[1]}, 1.0, at::kDouble).cumsum(1).cos();
            return at::mm(left, right).mul(weight);
          };
          for (int step = 0; step < 3; ++step) {
            const double mine = static_cast<double>(member + 1 + step);
            sloped.step([&](const std::string& name) { return slope(name, mine); });
            for (const auto& [name, shape] : shapes)
              if (gap(sloped.gradient(name), slope(name, 6.0 + 3 * step)) > 1e-9) throw std::logic_error(name);
            sloped.zero();
          }
        }) == no_errors(3));
}

TEST_CASE("what powersgd leaves out of a sum comes later, and a step that isn't finite leaves no trace", "[comm]") {
  const auto groups = thread_groups(2, 20s);
  CHECK(on_threads(2, [&](std::int64_t member) {
          Sloped sloped(*groups[static_cast<std::size_t>(member)], {{"a", {24, 24}}}, {.rank = 1});
          const at::Tensor slope = at::full({24, 24}, 1.0, at::kDouble)
                                       .cumsum(0)
                                       .mul(at::full({24, 24}, 1.0, at::kDouble).cumsum(1))
                                       .add(static_cast<double>(member))
                                       .sin();
          at::Tensor sent = at::zeros({24, 24}, at::kDouble);
          at::Tensor wanted = at::zeros({24, 24}, at::kDouble);
          constexpr int kSteps = 200;
          for (int step = 0; step < kSteps; ++step) {
            if (step == 20) {
              const MapState before = MapState::of(sloped.reducer());
              sloped.step([&](const std::string&) {
                return member == 1 ? slope.mul(std::numeric_limits<double>::infinity()) : slope;
              });
              if (sloped.gradient("a").isfinite().all().item<bool>()) throw std::logic_error("finite");
              MapState after = MapState::of(sloped.reducer());
              after.integers = before.integers;
              if (!after.equals(before)) throw std::logic_error("a trace");
              sloped.zero();
            }
            sloped.step([&](const std::string&) { return slope; });
            sent.add_(sloped.gradient("a"));
            sloped.zero();
            wanted.add_(slope);
          }
          const at::Tensor total = wanted.clone();
          groups[static_cast<std::size_t>(member)]->all_reduce(total, Reduce::sum)->wait();
          if (gap(sent, total) / total.abs().max().item<double>() > 0.2) throw std::logic_error("lost");
        }) == no_errors(2));
}

TEST_CASE("sharing what powersgd hasn't sent keeps its sum and makes members equal", "[comm]") {
  const auto groups = thread_groups(2, 20s);
  std::vector<at::Tensor> before(2);
  std::vector<at::Tensor> after(2);
  CHECK(on_threads(2, [&](std::int64_t member) {
          const auto index = static_cast<std::size_t>(member);
          Sloped sloped(*groups[index], {{"a", {24, 24}}}, {.rank = 1});
          const at::Tensor slope = at::full({24, 24}, 1.0, at::kDouble).cumsum(0).cumsum(1).mul(member + 0.3).sin();
          sloped.step([&](const std::string&) { return slope; });
          before[index] = MapState::of(sloped.reducer()).tensors.at("unsent.a");
          sloped.reducer().share_state();
          after[index] = MapState::of(sloped.reducer()).tensors.at("unsent.a");
        }) == no_errors(2));
  CHECK(gap(before[0], before[1]) > 0.1);
  CHECK(at::equal(after[0], after[1]));
  CHECK(gap(before[0].add(before[1]), after[0].mul(2)) < 1e-12);
}

/// Sums of a gradient over `num_members`, step by step from `first` to `last`. `state` is that of the step before, and
/// becomes that of the last one.
std::vector<at::Tensor> sums_of_steps(std::int64_t num_members, std::int64_t first, std::int64_t last,
                                      MapState& state) {
  const auto groups = thread_groups(num_members, 20s);
  std::vector<at::Tensor> sums;
  MapState after;
  CHECK(on_threads(num_members, [&](std::int64_t member) {
          Sloped sloped(*groups[static_cast<std::size_t>(member)], {{"a", {24, 24}}}, {.rank = 1});
          MapState own = state;
          own.restore_into(sloped.reducer());
          // The members' shares differ, and add up to the same gradient for any number of members.
          const double share = 2.0 * static_cast<double>(member + 1) / static_cast<double>(num_members) /
                               static_cast<double>(num_members + 1);
          const at::Tensor whole = at::full({24, 24}, 0.1, at::kDouble).cumsum(0).cumsum(1);
          for (std::int64_t step = first; step <= last; ++step) {
            sloped.step([&](const std::string&) { return whole.mul(static_cast<double>(step)).sin().mul(share); });
            if (member == 0) sums.push_back(sloped.gradient("a").clone());
            sloped.zero();
          }
          sloped.reducer().share_state();
          if (member == 0) after = MapState::of(sloped.reducer());
        }) == no_errors(num_members));
  state = after;
  return sums;
}

TEST_CASE("powersgd goes on as before with another number of members", "[comm][regression]") {
  MapState uninterrupted;
  const std::vector<at::Tensor> expected = sums_of_steps(2, 1, 6, uninterrupted);
  for (const auto& [before, after] : {std::pair{2, 4}, {4, 2}, {2, 3}}) {
    CAPTURE(before, after);
    MapState state;
    sums_of_steps(before, 1, 3, state);
    const std::vector<at::Tensor> resumed = sums_of_steps(after, 4, 6, state);
    for (std::size_t i = 0; i < resumed.size(); ++i) CHECK(gap(resumed[i], expected[3 + i]) < 1e-9);
  }
}

}  // namespace
}  // namespace trainctl::comm
