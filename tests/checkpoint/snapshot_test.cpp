#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

using Catch::Matchers::Contains;
using testing::TemporaryDirectory;

/// One of each kind of state.
struct Component {
  at::Tensor weight = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  at::Tensor buffer = at::randn({4, 6}).t();
  at::Tensor empty = at::zeros({0});
  std::int64_t count = std::numeric_limits<std::int64_t>::min();
  double factor = 0.1;
  double zero = -0.0;
  double whole = 3;
  double bad = std::nan("");
  double least = -std::numeric_limits<double>::infinity();
  std::string words = "naïve \"text\"\n";

  void visit_state(runtime::State& state) {
    state.tensor("model.weight", weight);
    state.tensor("buffer", buffer);
    state.tensor("empty", empty);
    state.integer("count", count);
    state.number("factor", factor);
    state.number("zero", zero);
    state.number("whole", whole);
    state.number("bad", bad);
    state.number("least", least);
    state.text("words", words);
  }
};

void save(const TemporaryDirectory& scratch, const ShownState& state) {
  Saver saver(scratch.path(), {});
  saver.save(state, {.step = 1, .config = {{"name", "x"}}, .metrics = {{"loss", 0.5}}, .data_fingerprint = "f"});
  saver.finish();
}

Checkpoint saved(const TemporaryDirectory& scratch, Component& component) {
  ShownState state;
  component.visit_state(state);
  save(scratch, state);
  return Checkpoint(scratch / "step_00000001");
}

TEST_CASE("a component's state comes back bit for bit into tensors of any layout", "[checkpoint]") {
  const TemporaryDirectory scratch;
  Component before;
  const Checkpoint checkpoint = saved(scratch, before);
  CHECK(checkpoint.info().config == std::map<std::string, std::string>{{"name", "x"}});
  CHECK(checkpoint.info().metrics == std::map<std::string, double>{{"loss", 0.5}});
  CHECK(checkpoint.info().data_fingerprint == "f");

  Component after;
  after.count = 0, after.factor = 0, after.zero = 1, after.whole = 0, after.bad = 0, after.least = 0, after.words = "";
  StateReader reader(checkpoint);
  after.visit_state(reader);
  reader.finish();
  CHECK(reader.unused().empty());
  CHECK(after.weight.equal(before.weight));
  CHECK(after.weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(after.weight.requires_grad());
  CHECK(after.buffer.equal(before.buffer));
  CHECK(after.count == before.count);
  CHECK(after.factor == before.factor);
  CHECK((after.zero == 0 && std::signbit(after.zero)));
  CHECK(after.whole == 3);
  CHECK(std::isnan(after.bad));
  CHECK(after.least == before.least);
  CHECK(after.words == before.words);
}

TEST_CASE("a save is of a copy: training on changes nothing in it", "[checkpoint]") {
  const TemporaryDirectory scratch;
  at::Tensor weight = at::ones({5'000'000});
  ShownState state;
  state.tensor("w", weight);
  {
    Saver saver(scratch.path(), {});
    saver.save(state, {.step = 1});
    weight.zero_();
  }
  CHECK(Checkpoint(scratch / "step_00000001").read_whole().at("w").equal(at::ones({5'000'000})));
}

TEST_CASE("state that doesn't fit is refused with its name and both shapes", "[checkpoint]") {
  const TemporaryDirectory scratch;
  ShownState state;
  at::Tensor weight = at::ones({2, 3});
  state.tensor("w", weight);
  state.values["n"] = std::int64_t{1};
  save(scratch, state);
  const Checkpoint checkpoint(scratch / "step_00000001");
  StateReader reader(checkpoint);
  at::Tensor other_shape = at::ones({3, 2});
  at::Tensor other_type = at::ones({2, 3}, at::kDouble);
  at::Tensor stretch = at::ones({2});
  double number = 0;
  CHECK_THROWS_WITH(reader.tensor("w", other_shape), Contains("tensor w is Float [2, 3]") && Contains("Float [3, 2]"));
  CHECK_THROWS_WITH(reader.tensor("w", other_type), Contains("Double [2, 3] in this run"));
  CHECK_THROWS_WITH(reader.part("w", stretch, {.shape = {6}, .strides = {1}}), Contains("Float [6] in this run"));
  CHECK_THROWS_WITH(reader.tensor("v", other_shape), Contains("no tensor v"));
  CHECK_THROWS_WITH(reader.number("n", number), Contains("value n has another type"));
  CHECK_THROWS_WITH(reader.number("m", number), Contains("no value m"));
  CHECK(reader.unused() == std::vector<std::string>{"w", "n"});
}

TEST_CASE("keys of the config that changed are listed with both values", "[checkpoint]") {
  CheckpointInfo info{
      .step = 1, .config = {{"a", "1"}, {"gone", "2"}, {"same", "3"}}, .metrics = {}, .data_fingerprint = ""};
  CHECK(changed_keys(info, {{"a", "0.5"}, {"new", "x"}, {"same", "3"}}) ==
        std::vector<std::string>{"a: 1 -> 0.5", "gone: 2 -> (not set)", "new: (not set) -> x"});
  info.config = {{"ema", "null"}, {"plain", "null"}, {"spikes.window", "8"}};
  CHECK(changed_keys(info, {{"ema.decay", "0.9"}, {"plain", "1"}, {"spikes", "null"}}) ==
        std::vector<std::string>{"ema.decay: (not set) -> 0.9", "plain: null -> 1", "spikes.window: 8 -> (not set)"});
}

}  // namespace
}  // namespace trainctl::checkpoint
