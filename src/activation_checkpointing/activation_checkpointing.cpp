#include "activation_checkpointing/activation_checkpointing.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "activation_checkpointing/packed_tensor.h"
#include "activation_checkpointing/region.h"
#include "core/error.h"
#include "core/name_pattern.h"
#include "core/text.h"

namespace trainctl::activation_checkpointing {
namespace {

/// The blocks `begin` to `end - 1`, recomputed together.
struct Stretch {
  std::size_t begin;
  std::size_t end;
};

/// Returns the number of blocks that may be recomputed. The last can't: its values are needed before any could be
/// freed.
std::size_t num_candidates(const model::Model& model) {
  return model.blocks().size() - 1;
}

std::vector<Stretch> single_blocks(std::size_t count) {
  std::vector<Stretch> stretches;
  for (std::size_t i = 0; i < count; ++i) stretches.push_back({i, i + 1});
  return stretches;
}

std::vector<Stretch> stretches(const NoCheckpointingConfig&, const model::Model&) {
  return {};
}
std::vector<Stretch> stretches(const FullCheckpointingConfig&, const model::Model& model) {
  return single_blocks(num_candidates(model));
}
/// Returns no stretch: the value for `auto` is chosen before a run is built.
std::vector<Stretch> stretches(const AutoCheckpointingConfig&, const model::Model&) {
  return {};
}
std::vector<Stretch> stretches(const SelectiveOpConfig&, const model::Model& model) {
  return single_blocks(num_candidates(model));
}

std::vector<Stretch> stretches(const EveryNthBlockConfig& config, const model::Model& model) {
  const auto n = static_cast<std::size_t>(config.n);
  std::vector<Stretch> chosen;
  for (std::size_t i = n - 1; i < num_candidates(model); i += n) chosen.push_back({i, i + 1});
  if (chosen.empty())
    throw core::Error("activation_checkpointing.n is " + std::to_string(config.n) + ", but the model has " +
                      std::to_string(num_candidates(model)) + " blocks before its last")
        .hint("a smaller n");
  return chosen;
}

std::vector<Stretch> stretches(const SqrtCheckpointingConfig&, const model::Model& model) {
  const std::size_t count = num_candidates(model);
  const auto parts = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(count))));
  std::vector<Stretch> runs;
  for (std::size_t i = 0; i < parts; ++i) runs.push_back({i * count / parts, (i + 1) * count / parts});
  return runs;
}

std::vector<Stretch> stretches(const BlockPatternConfig& config, const model::Model& model) {
  std::vector<Stretch> chosen;
  const std::size_t count = num_candidates(model);
  for (std::size_t i = 0; i < count; ++i)
    if (std::any_of(config.modules.begin(), config.modules.end(),
                    [&](const std::string& pattern) { return core::matches_name(pattern, model.blocks()[i].name); }))
      chosen.push_back({i, i + 1});
  for (const std::string& pattern : config.modules) {
    if (std::any_of(model.blocks().begin(), model.blocks().begin() + static_cast<std::ptrdiff_t>(count),
                    [&](const model::Block& block) { return core::matches_name(pattern, block.name); }))
      continue;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(model.blocks()[i].name);
    throw core::Error("activation_checkpointing.modules: no block that can be recomputed is called `" + pattern + "`")
        .hint(names.empty() ? "the model's only block is its last, whose values are needed first"
                            : "there are " + core::list_words(names));
  }
  return chosen;
}

/// Returns the parts of the stretches in blocks that the model has; none goes on from one range of them to the next.
std::vector<Stretch> within(const std::vector<model::BlockRange>& ranges, const std::vector<Stretch>& stretches) {
  std::vector<Stretch> parts;
  for (const Stretch& stretch : stretches)
    for (const model::BlockRange& range : ranges) {
      const Stretch part{std::max(stretch.begin, range.begin), std::min(stretch.end, range.end)};
      if (part.begin < part.end) parts.push_back(part);
    }
  return parts;
}

