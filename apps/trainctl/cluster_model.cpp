#include "cluster_model.h"

#include <string>

#include "config/node.h"
#include "core/error.h"
#include "core/text.h"

namespace trainctl::cli {
namespace {

std::optional<cluster::Transformer> sizes_of(const model::Gpt2Config& config) {
  return cluster::Transformer{.num_layers = config.num_layers,
                              .hidden_size = config.hidden_size,
                              .num_heads = config.num_heads,
                              .num_kv_heads = config.num_heads,
                              .intermediate_size = config.inner_size()};
}

std::optional<cluster::Transformer> sizes_of(const model::LlamaConfig& config) {
  return cluster::Transformer{.num_layers = config.num_layers,
                              .hidden_size = config.hidden_size,
                              .num_heads = config.num_heads,
                              .num_kv_heads = config.key_value_heads(),
                              .head_size = config.size_of_head(),
                              .intermediate_size = config.inner_size(),
                              .gated = true,
                              .biases = config.attention_bias != model::AttentionBias::none,
                              .position_embeddings = false,
                              .tied = config.tie_embeddings};
}

std::optional<cluster::Transformer> sizes_of(const model::BertConfig& config) {
  if (config.size_of_embeddings() != config.hidden_size) return std::nullopt;
  return cluster::Transformer{.num_layers = config.num_layers,
                              .hidden_size = config.hidden_size,
                              .num_heads = config.num_heads,
                              .num_kv_heads = config.num_heads,
                              .intermediate_size = config.intermediate_size,
                              .causal = false};
}

template <class Network>
std::optional<cluster::Transformer> sizes_of(const Network&) {
  return std::nullopt;
}

/// Returns the key of a network whose attention isn't predicted; null: all of its keys are.
const char* unpredicted_key(const model::LlamaConfig& config) {
  if (config.sliding_window) return "model.sliding_window";
  return config.attn_logit_softcapping ? "model.attn_logit_softcapping" : nullptr;
}
template <class Network>
const char* unpredicted_key(const Network&) {
  return nullptr;
}

/// Returns why a network has no sizes.
template <class Network>
std::string obstacle_in(const Network&) {
  return std::string(Network::kind) + " is not predicted on nodes; expected bert, gpt2 or llama";
}
std::string obstacle_in(const model::BertConfig&) {
  return "bert with a model.embedding_size of its own is not predicted on nodes; expected auto";
}

/// Ranks that share one copy of the model and its sequences.
std::int64_t ranks_of_copy(const distributed::DistributedConfig& config) {
  return config.pipeline * config.tensor * config.context;
}

std::string ranks_text(const distributed::DistributedConfig& config) {
  return core::format_count(ranks_of_copy(config)) + " ranks of pipeline, tensor and context";
}

[[noreturn]] void refuse(const experiment::LoadedExperiment& loaded, const std::string& path,
                         const std::string& message) {
  const std::string where = config::origin_of(loaded.node, path).text();
  throw core::ConfigError({{.where = where, .path = path, .message = message}});
}

cluster::ScheduleKind schedule_of(std::string_view kind) {
  if (kind == distributed::InterleavedConfig::kind) return cluster::ScheduleKind::interleaved;
  if (kind == distributed::ZeroBubbleVConfig::kind) return cluster::ScheduleKind::zero_bubble_v;
  if (kind == distributed::GpipeConfig::kind) return cluster::ScheduleKind::gpipe;
  return cluster::ScheduleKind::one_forward_one_backward;
}

cluster::Recomputation recomputation_of(std::string_view kind) {
  if (kind == activation_checkpointing::NoCheckpointingConfig::kind) return cluster::Recomputation::none;
  if (kind == activation_checkpointing::SelectiveOpConfig::kind) return cluster::Recomputation::per_op;
  return cluster::Recomputation::full;
}

}  // namespace

cluster::Transformer transformer_of(const experiment::LoadedExperiment& loaded) {
  const experiment::Experiment& experiment = loaded.experiment;
  const auto& network = experiment.model.network;
  std::optional<cluster::Transformer> model = network.visit([](const auto& config) { return sizes_of(config); });
  if (!model)
    refuse(loaded, "model.kind",
           network.visit([](const auto& config) { return obstacle_in(config); }) +
               ". Without "
               "--nodes-of, 'trainctl plan' predicts every network");
  if (const char* key = network.visit([](const auto& config) { return unpredicted_key(config); }))
    refuse(loaded, key,
           "attention with this key is not predicted on nodes; expected null. Without --nodes-of, 'trainctl plan' "
           "predicts it");
  const std::optional<std::int64_t> length = config::facts_of(experiment.dataset.source).longest_text();
  if (!length)
    refuse(loaded, "dataset.kind",
           "the length of the sequences is known only when the data are read; expected a dataset with seq_len, such as "
           "synthetic_tokens");
  model->sequence_length = *length;
  std::optional<std::int64_t> vocabulary =
      network.visit([](const auto& config) -> std::optional<std::int64_t> { return config.sizes().vocab_size; });
  if (const auto stated = loaded.flat.find("dataset.vocab_size"); !vocabulary && stated != loaded.flat.end())
    vocabulary = std::stoll(stated->second);
  if (!vocabulary)
    refuse(loaded, "model.vocab_size",
           "auto is known only when the data are read; expected a number, such as --set model.vocab_size=50257");
  model->vocab_size = *vocabulary;
  return *model;
}

cluster::Precision precision_of(const experiment::LoadedExperiment& loaded) {
  const amp::Precision mode = loaded.experiment.amp.mode;
  switch (mode) {
    case amp::Precision::bf16:
      return cluster::Precision::bf16;
    case amp::Precision::fp16:
      return cluster::Precision::fp16;
    case amp::Precision::fp32:
    case amp::Precision::tf32:
    case amp::Precision::fp8:
      break;
  }
  refuse(loaded, "amp.mode",
         std::string("products in ") + (mode == amp::Precision::fp8 ? "8" : "32") +
             " bits are not predicted on nodes, got " + std::string(config::name_of(mode)) +
             "; expected bf16 or fp16, such as --set amp.mode=bf16");
}

std::int64_t global_batch_of(const experiment::LoadedExperiment& loaded, std::int64_t world) {
  const experiment::Experiment& experiment = loaded.experiment;
  if (experiment.dataset.batch_size.is_auto())
    refuse(loaded, "dataset.batch_size",
           "auto is chosen by a run; expected the sequences of a step, such as --global-batch 1024");
  const std::int64_t ranks = ranks_of_copy(experiment.distributed);
  if (world % ranks != 0)
    refuse(loaded, "distributed",
           ranks_text(experiment.distributed) + " do not divide " + core::format_count(world) +
               " ranks; expected another --world, or the sequences of a step, such as --global-batch 1024");
  return experiment.dataset.samples_per_batch() * experiment.accumulation.steps * (world / ranks);
}

std::optional<cluster::Layout> own_layout(const experiment::LoadedExperiment& loaded, std::int64_t world) {
  const experiment::Experiment& experiment = loaded.experiment;
  const distributed::DistributedConfig& config = experiment.distributed;
  const std::int64_t ranks = ranks_of_copy(config);
  const config::AutoOr<std::int64_t>& batch = experiment.dataset.batch_size;
  const auto facts = config::facts_of(config.how);
  if (world % ranks != 0 || batch.is_auto() || config::facts_of(config.pipeline_schedule).stages_per_rank == 0)
    return std::nullopt;
  const bool names_axes = ranks > 1 || !config.data.is_auto() || facts.shards.value.has_value();
  if (!names_axes) return std::nullopt;
  const std::int64_t zero = facts.shards.value ? facts.shards.value->stage : 0;
  return cluster::Layout{
      .data = world / ranks,
      .context = config.context,
      .tensor = config.tensor,
      .pipeline = config.pipeline,
      .stages_per_rank = config.pipeline == 1 ? 1 : *config::facts_of(config.pipeline_schedule).stages_per_rank,
      .schedule = schedule_of(config.pipeline_schedule.kind()),
      .micro_batch = *batch.value,
      .num_micro_batches = experiment.accumulation.steps,
      .zero = zero,
      .fully_sharded = zero == 3,
      .recomputation = recomputation_of(experiment.activation_checkpointing.blocks.kind()),
      .sequence_parallel = config.sequence_parallel,
      .precision = precision_of(loaded)};
}

}  // namespace trainctl::cli
