// Ranks that share each layer, against one process with whole layers.
#include "model_layout.h"

namespace trainctl::train {

using namespace testing;

namespace {

model::BertConfig bert() {
  return {.hidden_size = 16,
          .num_layers = 2,
          .num_heads = 4,
          .intermediate_size = 32,
          .max_position_embeddings = 16,
          .dropout = 0.1,
          .attention_dropout = 0.1,
          .head = model::BertHead::masked_lm};
}

void of_masked_tokens(experiment::Experiment& experiment) {
  network(bert())(experiment);
  std::get<dataset::SyntheticTokensConfig>(experiment.dataset.source.value).mask_probability = 0.3;
  experiment.task = task::MaskedLmConfig{.label_smoothing = 0.1};
}

void of_images(experiment::Experiment& experiment) {
  network(model::VitConfig{.hidden_size = 16,
                           .num_layers = 2,
                           .num_heads = 4,
                           .intermediate_size = 32,
                           .patch_size = 4,
                           .dropout = 0.2,
                           .attention_dropout = 0.1,
                           .drop_path = 0.1})(experiment);
}

/// What RoBERTa, DistilBERT and ELECTRA have in their embeddings, together.
void of_other_embeddings(experiment::Experiment& experiment) {
  of_masked_tokens(experiment);
  model::BertConfig config = bert();
  config.embedding_size = 8;
  config.position_offset = 2;
  config.max_position_embeddings += 2;
  config.type_vocab_size = 0;
  network(config)(experiment);
}

/// What DeiT and CLIP's image tower have, together.
void of_other_images(experiment::Experiment& experiment) {
  network(model::VitConfig{.hidden_size = 16,
                           .num_layers = 2,
                           .num_heads = 4,
                           .intermediate_size = 32,
                           .patch_size = 4,
                           .patch_bias = false,
                           .distillation_token = true,
                           .embedding_norm = true,
                           .activation = model::VitActivation::quick_gelu,
                           .pool = model::VitPool::distilled,
                           .dropout = 0.2,
                           .attention_dropout = 0.1})(experiment);
}

void of_adapters(experiment::Experiment& experiment) {
  network(gpt2())(experiment);
  experiment.model.lora = model::LoraConfig{
      .rank = 3, .dropout = 0.2, .target_modules = {{"c_attn", "c_proj", "c_fc"}}, .modules_to_save = {{"wpe"}}};
}

}  // namespace

TEST_CASE("ranks that share layers make the steps of one process", "[train][dist][tensor]") {
  // transformer_equality_test.cpp has the networks without a class token.
  for (const std::int64_t tensor : {2, 4})
    check_layout({.micro_batches = 2, .clip_norm = 0.5}, {.name = "vit", .tensor = tensor, .change = of_images});
  check_layout(tokens(), {.name = "bert", .tensor = 2, .change = of_masked_tokens});
}

TEST_CASE("ranks that share layers make the steps of one process for every family of bert and vit",
          "[train][dist][tensor]") {
  for (const bool sequence_parallel : {false, true}) {
    check_layout(tokens(), {.name = "embeddings of other berts",
                            .tensor = 2,
                            .sequence_parallel = sequence_parallel,
                            .change = of_other_embeddings});
    check_layout({.micro_batches = 2, .clip_norm = 0.5}, {.name = "embeddings of other vits",
                                                          .tensor = 2,
                                                          .sequence_parallel = sequence_parallel,
                                                          .change = of_other_images});
  }
  check_layout(tokens(), {.name = "stages", .pipeline = 2, .tensor = 2, .change = of_other_embeddings});
}

TEST_CASE("adapters are split with the matrices beside them", "[train][dist][tensor]") {
  check_layout(tokens(), {.name = "lora", .tensor = 2, .change = of_adapters});
}

TEST_CASE("ranks that share tokens between split layers make the steps of one process", "[train][dist][tensor]") {
  const auto check = [](const Setting& setting, ModelLayout layout) {
    layout.sequence_parallel = true;
    check_layout(setting, layout);
  };
  check(tokens(), {.name = "bert", .tensor = 2, .change = of_masked_tokens});
  check(tokens(), {.name = "lora", .tensor = 2, .change = of_adapters});
  for (const distributed::DistributedKindConfig& how :
       {distributed::DistributedKindConfig(distributed::DdpConfig{.bucket_mib = 0.001}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 1}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 3})}) {
    check(tokens(), {.name = "copies", .tensor = 2, .data = 2, .how = how, .change = network(llama())});
    check(tokens(), {.name = "stages", .pipeline = 2, .tensor = 2, .data = 2, .how = how, .change = network(gpt2())});
  }
  check(tokens(), {.name = "zbv",
                   .pipeline = 2,
                   .tensor = 2,
                   .schedule = distributed::ZeroBubbleVConfig{},
                   .change = network(gpt2())});
  check(tokens(), {.name = "context", .tensor = 2, .context = 2, .change = network(llama())});
}

