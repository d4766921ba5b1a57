#include <algorithm>

#include "core/text.h"
#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_backend(Checked& c) {
  const comm::Backend backend = c.experiment.distributed.backend;
  if (backend == comm::Backend::nccl && c.experiment.device.kind == runtime::DeviceKind::cpu)
    c.report({"distributed.backend", "device.kind"}, "nccl joins GPUs, and device is cpu; gloo joins CPUs");
}

/// Reports how processes connect, where none do. Threads of one process wait for each other, but over no network.
void check_connection(Checked& c) {
  const distributed::DistributedConfig& config = c.experiment.distributed;
  const distributed::DistributedConfig plain;
  const distributed::DistributedTraits& traits = config::traits_of(config.how);
  const bool waits = traits.layout != distributed::Layout::alone;
  const bool connects = waits && !*traits.ranks_are_threads;
  for (const auto& [key, is_idle] :
       {std::pair("distributed.backend", !connects && config.backend != plain.backend),
        std::pair("distributed.network_interface", !connects && config.network_interface != plain.network_interface),
        std::pair("distributed.timeout_s", !waits && config.timeout_s != plain.timeout_s)})
    if (is_idle)
      c.report({key, "distributed.kind"},
               "changes nothing while distributed.kind is " + std::string(config.how.kind()) +
                   (waits ? ", whose replicas are threads of one process" : ", where no rank waits for others"));
}

/// Reports an average of statistics that ranks have in common.
void check_sync_buffers(Checked& c) {
  c.experiment.distributed.how.visit([&](const auto& how) {
    if constexpr (requires { how.sync_batch_norm, how.sync_buffers; })
      if (how.sync_batch_norm && how.sync_buffers == distributed::SyncBuffers::average)
        c.report({"distributed.sync_buffers", "distributed.sync_batch_norm"},
                 "synchronised statistics are the same on every rank: there is nothing to average");
  });
}

void check_ddp(Checked& c) {
  const distributed::DdpConfig* ddp = c.experiment.distributed.how.get_if<distributed::DdpConfig>();
  if (ddp == nullptr) return;
  if (ddp->static_graph && ddp->find_unused_parameters)
    c.report({"distributed.find_unused_parameters", "distributed.static_graph"},
             "a static graph's unused parameters are found in the first step; leave this out");
  if (config::traits_of(ddp->gradient_compression).carries_error && c.experiment.amp.mode == amp::Precision::fp16)
    c.report({"distributed.gradient_compression", "amp.mode"},
             std::string(ddp->gradient_compression.kind()) +
                 " hands the error of one step to the next, and fp16's loss scale changes between them; take bf16");
}

void check_offload(Checked& c, const distributed::ZeroConfig& zero) {
  const distributed::OffloadConfig& offload = zero.offload;
  if (offload.parameters != distributed::Offload::none && zero.stage < 3)
    c.report(
        {"distributed.offload.parameters", "distributed.stage"},
        "a rank keeps only its part of the parameters in stage 3 alone, and stage is " + std::to_string(zero.stage));
  if (offload.parameters != distributed::Offload::none && offload.optimizer == distributed::Offload::none)
    c.report({"distributed.offload.parameters", "distributed.offload.optimizer"},
             "they are updated where they lie, so the optimizer's state must lie there too: set "
             "distributed.offload.optimizer to host or disk");
  if (c.experiment.device.kind == runtime::DeviceKind::cpu)
    for (const auto& [path, place] : {std::pair("distributed.offload.optimizer", offload.optimizer),
                                      std::pair("distributed.offload.parameters", offload.parameters)})
      if (place == distributed::Offload::cpu)
        c.report({path, "device.kind"}, "device is cpu, so that is in the host's memory already; take disk");
  const bool uses_disk =
      offload.parameters == distributed::Offload::disk || offload.optimizer == distributed::Offload::disk;
  if (uses_disk && offload.path.empty())
    c.report({"distributed.offload.path", "distributed.offload"},
             "disk needs a directory for the file: one on a disk of each node");
  const optimizer::UpdateRuleConfig& rule = c.experiment.optimizer.rule;
  const optimizer::OptimizerTraits& traits = config::traits_of(rule);
  if (uses_disk && (traits.averages_weights || (traits.updates_shards && !traits.is_elementwise)))
    c.report(
        {"optimizer.kind", "distributed.offload"},
        std::string(rule.kind()) +
            " needs weights or gradients of several layers in memory at once, and disk brings one layer at a time; "
            "take another optimizer, or offload to cpu");
  if (!uses_disk && !offload.path.empty())
    c.report({"distributed.offload.path", "distributed.offload"}, "nothing of this run is offloaded to disk");
}

void check_zero(Checked& c) {
  const distributed::ZeroConfig* zero = c.experiment.distributed.how.get_if<distributed::ZeroConfig>();
  if (zero == nullptr) return;
  if (zero->stage < 3 && !zero->reshard_after_forward)
    c.report({"distributed.reshard_after_forward", "distributed.stage"},
             "parameters are sharded in stage 3 alone, and stage is " + std::to_string(zero->stage));
  check_offload(c, *zero);
}

