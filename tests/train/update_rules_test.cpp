// Update rules that need more than a gradient and its parameter: muon, which needs whole matrices, and schedule-free
// rules, whose weights to evaluate are not those that are trained.
#include <set>

#include "model_layout.h"

namespace trainctl::train {

using namespace testing;

namespace {

std::function<void(experiment::Experiment&)> with_rule(optimizer::UpdateRuleConfig rule) {
  return [rule = std::move(rule)](experiment::Experiment& experiment) {
    experiment.optimizer.rule = rule;
    experiment.optimizer.weight_decay = 0.1;
  };
}

std::vector<optimizer::UpdateRuleConfig> rules() {
  return {optimizer::MuonConfig{.adamw = {.lr = 1e-3}}, optimizer::ScheduleFreeConfig{}, optimizer::LionConfig{}};
}

/// The largest difference of any parameter or slot from one process, and of losses, in double precision.
double gap_to_one_process(const Setting& setting, const ModelLayout& layout) {
  experiment::Experiment one = experiment_of(setting, 1);
  layout.change(one);
  return largest_gap(steps_of_layout(setting, layout, at::kDouble), ten_steps(*build_run(one), at::kDouble));
}

distributed::ZeroConfig zero_of(std::int64_t stage) {
  distributed::ZeroConfig config;
  config.stage = stage;
  return config;
}

}  // namespace

TEST_CASE("muon takes the matrices between embeddings and output, of each kind of network", "[train]") {
  const auto with_momentum = [](const Setting& setting, const model::NetworkConfig& network) {
    experiment::Experiment experiment = experiment_of(setting, 1);
    experiment.model.network = network;
    experiment.optimizer.rule = optimizer::MuonConfig{};
    const std::unique_ptr<Run> run = build_run(experiment);
    std::set<std::string> names;
    for (const auto& [name, tensor] : MapState::of(*run->optimizer).tensors)
      if (name.starts_with("momentum_buffer.")) names.insert(name.substr(name.find('.') + 1));
    return names;
  };
  using Names = std::set<std::string>;
  CHECK(with_momentum({}, model::CnnConfig{.channels = {4, 8}, .batch_norm = true, .hidden = 16}) ==
        Names{"layer1.conv.weight", "layer2.conv.weight", "head.hidden.weight"});
  CHECK(
      with_momentum({},
                    model::VitConfig{
                        .hidden_size = 8, .num_layers = 1, .num_heads = 2, .intermediate_size = 16, .patch_size = 4}) ==
      Names{"patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "blocks.0.attn.proj.weight",
            "blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc2.weight"});
  const Setting language{.language_model = true};
  CHECK(with_momentum(language, model::Gpt2Config{.hidden_size = 8, .num_layers = 1, .num_heads = 2}) ==
        Names{"transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
              "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"});
  CHECK(with_momentum(language,
                      model::LlamaConfig{
                          .hidden_size = 8, .num_layers = 1, .num_heads = 2, .intermediate_size = std::int64_t{16}}) ==
        Names{"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
              "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
              "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
              "model.layers.0.mlp.down_proj.weight"});
  CHECK(with_momentum(language, model::LstmConfig{.hidden_size = 8, .num_layers = 1}) ==
        Names{"rnn.weight_hh_l0", "rnn.weight_ih_l0"});
}

TEST_CASE("ranks of zero update as one process does, also matrices of which each has a part", "[train][dist]") {
  for (const optimizer::UpdateRuleConfig& rule : rules())
    for (const std::int64_t ranks : {2, 3})
      for (const std::int64_t stage : {1, 2, 3}) {
        CAPTURE(rule.kind(), ranks, stage);
        const ModelLayout layout{.name = "zero", .data = ranks, .how = zero_of(stage), .change = with_rule(rule)};
        CHECK(gap_to_one_process({.micro_batches = 2}, layout) <= 1e-12);
        CHECK(gap_to_one_process({.clip_norm = 0.5, .language_model = true}, layout) <= 1e-12);
      }
}

TEST_CASE("muon updates as one process does under ddp, pipelines, contexts and copies of shards", "[train][dist]") {
  const std::function<void(experiment::Experiment&)> change = with_rule(rules().front());
  distributed::ZeroConfig hybrid = zero_of(3);
  hybrid.shard = std::int64_t{2};
  for (const ModelLayout& layout :
       {ModelLayout{.name = "ddp", .data = 2, .change = change},
        ModelLayout{.name = "hybrid", .data = 4, .how = hybrid, .change = change},
        ModelLayout{.name = "pipeline", .pipeline = 2, .data = 2, .how = zero_of(1), .change = change},
        ModelLayout{.name = "context", .context = 2, .data = 2, .how = zero_of(2), .change = change}}) {
    CAPTURE(layout.name);
    CHECK(gap_to_one_process({.micro_batches = 2, .language_model = true}, layout) <= 1e-12);
  }
}

TEST_CASE("a layout restores what another saved of muon and of schedule-free weights", "[train][dist]") {
  for (const optimizer::UpdateRuleConfig& rule : rules()) {
    CAPTURE(rule.kind());
    const ModelLayout ddp{.name = "ddp", .data = 2, .change = with_rule(rule)};
    const ModelLayout sharded{.name = "zero", .data = 3, .how = zero_of(3), .change = with_rule(rule)};
    check_moved(sharded, ddp);
    check_moved(ddp, sharded);
  }
}

TEST_CASE("sgd with dampening updates, saves and restores parts of parameters and of a model", "[train][regression]") {
  const auto change = with_rule(optimizer::SgdConfig{.momentum = 0.9, .dampening = 0.5});
  const ModelLayout sharded{.name = "zero", .data = 2, .how = zero_of(3), .change = change};
  const ModelLayout pipeline{.name = "pipeline", .pipeline = 2, .change = change};
  CHECK(gap_to_one_process({.micro_batches = 2}, sharded) <= 1e-12);
  check_moved(sharded, pipeline);
  check_moved(pipeline, sharded);
}

TEST_CASE("a run of each rule goes on bit for bit, with evaluations between that change no step", "[train]") {
  for (const optimizer::UpdateRuleConfig& rule : rules())
    for (const bool averages : {false, true}) {
      CAPTURE(rule.kind(), averages);
      const auto train = [&](std::int64_t eval_every, const std::filesystem::path& directory,
                             const std::optional<std::filesystem::path>& from) {
        experiment::Experiment experiment = small_experiment();
        experiment.device.num_threads = std::int64_t{1};
        experiment.optimizer.rule = rule;
        experiment.train.steps = 12;
        experiment.train.eval_every = eval_every;
        experiment.checkpoint.every = 6;
        experiment.checkpoint.keep_last = 5;
        if (averages) experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9, .every = 2};
        const std::unique_ptr<Run> run = build_run(experiment);
        EventLog log;
        const StopSignal stop;
        if (from) restore(*run, *from, {}, log);
        Trainer(*run, log, stop, {.run_directory = directory, .config = {}}).run();
        return weights_of(*run);
      };
      const TemporaryDirectory whole, half;
      const std::vector<at::Tensor> uninterrupted = train(12, whole.path(), {});
      CHECK(largest_difference(uninterrupted, train(3, half.path(), whole.path() / "checkpoints" / "step_00000006")) ==
            0);
    }
}

TEST_CASE("evaluations, averages and checkpoints take a schedule-free rule's averaged weights", "[train]") {
  experiment::Experiment experiment = small_experiment();
  experiment.device.num_threads = std::int64_t{1};
  experiment.optimizer.rule = optimizer::ScheduleFreeConfig{};
  experiment.train.steps = 8;
  const TemporaryDirectory directory;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
  const std::vector<at::Tensor> trained = weights_of(*run);
  const task::Metrics evaluated = evaluate(*run, log).metrics;
  CHECK(largest_difference(weights_of(*run), trained) == 0);

  const std::unique_ptr<Run> used = build_run(experiment);
  restore_for_use(*used, step_directory_of(directory.path()), {}, log);
  run->optimizer->eval();
  CHECK(largest_difference(weights_of(*used), weights_of(*run)) == 0);
  CHECK(largest_difference(weights_of(*used), trained) > 0);
  CHECK(evaluate(*used, log).metrics == evaluated);
  CHECK(evaluate(*used, log).metrics == evaluated);  // the averages stay in the model
}

}  // namespace trainctl::train
