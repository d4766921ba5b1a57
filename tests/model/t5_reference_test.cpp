// T5 against transformers': logits, loss, every gradient, twenty steps of AdamW, from the same weights; and the other
// way.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>

#include <algorithm>

#include "core/error.h"
#include "kernels/linear_cross_entropy.h"
#include "model/layers/relative_position.h"
#include "model/recorded_model.h"
#include "runtime/sample_randomness.h"

namespace trainctl::model::t5_reference_test {
namespace {

const InputSpec kPairs{.shape = {24}, .vocab_size = 97, .target_length = 17};

T5Config small_t5() {
  return {.hidden_size = 32,
          .num_layers = 2,
          .num_heads = 4,
          .intermediate_size = 64,
          .relative_attention_num_buckets = 8,
          .relative_attention_max_distance = 12,
          .dropout = 0};
}

/// T5 1.1, and FLAN-T5.
T5Config small_flan() {
  T5Config config = small_t5();
  config.feed_forward_proj = T5FeedForward::gated_gelu;
  config.tie_embeddings = false;
  return config;
}

/// Another number of blocks in the decoder, and heads that don't add up to the width.
T5Config uneven_t5() {
  T5Config config = small_t5();
  config.num_decoder_layers = 3;
  config.num_heads = 3;
  config.head_size = 12;
  return config;
}

/// Logits are never held whole.
at::Tensor chunked_loss(Model& model, const ModelInput& input, const at::Tensor& labels) {
  return model.forward_into_head(input, [&](VocabularyHead& head, const at::Tensor& hidden) {
    return kernels::linear_cross_entropy(head.transform(hidden).flatten(0, 1), head.weight(), head.bias(),
                                         labels.flatten(), {.label_smoothing = 0, .chunk_size = 16});
  });
}

const std::vector<std::pair<std::string, T5Config>> kForms{{"t5", small_t5()},
                                                           {"t5-padded", small_t5()},
                                                           {"t5-flan", small_flan()},
                                                           {"t5-flan-padded", small_flan()},
                                                           {"t5-uneven", uneven_t5()}};

TEST_CASE("t5, flan-t5 and uneven sizes are transformers', with padding in source and target", "[model][reference]") {
  std::vector<testing::RecordedCase> cases;
  for (const auto& [part, network] : kForms) cases.push_back({part, network, kPairs});
  testing::check_both_ways("transformers_t5.py", cases, {testing::plain_loss, chunked_loss});
}

TEST_CASE("t5 in double precision differs from transformers' by rounding alone", "[model][reference]") {
  const auto all = testing::reference("transformers_t5.py", "record");
  for (const auto& [part, network] : kForms) {
    INFO(part);
    const testing::RecordedCase one{part + "-double", network, kPairs, testing::Precision::double_};
    const auto model = testing::model_of(one, /*seed=*/1);
    const testing::Differences off =
        testing::check_against_recorded(*model, testing::part_of(all, one.part), {testing::plain_loss});
    CHECK(std::max({off.output, off.gradients, off.steps}) < 1e-9);
  }
}

at::Tensor some_ids(std::int64_t batch, std::int64_t length, std::int64_t factor) {
  return at::ones({batch, length}, at::kLong).cumsum(1).cumsum(0).mul(factor).remainder(96).add(1);
}

TEST_CASE("a cache of a t5 gives the same logits token by token", "[model]") {
  const auto model = testing::ready_model(small_flan(), kPairs);
  model->set_training(false);
  const c10::NoGradGuard no_grad;
  const at::Tensor source = some_ids(2, 11, 5);
  const at::Tensor target = some_ids(2, 9, 7);
  const at::Tensor whole = model->forward({.values = source, .decoder_values = target});
  CHECK(whole.sizes() == at::IntArrayRef{2, 9, 97});
  KeyValueCache cache;
  for (std::int64_t i = 0; i < 9; ++i) {
    // Later steps have no source: the cache knows what attention needs of it.
    const at::Tensor logits = model->forward(
        {.values = source.narrow(1, 0, i == 0 ? 11 : 0), .decoder_values = target.narrow(1, i, 1), .cache = &cache});
    CHECK(testing::difference(logits, whole.narrow(1, i, 1)) <= 1e-5);
    CHECK(cache.length() == i + 1);
  }
}

TEST_CASE("padding of a source changes nothing", "[model]") {
  const auto model = testing::ready_model(small_t5(), kPairs);
  model->set_training(false);
  const c10::NoGradGuard no_grad;
  const at::Tensor source = some_ids(2, 11, 5);
  const at::Tensor target = some_ids(2, 9, 7);
  const at::Tensor padded = at::cat({source, at::randint(97, {2, 4}, at::kLong)}, 1);
  at::Tensor mask = at::ones(padded.sizes(), at::kBool);
  mask.narrow(1, 11, 4).fill_(false);
  CHECK(testing::difference(model->forward({.values = padded, .key_mask = mask, .decoder_values = target}),
                            model->forward({.values = source, .decoder_values = target})) <= 1e-5);
}

TEST_CASE("dropout of a t5 is active while training only, and doesn't depend on the padding", "[model]") {
  T5Config config = small_t5();
  config.dropout = 0.3;
  const auto model = testing::ready_model(config, kPairs);
  const at::Tensor source = some_ids(2, 11, 5);
  const at::Tensor target = some_ids(2, 9, 7);
  const at::Tensor padded = at::cat({source, at::ones({2, 4}, at::kLong)}, 1);
  at::Tensor mask = at::ones(padded.sizes(), at::kBool);
  mask.narrow(1, 11, 4).fill_(false);
  const c10::NoGradGuard no_grad;
  const auto logits = [&](const at::Tensor& values, const at::Tensor& key_mask) {
    const runtime::SampleRandomness samples({.seed = 1, .epoch = 2, .first_sample = 3});
    return model->forward({.values = values, .key_mask = key_mask, .decoder_values = target});
  };
  CHECK(testing::difference(logits(padded, mask), logits(source, {})) <= 1e-5);
  const at::Tensor trained = logits(source, {});
  model->set_training(false);
  CHECK(testing::difference(trained, logits(source, {})) > 1e-3);
}

TEST_CASE("blocks of a t5 map one tensor to one tensor, so that a stage may begin at any of them", "[model]") {
  const auto model = testing::ready_model(uneven_t5(), kPairs);
  model->set_training(false);
  const c10::NoGradGuard no_grad;
  ModelInput input{.values = some_ids(2, 11, 5), .decoder_values = some_ids(2, 9, 7)};
  const at::Tensor whole = model->forward(input);
  CHECK(model->blocks().size() == 1 + 2 + 1 + 3 + 1 + 1);
  for (std::size_t cut = 1; cut < model->blocks().size(); ++cut) {
    ModelInput first = input;
    first.blocks.end = cut;
    ModelInput second = input;
    second.blocks.begin = cut;
    second.hidden = model->forward(first);
    CHECK(model->forward(second).equal(whole));
  }
}

TEST_CASE("buckets of distances grow, and tell directions apart in the encoder alone", "[model]") {
  const auto row = [](std::int64_t query, Causality causality) {
    const at::Tensor all = bucket_numbers({.queries = 300, .keys = 300}, {.causality = causality}, at::kCPU);
    const at::Tensor numbers = all[query].contiguous();
    return std::vector<std::int64_t>(numbers.const_data_ptr<std::int64_t>(),
                                     numbers.const_data_ptr<std::int64_t>() + numbers.numel());
  };
  const auto causal = row(299, Causality::causal);  // distances 299 to 0
  CHECK(causal[299] == 0);
  CHECK(causal[284] == 15);
  CHECK(causal[283] == 16);
  CHECK(causal[0] == 31);
  CHECK(std::is_sorted(causal.rbegin(), causal.rend()));
  CHECK(row(0, Causality::causal)[299] == 0);
  const auto both = row(150, Causality::bidirectional);
  CHECK(both[150] == 0);
  CHECK(both[149] == 1);
  CHECK(both[151] == 17);
  CHECK(both[0] == 15);
  CHECK(both[299] == 31);
  const at::Tensor last = bucket_numbers({.queries = 1, .keys = 300}, {}, at::kCPU);
  CHECK(last.equal(bucket_numbers({.queries = 300, .keys = 300}, {}, at::kCPU).narrow(0, 299, 1)));
}

TEST_CASE("a t5 without a target says what is missing", "[model]") {
  const auto model = testing::ready_model(small_t5(), kPairs);
  CHECK_THROWS_WITH(model->forward(some_ids(1, 4, 5)),
                    Catch::Contains("model t5 needs the tokens of a target beside those of a source"));
}

}  // namespace
}  // namespace trainctl::model::t5_reference_test