/// Reports what no ranks can be combined with that have parts by this key. `subject`: "layers are split over";
/// `whole`: what they have parts of.
void check_parts(Checked& c, const char* key, const std::string& subject, const std::string& whole) {
  const distributed::DistributedKindConfig& how = c.experiment.distributed.how;
  const distributed::DistributedTraits& traits = config::traits_of(how);
  if (traits.layout.value == distributed::Layout::alone || traits.ranks_are_threads.value)
    c.report({key, "distributed.kind"}, subject +
                                            " ranks that a launcher starts and that train together, and kind is " +
                                            std::string(how.kind()) + "; take auto, ddp or zero");
  if (c.experiment.quantization.training.get_if<quantization::QatConfig>() != nullptr)
    c.report({"quantization.kind", key}, "ranges of activations are learned on one rank that has " + whole);
}

/// Reports what a pipeline can't be combined with.
void check_pipeline(Checked& c) {
  const distributed::DistributedConfig& config = c.experiment.distributed;
  if (config.pipeline == 1) return;
  check_parts(c, "distributed.pipeline", "stages are", "the whole model");
  if (const auto* ddp = config.how.get_if<distributed::DdpConfig>()) {
    if (!config::traits_of(ddp->gradient_compression).is_whole)
      c.report({"distributed.gradient_compression", "distributed.pipeline"},
               "a pipeline sums gradients once, after the last micro-batch, and whole");
    if (ddp->find_unused_parameters)
      c.report({"distributed.find_unused_parameters", "distributed.pipeline"},
               "a pipeline sums the gradients of all parameters, used or not");
    if (ddp->static_graph)
      c.report({"distributed.static_graph", "distributed.pipeline"},
               "changes nothing in a pipeline, which sums the gradients of all parameters once a step; leave it out");
  }
  if (config::facts_of(config.how).synchronizes_batch_norm)
    c.report({"distributed.sync_batch_norm", "distributed.pipeline"},
             "ranks of a pipeline compute on different micro-batches at one time");
  if (const auto* split = config.pipeline_split.get_if<distributed::SplitByHandConfig>()) {
    const std::int64_t per_rank = config::facts_of(config.pipeline_schedule).stages_per_rank;
    const auto num_stages = static_cast<std::int64_t>(split->blocks.size());
    if (per_rank > 0 && num_stages != per_rank * config.pipeline)
      c.report({"distributed.pipeline_split.blocks", "distributed.pipeline", "distributed.pipeline_schedule"},
               "a number for each of the " + std::to_string(per_rank * config.pipeline) + " stages, got " +
                   std::to_string(num_stages));
  }
  if (config.pipeline_schedule.get_if<distributed::InterleavedConfig>() != nullptr) {
    const std::int64_t steps = c.experiment.accumulation.steps;
    const std::int64_t rounds = std::max<std::int64_t>(1, steps / config.pipeline);
    if (steps % rounds != 0)
      c.report({"accumulation.steps", "distributed.pipeline_schedule"},
               "interleaved_1f1b deals micro-batches in equal rounds; take a multiple of " +
                   std::to_string(config.pipeline));
  }
}

/// Returns the numbers next to `ranks` that divide, up to `most`, as text: "2 or 4". 1 divides.
template <class Divides>
std::string nearest(std::int64_t ranks, std::int64_t most, const Divides& divides) {
  std::int64_t below = ranks - 1;
  while (!divides(below)) --below;
  std::int64_t above = ranks + 1;
  while (above <= most && !divides(above)) ++above;
  return std::to_string(below) + (above <= most ? " or " + std::to_string(above) : "");
}

/// Reports a size that the ranks which share layers don't divide, with the nearest numbers of ranks that do.
void check_split_sizes(Checked& c, const model::SplitSizes& sizes) {
  const std::int64_t ranks = c.experiment.distributed.tensor;
  const auto divides = [&](std::int64_t number) {
    return std::ranges::all_of(sizes, [&](const model::SplitSize& one) { return one.size % number == 0; });
  };
  const auto wrong = std::ranges::find_if(sizes, [&](const model::SplitSize& one) { return one.size % ranks != 0; });
  if (wrong == sizes.end()) return;
  c.report({"distributed.tensor", wrong->key}, "expected a number that divides " + std::string(wrong->key) + ", " +
                                                   std::to_string(wrong->size) + ", got " + std::to_string(ranks) +
                                                   "; take " + nearest(ranks, wrong->size, divides));
}

/// Reports a length of sequences that ranks which share tokens don't divide.
void check_shared_tokens(Checked& c) {
  const distributed::DistributedConfig& config = c.experiment.distributed;
  const std::optional<std::int64_t> length = config::facts_of(c.experiment.dataset.source).longest_text();
  if (!config.sequence_parallel || !length || *length % (config.tensor * config.context) == 0) return;
  c.report({"distributed.sequence_parallel", "dataset"},
           "the ranks of distributed.tensor can't share " + std::to_string(*length / config.context) +
               " tokens; take a multiple of " + std::to_string(config.tensor) + ", or sequence_parallel: false");
}