/// Returns whether a backward pass will follow. Without gradients, or with a cache of earlier tokens, recomputation
/// saves nothing.
bool wants_memory_saved(const model::SequenceContext& context) {
  return c10::GradMode::is_enabled() && context.cache == nullptr;
}

/// Makes the packer of the tensors that a stretch saves; null if the config packs none. Small tensors are kept as they
/// are: attention's sums of exponentials, for example, would lose too much by rounding.
std::shared_ptr<TensorPacker> make_packer(const ActivationCheckpointingConfig& config,
                                          const std::vector<model::Block>& blocks, Stretch stretch,
                                          const at::Tensor& input) {
  if (config.offload == ActivationOffload::none && config.storage_dtype == ActivationStorage::none) return nullptr;
  constexpr std::int64_t kSmall = 8;  // of the input's elements for each of a tensor
  TensorPacker::Options options{.offload = config.offload,
                                .storage_dtype = config.storage_dtype,
                                .least_elements = std::max<std::int64_t>(1024, input.numel() / kSmall)};
  const auto add = [&](const std::string&, model::TensorDecl& decl) {
    options.belongs_to_network.push_back(decl.value);
  };
  for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
    blocks[i].layer->visit_parameters(add);
    blocks[i].layer->visit_buffers(add);
  }
  return std::make_shared<TensorPacker>(std::move(options));
}

model::Segment recomputed(const model::Model& model, const ActivationCheckpointingConfig& config, Stretch stretch) {
  const Keep keep = config.blocks.get_if<SelectiveOpConfig>() == nullptr ? Keep::input : Keep::costly_outputs;
  const auto run = [&blocks = model.blocks(), config, stretch, keep](
                       const model::Passage& passage, const at::Tensor& input, const model::SequenceContext& context) {
    if (!wants_memory_saved(context)) return passage(input, context);
    return run_recomputed(passage, input, context,
                          {.keep = keep, .packer = make_packer(config, blocks, stretch, input)});
  };
  return {.begin = stretch.begin, .end = stretch.end, .run = run};
}

/// Makes a segment that is not recomputed, and packs the tensors that it saves.
model::Segment packed(const model::Model& model, const ActivationCheckpointingConfig& config, std::size_t block) {
  const Stretch stretch{block, block + 1};
  const auto run = [&blocks = model.blocks(), config, stretch](const model::Passage& passage, const at::Tensor& input,
                                                               const model::SequenceContext& context) {
    if (!wants_memory_saved(context)) return passage(input, context);
    const std::shared_ptr<TensorPacker> packer = make_packer(config, blocks, stretch, input);
    const SavedTensorScope scope(*packer);
    return passage(input, context);
  };
  return {.begin = stretch.begin, .end = stretch.end, .run = run};
}

}  // namespace

void checkpoint_activations(model::Model& model, const ActivationCheckpointingConfig& config, c10::Device device) {
  core::ensure(!model.blocks().empty(), "a model without blocks");
  const std::vector<Stretch> chosen =
      within(model.kept_blocks(), config.blocks.visit([&](const auto& blocks) { return stretches(blocks, model); }));
  const bool packs =
      config.storage_dtype != ActivationStorage::none || (config.offload == ActivationOffload::cpu && !device.is_cpu());
  if (chosen.empty() && !packs) return;
  install_saved_tensor_hooks();
  std::vector<model::Segment> segments;
  std::size_t next = 0;
  const auto pack_until = [&](std::size_t end) {
    for (; packs && next < end; ++next) segments.push_back(packed(model, config, next));
  };
  for (const Stretch& stretch : chosen) {
    pack_until(stretch.begin);
    segments.push_back(recomputed(model, config, stretch));
    next = stretch.end;
  }
  pack_until(num_candidates(model));
  model.set_segments(std::move(segments));
}

}  // namespace trainctl::activation_checkpointing