TEST_CASE("tokens that ranks can't share are refused", "[train][dist][tensor]") {
  const auto refused = [](const Setting& setting, ModelLayout layout) {
    layout.sequence_parallel = true;
    on_ranks(layout.num_ranks(),
             [&](std::size_t, comm::Group& group) { ten_steps(*build_part(setting, layout, group), at::kDouble); });
  };
  CHECK_THROWS_WITH(refused({}, {.tensor = 2, .change = of_images}),
                    Catch::Contains("5 tokens can't be shared by the 2 ranks"));
  CHECK_THROWS_WITH(refused(tokens(), {.tensor = 2, .context = 2, .change = network(gpt2())}),
                    Catch::Contains("distributed.sequence_parallel"));
}

TEST_CASE("layers are split in copies, shards and stages", "[train][dist][tensor]") {
  for (const distributed::DistributedKindConfig& how :
       {distributed::DistributedKindConfig(distributed::DdpConfig{.bucket_mib = 0.001}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 1}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 3})}) {
    check_layout(tokens(), {.name = "copies", .tensor = 2, .data = 2, .how = how, .change = network(llama())});
    check_layout(tokens(),
                 {.name = "stages", .pipeline = 2, .tensor = 2, .data = 2, .how = how, .change = network(gpt2())});
  }
  check_layout(tokens(), {.name = "zbv",
                          .pipeline = 2,
                          .tensor = 2,
                          .schedule = distributed::ZeroBubbleVConfig{},
                          .change = network(gpt2())});
}

TEST_CASE("state of shared layers restores exactly in any layout, and any layout's in theirs",
          "[train][dist][tensor]") {
  const ModelLayout alone{.name = "alone", .change = network(gpt2())};
  const ModelLayout layers{.name = "tensor 2", .tensor = 2, .change = network(gpt2())};
  const ModelLayout quarters{.name = "tensor 4", .tensor = 4, .change = network(gpt2())};
  const ModelLayout cube{.name = "tensor 2 × pipeline 2 × zero 2",
                         .pipeline = 2,
                         .tensor = 2,
                         .data = 2,
                         .how = distributed::ZeroConfig{.stage = 3},
                         .change = network(gpt2())};
  const ModelLayout square{.name = "tensor 2 × pipeline 2", .pipeline = 2, .tensor = 2, .change = network(gpt2())};
  const ModelLayout shards{
      .name = "zero 3", .data = 3, .how = distributed::ZeroConfig{.stage = 2}, .change = network(gpt2())};
  const ModelLayout plane{.name = "tensor 2 × zero 2",
                          .tensor = 2,
                          .data = 2,
                          .how = distributed::ZeroConfig{.stage = 1},
                          .change = network(gpt2())};
  const ModelLayout copies{.name = "ddp 4", .data = 4, .change = network(gpt2())};
  for (const auto& [from, to] :
       {std::pair(layers, alone), std::pair(alone, layers), std::pair(square, copies), std::pair(square, quarters),
        std::pair(square, square), std::pair(cube, shards), std::pair(shards, cube), std::pair(quarters, layers),
        std::pair(plane, alone), std::pair(plane, cube)})
    check_moved(from, to);
}

TEST_CASE("numbers of ranks that can't share layers are refused", "[train][dist][tensor]") {
  CHECK_THROWS_WITH(build_on(3, tokens(), {.tensor = 2}),
                    Catch::Contains("tensor is 2, which doesn't divide the 3 ranks"));
  CHECK_THROWS_WITH(build_on(6, tokens(), {.pipeline = 2, .tensor = 2}),
                    Catch::Contains("tensor is 2, which doesn't divide the 3 ranks of a stage"));
}

}  // namespace trainctl::train