/// Reports what ranks that share layers can't be combined with.
void check_tensor(Checked& c) {
  const distributed::DistributedConfig& config = c.experiment.distributed;
  if (config.tensor == 1) {
    if (config.sequence_parallel)
      c.report({"distributed.sequence_parallel", "distributed.tensor"},
               "the ranks of distributed.tensor share tokens, and that is 1");
    return;
  }
  check_parts(c, "distributed.tensor", "layers are split over", "the whole model");
  const model::SplitSizes sizes =
      c.experiment.model.network.visit([](const auto& network) { return network.split_sizes(); });
  if (sizes.empty())
    c.report({"distributed.tensor", "model.kind"},
             "the layers of " + std::string(c.experiment.model.network.kind()) +
                 " can't be split over ranks; bert, gpt2, llama and vit have layers that can");
  check_split_sizes(c, sizes);
  check_shared_tokens(c);
  const optimizer::UpdateRuleConfig& rule = c.experiment.optimizer.rule;
  if (!config::traits_of(rule).is_elementwise)
    c.report({"optimizer.kind", "distributed.tensor"},
             std::string(rule.kind()) +
                 " looks at whole parameters, and ranks have parts of them; take another "
                 "optimizer, or distributed.pipeline");
}

/// Reports a length of sequences that doesn't give each rank two equal chunks, with the nearest numbers of ranks that
/// do.
void check_sequence_length(Checked& c) {
  const std::int64_t ranks = c.experiment.distributed.context;
  const std::optional<std::int64_t> length = config::facts_of(c.experiment.dataset.source).longest_text();
  const auto divides = [&](std::int64_t number) { return number == 1 || *length % (2 * number) == 0; };
  if (!length || divides(ranks)) return;
  c.report({"distributed.context", "dataset"},
           "sequences of " + std::to_string(*length) + " tokens can't be cut into " + std::to_string(2 * ranks) +
               " equal chunks; take " + nearest(ranks, *length / 2, divides) + ", or another length");
}

/// Reports what ranks that share sequences can't be combined with.
void check_context(Checked& c) {
  const distributed::DistributedConfig& config = c.experiment.distributed;
  if (config.context == 1) return;
  check_parts(c, "distributed.context", "sequences are split over", "whole sequences");
  const auto has_causal_attention = [](const model::ModelTraits& of) {
    return of.input == model::Input::tokens && of.outputs.value.contains(model::Output::next_tokens) &&
           !of.is_recurrent.value;
  };
  if (!has_causal_attention(config::traits_of(c.experiment.model.network)))
    c.report({"distributed.context", "model.kind"},
             "the sequences of " + std::string(c.experiment.model.network.kind()) +
                 " can't be split over ranks; those of " +
                 core::list_words(model::kinds_where(has_causal_attention), "and") + " can");
  if (const char* key = model::key_against_shared_sequences(c.experiment.model.network))
    c.report({key, "distributed.context"}, "ranks that share sequences can't limit scores; leave one of them out");
  check_sequence_length(c);
  if (config.tensor > 1 && c.experiment.model.lora && c.experiment.model.lora->dropout > 0)
    c.report({"model.lora.dropout", "distributed.context", "distributed.tensor"},
             "adapters drop features of some tokens, where ranks share both; set it to 0, or distributed.tensor or "
             "distributed.context to 1");
}

/// Reports what layers on several devices of one process can't be combined with.
void check_placement(Checked& c) {
  if (c.experiment.model.placement.empty()) return;
  if (c.experiment.device.kind == runtime::DeviceKind::cpu)
    c.report({"model.placement", "device.kind"}, "puts layers on GPUs, and device is cpu; leave it out");
  const distributed::DistributedConfig& config = c.experiment.distributed;
  const bool may_be_alone = config.how.get_if<distributed::AutoDistributedConfig>() != nullptr ||
                            config.how.get_if<distributed::NotDistributedConfig>() != nullptr;
  if (!may_be_alone || config.pipeline * config.tensor * config.context > 1)
    c.report({"model.placement", "distributed"},
             "one process has all layers that model.placement puts on devices; ranks share the work otherwise: take "
             "distributed: none, or distributed.pipeline without model.placement");
}

/// A shard can be updated by itself if no element needs another, or if the rule gathers what it needs.
void check_shards(Checked& c) {
  const optimizer::UpdateRuleConfig& rule = c.experiment.optimizer.rule;
  const distributed::DistributedKindConfig& how = c.experiment.distributed.how;
  if (config::traits_of(how).layout == distributed::Layout::sharded && !config::traits_of(rule).updates_shards)
    c.report({"optimizer.kind", "distributed.kind"}, std::string(rule.kind()) + " looks at whole parameters, and " +
                                                         std::string(how.kind()) +
                                                         " cuts them; take another optimizer, or ddp");
}

}  // namespace

void check_distributed(Checked& checked) {
  check_backend(checked);
  check_connection(checked);
  check_sync_buffers(checked);
  check_ddp(checked);
  check_zero(checked);
  check_shards(checked);
  check_pipeline(checked);
  check_tensor(checked);
  check_context(checked);
  check_placement(checked);
}

}  // namespace trainctl::experiment
