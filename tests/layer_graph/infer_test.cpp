#include "layer_graph/infer.h"
#include "layer_graph/inspect.h"

#include <catch2/catch.hpp>

#include "core/text.h"

namespace trainctl::layer_graph {
namespace {

using Relu = ActivationLayer<Activation::relu>;

LayerConfig conv(std::int64_t channels) {
  return {Conv2dLayer{.channels = channels}};
}

/// Returns the only problem, as "path: message".
std::string problem(const LayerList& layers, const Shape& input) {
  const Inference inference = infer(layers, input, {.num_outputs = 10}, "layers");
  REQUIRE(inference.problems.size() == 1);
  return inference.problems.front().paths.front() + ": " + inference.problems.front().message;
}

Shape last(const LayerList& layers, const Shape& input) {
  const Inference inference = infer(layers, input, {.num_outputs = 10}, "layers");
  for (const config::BrokenRule& rule : inference.problems) FAIL(rule.paths.front() << ": " << rule.message);
  return inference.outputs.back();
}

const Shape kImage = Shape::image(3, 32, 24);

TEST_CASE("sizes follow from kernels, strides and padding as in PyTorch", "[layer_graph]") {
  CHECK(last({conv(8)}, kImage) == Shape::image(8, 32, 24));
  CHECK(last({{Conv2dLayer{.channels = 8, .kernel_size = 7, .stride = 2}}}, kImage) == Shape::image(8, 16, 12));
  CHECK(last({{Conv2dLayer{.channels = 8, .padding = 0, .dilation = 2}}}, kImage) == Shape::image(8, 28, 20));
  CHECK(last({{DepthwiseConv2dLayer{.kernel_size = 5, .stride = 3}}}, kImage) == Shape::image(3, 11, 8));
  CHECK(last({{ConvTranspose2dLayer{.channels = 4, .kernel_size = 3, .padding = 1, .output_padding = 1}}}, kImage) ==
        Shape::image(4, 64, 48));
  CHECK(last({{MaxPoolLayer{.kernel_size = 3, .stride = 2, .padding = 1}}}, kImage) == Shape::image(3, 16, 12));
  CHECK(last({{UpsampleLayer{.scale_factor = 3}}}, kImage) == Shape::image(3, 96, 72));
  CHECK(last({{FlattenLayer{}}, {LinearLayer{}}}, kImage) == Shape::row(10));
  CHECK(last({{ImageToTokensLayer{}}}, kImage) == Shape::tokens(768, 3));
}

TEST_CASE("what only the data tells stays open", "[layer_graph]") {
  const Shape open = Shape::image(3, {}, {});
  CHECK(last({conv(8), {MaxPoolLayer{}}}, open) == Shape::image(8, {}, {}));
  CHECK(last({conv(8), {FlattenLayer{}}, {LinearLayer{.features = 4}}}, open) == Shape::row(4));
  CHECK(last({{ResidualLayer{.layers = {conv(3)}}}}, open) == open);
}

TEST_CASE("branches are added, multiplied and concatenated", "[layer_graph]") {
  CHECK(last({{ConcatLayer{.branches = {{}, {conv(5)}}}}}, kImage) == Shape::image(8, 32, 24));
  CHECK(last({{AddLayer{.branches = {{conv(5)}, {conv(5), {Relu{}}}}}}}, kImage) == Shape::image(5, 32, 24));
  CHECK(last({{MultiplyLayer{.branches = {{}, {{GlobalAvgPoolLayer{.keep_dims = true}}}}}}}, kImage) == kImage);
  CHECK(last({{Relu{}, "a"}, {MaxPoolLayer{}}, {UpsampleLayer{}}, {ConcatLayer{.with = {"a"}}}}, kImage) ==
        Shape::image(6, 32, 24));
  CHECK(last({{RepeatLayer{.times = 3, .layers = {{ConcatLayer{.branches = {{}, {conv(4)}}}}}}}}, kImage) ==
        Shape::image(15, 32, 24));
}

TEST_CASE("what doesn't fit is told at its place with the shapes on both sides", "[layer_graph]") {
  CHECK(problem({conv(8), {LinearLayer{}}}, kImage) ==
        "layers[1].kind: linear takes a row or tokens, got an image [8, 32, 24]; put global_avg_pool or flatten before "
        "it");
  CHECK(problem({{ResidualLayer{.layers = {conv(8)}}}}, kImage) ==
        "layers[0].kind: the branch gives an image [8, 32, 24], and the shortcut an image [3, 32, 24]; give it a "
        "`shortcut` that changes the shape");
  CHECK(problem({{ConcatLayer{.branches = {{}, {{MaxPoolLayer{}}}}}}}, kImage) ==
        "layers[0].kind: concat: operand 2 is an image [3, 16, 12], and those before it give an image [3, 32, 24]");
  CHECK(problem({{ResidualLayer{.layers = {conv(3), {AddLayer{.branches = {{}, {conv(4)}}}}}}}}, kImage) ==
        "layers[0].layers[1].kind: add: operand 2 is an image [4, 32, 24], and those before it give an image [3, 32, "
        "24]");
  CHECK(problem({{Conv2dLayer{.channels = 8, .groups = 2}}}, kImage) ==
        "layers[0].groups: expected a divisor of the channels, 3 in and 8 out, got 2");
  CHECK(problem({{MaxPoolLayer{.kernel_size = 40}}}, kImage) ==
        "layers[0].kind: a kernel that reaches over 40 pixels doesn't fit into an image [3, 32, 24] with a padding of "
        "0");
  CHECK(problem({{GroupNormLayer{.groups = 2}}}, kImage) ==
        "layers[0].groups: expected a divisor of the 3 channels of an image [3, 32, 24], got 2");
  CHECK(problem({{ImageToTokensLayer{}}, {AttentionLayer{.num_heads = 2}}}, kImage) ==
        "layers[1].num_heads: expected a divisor of the 3 features of tokens [768, 3], got 2");
  CHECK(problem({{AttentionLayer{}}}, Shape::row(8)) == "layers[0].kind: attention takes tokens, got a row [8]");
  CHECK(problem({{EmbeddingLayer{.features = 4}}}, Shape::row({})) ==
        "layers[0].kind: embedding takes token ids, got a row [?]");
}

TEST_CASE("sizes that can't be counted are refused where they begin", "[layer_graph][regression]") {
  const LayerList larger{{UpsampleLayer{.scale_factor = 64}}};
  CHECK(problem({{RepeatLayer{.times = 30, .layers = larger}}}, kImage).find("layers[0].layers[0].kind: expected ") ==
        0);
  CHECK(problem({{RepeatLayer{.times = 5, .layers = larger}}, {FlattenLayer{}}}, kImage)
            .find("layers[1].kind: expected sizes of at most 1000000000000") == 0);
}

TEST_CASE("names are of earlier layers of the same list", "[layer_graph]") {
  const LayerList inner{{AddLayer{.with = {"a"}}}};
  CHECK(problem({{Relu{}, "a"}, {ResidualLayer{.layers = inner}}}, kImage) ==
        "layers[1].layers[0].with[0]: no earlier layer of this list is called 'a'; a layer gets a name by its key "
        "`name`");
  CHECK(problem({{Relu{}, "first"}, {AddLayer{.with = {"frist"}}}}, kImage) ==
        "layers[1].with[0]: no earlier layer of this list is called 'frist'; did you mean 'first'?");
  CHECK(problem({{Relu{}, "a"}, {Relu{}, "a"}}, kImage) == "layers[1].name: another layer of this list is called 'a'");
  CHECK(problem({{Relu{}, "1"}, {Relu{}}}, kImage) ==
        "layers[0].name: a layer without a name of this list is called '1', its number");
  CHECK(problem({{Relu{}}, {Relu{}, "0.weight"}}, kImage).find("layers[1].name: a layer without a name") == 0);
  CHECK(problem({{Relu{}, "a.b"}, {Relu{}, "a"}}, kImage) ==
        "layers[0].name: another layer of this list is called 'a', and the names of its parameters begin with 'a.'");
  for (const std::string name : {"lora_A", "a.weight_rounding"})
    CHECK(problem({{Relu{}, name}}, kImage).find("layers[0].name: '") == 0);
  CHECK(last({{Relu{}, "my_rounding"}, {Relu{}, "lora"}}, kImage) == kImage);
  CHECK(last({{Relu{}, "a.b"}, {Relu{}, "a.c"}, {Relu{}, "2"}, {Relu{}, "ab"}}, kImage) == kImage);
  CHECK(problem({{AddLayer{}}}, kImage) == "layers[0].kind: add needs two operands: branches, or names in `with`");
}

TEST_CASE("attention is causal in all layers, or in none", "[layer_graph]") {
  const LayerConfig causal{AttentionLayer{.num_heads = 1, .causal = true}};
  const LayerConfig open{AttentionLayer{.num_heads = 1}};
  CHECK(is_causal({{Relu{}}}) == std::nullopt);
  CHECK(is_causal({{ResidualLayer{.layers = {causal}}}}) == true);
  CHECK(mixed_causality({causal, {SequenceLayer{.layers = {causal}}}}, "layers").empty());
  const auto broken = mixed_causality({causal, {SequenceLayer{.layers = {open}}}}, "layers");
  REQUIRE(broken.size() == 1);
  CHECK(broken.front().paths.front() == "layers[1].layers[0].causal");
}

TEST_CASE("units begin with weights, and hold what is read by name", "[layer_graph]") {
  CHECK(units_of({conv(8), {BatchNormLayer{}}, {Relu{}}, conv(8), {LinearLayer{}}}) ==
        std::vector<Run>{{0, 3}, {3, 4}, {4, 5}});
  CHECK(units_of({conv(8), {Relu{}, "a"}, conv(8), {AddLayer{.with = {"a"}}}, conv(8)}) ==
        std::vector<Run>{{0, 4}, {4, 5}});
  CHECK(units_of({conv(8), {RepeatLayer{.times = 2, .layers = {conv(8)}}}, {Relu{}}}) ==
        std::vector<Run>{{0, 1}, {1, 2}, {2, 3}});
}

}  // namespace
}  // namespace trainctl::layer_graph
