// Every transformer on every layout of parts, against one process: dropout, tied weights, clipping, unequal stages,
// accumulation and activation checkpointing at once. Writes docs/transformer_equality.md.
#include "model_layout.h"

namespace trainctl::train {

using namespace testing;

namespace {

constexpr std::int64_t kNumLayers = 7;  // with embeddings and head nine blocks, which eight stages don't divide

struct Network {
  std::string name;
  Setting setting;
  std::function<void(experiment::Experiment&)> change;
  bool is_causal = true;
};

std::vector<Network> networks() {
  const auto recomputed = [](std::function<void(experiment::Experiment&)> change) {
    return [change = std::move(change)](experiment::Experiment& experiment) {
      change(experiment);
      experiment.activation_checkpointing.blocks = activation_checkpointing::FullCheckpointingConfig{};
    };
  };
  Setting of_tokens = tokens();
  of_tokens.micro_batches = 4;
  model::Gpt2Config gpt2 = testing::gpt2();
  gpt2.num_layers = kNumLayers;
  model::LlamaConfig llama = testing::llama();
  llama.num_layers = kNumLayers;
  const auto bert = [](experiment::Experiment& experiment) {
    network(model::BertConfig{.hidden_size = 16,
                              .num_layers = kNumLayers,
                              .num_heads = 4,
                              .intermediate_size = 32,
                              .max_position_embeddings = 16,
                              .dropout = 0.1,
                              .attention_dropout = 0.1,
                              .head = model::BertHead::masked_lm})(experiment);
    std::get<dataset::SyntheticTokensConfig>(experiment.dataset.source.value).mask_probability = 0.3;
    experiment.task = task::MaskedLmConfig{.label_smoothing = 0.1};
  };
  const model::VitConfig vit{.hidden_size = 16,
                             .num_layers = kNumLayers,
                             .num_heads = 4,
                             .intermediate_size = 32,
                             .patch_size = 4,
                             .class_token = false,
                             .pool = model::VitPool::avg,
                             .dropout = 0.2,
                             .attention_dropout = 0.1,
                             .drop_path = 0.1};
  return {{.name = "gpt2", .setting = of_tokens, .change = recomputed(network(gpt2))},
          {.name = "llama", .setting = of_tokens, .change = recomputed(network(llama))},
          {.name = "bert", .setting = of_tokens, .change = recomputed(bert), .is_causal = false},
          {.name = "vit",
           .setting = {.micro_batches = 4, .clip_norm = 0.5},
           .change = recomputed(network(vit)),
           .is_causal = false}};
}

std::vector<ModelLayout> layouts() {
  std::vector<ModelLayout> all;
  for (const std::int64_t tensor : {2, 4}) {
    const std::string name = "tensor " + std::to_string(tensor);
    all.push_back({.name = name, .tensor = tensor});
    all.push_back({.name = name + ", sequence parallel", .tensor = tensor, .sequence_parallel = true});
  }
  for (const std::int64_t pipeline : {2, 4}) {
    const auto add = [&](const distributed::PipelineScheduleConfig& schedule) {
      all.push_back({.name = "pipeline " + std::to_string(pipeline) + " " + std::string(schedule.kind()),
                     .pipeline = pipeline,
                     .schedule = schedule});
    };
    add(distributed::GpipeConfig{});
    add(distributed::OneFOneBConfig{});
    add(distributed::InterleavedConfig{});
    add(distributed::ZeroBubbleVConfig{});
  }
  for (const std::int64_t context : {2, 4})
    all.push_back({.name = "context " + std::to_string(context), .context = context});
  const auto cube = [&](const std::string& name, const distributed::DistributedKindConfig& how) {
    all.push_back({.name = "tensor 2 × pipeline 2 × " + name, .pipeline = 2, .tensor = 2, .data = 2, .how = how});
  };
  cube("ddp 2", distributed::DdpConfig{.bucket_mib = 0.001});
  cube("zero stage 1 2", distributed::ZeroConfig{.stage = 1});
  cube("zero stage 3 2", distributed::ZeroConfig{.stage = 3});
  return all;
}

}  // namespace

TEST_CASE("every transformer makes the steps of one process on every layout of its parts",
          "[train][dist][equality][sweep]") {
  const std::vector<Network> columns = networks();
  std::map<std::string, Result> alone;
  std::string names = "|  |";
  std::string rule = "| --- |";
  for (const Network& network : columns) {
    names += " " + network.name + " |";
    rule += " --- |";
    experiment::Experiment one = experiment_of(network.setting, 1);
    network.change(one);
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
      alone[network.name + c10::toString(dtype)] = ten_steps(*build_run(one), dtype);
  }
  std::string table = names + "\n" + rule + "\n";
  for (ModelLayout layout : layouts()) {
    table += "| " + layout.name + " |";
    for (const Network& network : columns) {
      CAPTURE(layout.name, network.name);
      if (layout.context > 1 && !network.is_causal) {
        table += " – |";
        continue;
      }
      layout.change = network.change;
      std::string cell;
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
        const double gap =
            largest_gap(steps_of_layout(network.setting, layout, dtype), alone.at(network.name + c10::toString(dtype)));
        CHECK(gap <= (dtype == at::kDouble ? 1e-12 : 2e-5));
        cell += (cell.empty() ? "" : ", ") + cell_text(gap);
      }
      table += " " + cell + " |";
    }
    table += "\n";
  }
  save_page(
      "transformer_equality.md",
      "# Transformers in parts\n\n"
      "Written by the test run, with [equality.md](equality.md), whose figures and bounds these are. Each run "
      "has dropout,\n"
      "clipping, four micro-batches and activation checkpointing. Nine blocks make stages unequal. The embeddings "
      "of gpt2 and\n"
      "bert are tied to the head, and llama has grouped queries. Context parallelism is for causal networks.\n\n" +
          table);
}

}  // namespace trainctl::train
