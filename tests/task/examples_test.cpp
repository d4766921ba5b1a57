#include "task/examples.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include <cmath>

namespace trainctl::task::examples_test {
namespace {

dataset::SampleSpec images() {
  return {.input_shape = {1, 2, 2}, .input_dtype = at::kFloat, .num_classes = 5};
}

/// A batch whose images hold the sample's number.
dataset::Batch batch_of(std::int64_t first, std::int64_t size) {
  const at::Tensor numbers = at::arange(first, first + size, at::kFloat).reshape({size, 1, 1, 1});
  return {.inputs = numbers.expand({size, 1, 2, 2}).clone(),
          .targets = at::randint(5, {size}, at::kLong),
          .first_sample = first};
}

/// Other ranks' rows, and this one's.
class TwoRanks final : public Pool {
 public:
  explicit TwoRanks(std::vector<at::Tensor> others) : others_(std::move(others)) {}
  c10::Device device() const override { return at::kCPU; }
  void sum(at::Tensor&) override {}
  void sum(std::int64_t&) override {}
  std::vector<at::Tensor> gather(const at::Tensor& rows) override { return {others_.at(next_++), rows}; }

 private:
  std::vector<at::Tensor> others_;
  std::size_t next_ = 0;
};

TEST_CASE("a collector keeps the first samples and those with the largest loss", "[task]") {
  at::manual_seed(1);
  ExampleCollector collector(3, images(), at::kCPU);
  std::vector<double> losses;
  for (std::int64_t first = 0; first < 40; first += 8) {
    const dataset::Batch batch = batch_of(first, 8);
    const at::Tensor logits = at::randn({8, 5});
    collector.add(batch, logits);
    const at::Tensor loss = at::cross_entropy_loss(logits, batch.targets, {}, at::Reduction::None);
    for (std::int64_t i = 0; i < 8; ++i) losses.push_back(loss[i].item<double>());
  }
  const Examples examples = collector.examples();
  REQUIRE(examples.first.size() == 3);
  REQUIRE(examples.worst.size() == 3);
  std::vector<std::size_t> order(losses.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return losses[a] > losses[b]; });
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(examples.first[i].sample == static_cast<std::int64_t>(i));
    const Example& worst = examples.worst[i];
    CHECK(worst.sample == static_cast<std::int64_t>(order[i]));
    CHECK(worst.loss == Approx(losses[order[i]]));
    CHECK(worst.input.sizes() == at::IntArrayRef({1, 2, 2}));
    CHECK(worst.input[0][1][1].item<double>() == static_cast<double>(order[i]));
  }
}

TEST_CASE("an example has label, answer and its probability", "[task]") {
  ExampleCollector collector(2, images(), at::kCPU);
  dataset::Batch batch = batch_of(0, 1);
  batch.targets.fill_(4);
  const at::Tensor logits = at::zeros({1, 5});
  logits[0][2] = 3;
  collector.add(batch, logits);
  const Example example = collector.examples().first.at(0);
  CHECK(example.target == 4);
  CHECK(example.answer == 2);
  CHECK(example.score == Approx(at::softmax(logits, 1)[0][2].item<double>()));
}

TEST_CASE("a loss that isn't a number is the largest", "[task]") {
  ExampleCollector collector(1, images(), at::kCPU);
  collector.add(batch_of(0, 4), at::randn({4, 5}));
  at::Tensor broken = at::randn({4, 5});
  broken[2].fill_(NAN);
  collector.add(batch_of(4, 4), broken);
  CHECK(collector.examples().worst.at(0).sample == 6);
}

TEST_CASE("texts are kept without their padding, however wide their batch is", "[task]") {
  const dataset::SampleSpec spec{.input_shape = {6}, .num_classes = 2, .vocab_size = 10};
  ExampleCollector collector(4, spec, at::kCPU);
  dataset::Batch narrow{.inputs = at::full({1, 3}, 7, at::kLong), .targets = at::zeros({1}, at::kLong)};
  narrow.key_mask = at::ones({1, 3}, at::kBool);
  narrow.key_mask[0][2] = false;
  collector.add(narrow, at::zeros({1, 2}));
  dataset::Batch wide{
      .inputs = at::full({1, 6}, 8, at::kLong), .targets = at::zeros({1}, at::kLong), .first_sample = 1};
  collector.add(wide, at::zeros({1, 2}));
  const Examples examples = collector.examples();
  CHECK(examples.first.at(0).input.sizes() == at::IntArrayRef({2}));
  CHECK(examples.first.at(1).input.sizes() == at::IntArrayRef({6}));
}

TEST_CASE("a language model's example has the losses of its tokens", "[task]") {
  const dataset::SampleSpec spec{.input_shape = {4}, .vocab_size = 10, .targets = dataset::Targets::next_tokens};
  ExampleCollector collector(2, spec, at::kCPU);
  const dataset::Batch batch{.inputs = at::full({2, 4}, 3, at::kLong), .targets = at::zeros({2, 4}, at::kLong)};
  at::Tensor losses = at::ones({1, 4});
  losses[0][3] = NAN;
  losses[0][0] = 4;
  collector.add(batch, losses);
  const Examples examples = collector.examples();
  REQUIRE(examples.first.size() == 1);
  CHECK(examples.first[0].loss == Approx(2));
  REQUIRE(examples.first[0].token_losses.size() == 4);
  CHECK(examples.first[0].token_losses[0] == 4);
  CHECK(std::isnan(examples.first[0].token_losses[3]));
}

TEST_CASE("the samples of all ranks are those of one", "[task]") {
  at::manual_seed(2);
  ExampleCollector whole(3, images(), at::kCPU), even(3, images(), at::kCPU), odd(3, images(), at::kCPU);
  for (std::int64_t first = 0; first < 16; first += 4) {
    const dataset::Batch batch = batch_of(first, 4);
    const at::Tensor logits = at::randn({4, 5});
    whole.add(batch, logits);
    (first % 8 == 0 ? even : odd).add(batch, logits);
  }
  // What the first rank would gather: figures, inputs, of the first samples and then of the worst.
  std::vector<at::Tensor> gathered;
  class Recorder final : public Pool {
   public:
    explicit Recorder(std::vector<at::Tensor>& rows) : rows_(rows) {}
    c10::Device device() const override { return at::kCPU; }
    void sum(at::Tensor&) override {}
    void sum(std::int64_t&) override {}
    std::vector<at::Tensor> gather(const at::Tensor& rows) override {
      rows_.push_back(rows);
      return {rows};
    }

   private:
    std::vector<at::Tensor>& rows_;
  } recorder(gathered);
  odd.pool(recorder);
  TwoRanks pool(gathered);
  even.pool(pool);
  const Examples expected = whole.examples(), pooled = even.examples();
  REQUIRE(pooled.first.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(pooled.first[i].sample == expected.first[i].sample);
    CHECK(pooled.worst[i].sample == expected.worst[i].sample);
    CHECK(pooled.worst[i].input.equal(expected.worst[i].input));
  }
}

}  // namespace
}  // namespace trainctl::task::examples_test
