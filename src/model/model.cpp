#include "model/model.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/error.h"
#include "model/freeze.h"
#include "model/layer_list/operators.h"
#include "model/layers/batch_norm.h"
#include "model/layers/convolution.h"
#include "model/layers/dropout.h"
#include "model/layers/embedding.h"
#include "model/lora.h"
#include "model/mup.h"
#include "model/networks.h"
#include "runtime/sample_randomness.h"

namespace trainctl::model {

at::Tensor VocabularyHead::capped(const at::Tensor& logits) const {
  const double softcap = logit_softcap();
  return softcap == 0 ? logits : logits.div(softcap).tanh().mul(softcap);
}

at::Tensor VocabularyHead::compute(const at::Tensor& hidden) {
  const at::Tensor offset = bias();
  const at::Tensor logits =
      capped(at::linear(features(hidden), weight(), offset.defined() ? std::optional(offset) : std::nullopt));
  if (ranks_ == nullptr) return logits;
  const std::int64_t after = part_.size - part_.first - logits.size(-1);
  return sum_of_parts(at::constant_pad_nd(logits, {part_.first, after}), ranks_);
}

void VocabularyHead::split(const TensorRanksPtr& ranks) {
  ranks_ = ranks;
  part_ = {.first = range_of(vocabulary_size_, *ranks).begin,
           .size = vocabulary_size_,
           .sum = ranks->sum,
           .max = ranks->max};
  split_own(*ranks);
}

at::Tensor Model::forward(const ModelInput& input) {
  return run(input, nullptr);
}

at::Tensor Model::forward_into_head(const ModelInput& input, const HeadUse& use) {
  core::ensure(vocabulary_head_ != nullptr, "the model has no vocabulary head");
  return run(input, &use);
}

void Model::share_sequences(const ContextRanksPtr& ranks) {
  context_ranks_ = ranks;
  visit_layers([&](const std::string&, Layer& layer) {
    if (auto* dropout = dynamic_cast<Dropout*>(&layer)) dropout->share_sequences(ranks);
  });
}

void Model::share_tokens(const TensorRanksPtr& ranks) {
  token_ranks_ = ranks;
  for (std::size_t i = 1; i + 1 < blocks_.size(); ++i)
    blocks_[i].layer->visit_parameters([](const std::string&, TensorDecl& decl) { decl.sums_gradient = !decl.shard; });
}

std::int64_t Model::renew_cache(ModelInput& input) const {
  constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();
  if (input.cache == nullptr || cache_version(kAnyLength) == 0) return 0;
  core::ensure(!input.hidden.defined(), "a cache that the length changes begins with the first block");
  const at::Tensor& all = input.cache->append_ids(input.values);
  const std::int64_t seen = input.cache->length();
  if (seen == 0 || cache_version(seen) == cache_version(all.size(1))) return 0;
  input.cache->clear();
  input.values = all;
  return seen;
}

at::Tensor Model::run(const ModelInput& given, const HeadUse* use) {
  ModelInput input = given;
  const std::int64_t repeated = renew_cache(input);
  const auto asked = [&](const at::Tensor& value) {
    return repeated == 0 ? value : value.narrow(1, repeated, value.size(1) - repeated);
  };
  input.ranks = context_ranks_.get();
  const SequenceContext shared = context(input);
  at::Tensor value = input.hidden.defined() ? input.hidden : input.values;
  const std::size_t end = std::min(input.blocks.end, blocks_.size());
  auto segment = std::find_if(segments_.begin(), segments_.end(),
                              [&](const PassedSegment& passed) { return passed.segment.begin >= input.blocks.begin; });
  for (std::size_t i = input.blocks.begin; i < end;) {
    const Block& block = blocks_[i];
    if (segment != segments_.end() && segment->segment.begin == i) {
      value = segment->segment.run(segment->passage, value, shared);
      i = segment->segment.end;
      ++segment;
      continue;
    }
    const std::size_t number = i++;
    if (use == nullptr || block.layer != vocabulary_head_) {
      value = run_block(number, block, value, shared);
      continue;
    }
    const auto use_head = [&](const at::Tensor& hidden, const SequenceContext&) {
      const LayerSpan span(*vocabulary_head_);
      return (*use)(*vocabulary_head_, vocabulary_head_->bring(asked(hidden)));
    };
    return run_block(number, {.name = block.name, .layer = block.layer, .forward = use_head}, value, shared);
  }
  return asked(value);
}

at::Tensor Model::run_block(std::size_t number, const Block& block, const at::Tensor& input,
                            const SequenceContext& context) const {
  runtime::SampleRandomness::begin_part(number);
  const auto run = [&](const at::Tensor& value) {
    return runner_ ? runner_(block, value, context) : block.forward(value, context);
  };
  if (token_ranks_ == nullptr) return run(input);
  if (number == 0) return own_tokens(run(input), token_ranks_);
  return run(number + 1 == blocks_.size() ? all_tokens(input, token_ranks_) : input);
}

TensorDecl* Model::shared_head_weight() const {
  if (vocabulary_head_ == nullptr) return nullptr;
  TensorDecl* shared = nullptr;
  const at::TensorImpl* const weight = vocabulary_head_->weight().unsafeGetTensorImpl();
  for (const Block& block : blocks_) {
    if (block.layer == vocabulary_head_) continue;
    block.layer->visit_parameters([&](const std::string&, TensorDecl& decl) {
      if (decl.value.unsafeGetTensorImpl() == weight) shared = &decl;
    });
  }
  return shared;
}

void Model::keep_blocks(const std::vector<BlockRange>& ranges) {
  std::set<TensorDecl*> kept;
  std::set<TensorDecl*> others;
  bool has_head = false;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool is_kept = std::any_of(ranges.begin(), ranges.end(),
                                     [&](const BlockRange& range) { return range.begin <= i && i < range.end; });
    const auto note = [&](const std::string&, TensorDecl& decl) { (is_kept ? kept : others).insert(&decl); };
    blocks_[i].layer->visit_parameters(note);
    blocks_[i].layer->visit_buffers(note);
    has_head = has_head || (is_kept && blocks_[i].layer == vocabulary_head_);
  }
  TensorDecl* const shared = has_head ? shared_head_weight() : nullptr;
  for (TensorDecl* decl : others) {
    if (kept.contains(decl)) continue;
    if (decl == shared) borrowed_ = decl;
    drop(*decl);
  }
  kept_ = ranges;
}

void Model::set_segments(std::vector<Segment> segments) {
  segments_.clear();
  std::size_t end = 0;
  for (Segment& segment : segments) {
    core::ensure(end <= segment.begin && segment.begin < segment.end && segment.end <= blocks_.size(),
                 "segments are runs of blocks, in order");
    end = segment.end;
    core::ensure(vocabulary_head_ == nullptr || blocks_[end - 1].layer != vocabulary_head_,
                 "the vocabulary head is in no segment");
    const auto passage = [this, begin = segment.begin, end](const at::Tensor& input, const SequenceContext& context) {
      at::Tensor value = input;
      for (std::size_t i = begin; i < end; ++i) value = run_block(i, blocks_[i], value, context);
      return value;
    };
    segments_.push_back({.segment = std::move(segment), .passage = passage});
  }
}

SequenceContext Model::context(const ModelInput&) const {
  return {};
}

void Model::add_block(std::string name, UnaryLayer& layer) {
  blocks_.push_back(
      {.name = std::move(name), .layer = &layer, .forward = [&layer](const at::Tensor& input, const SequenceContext&) {
         return layer.forward(input);
       }});
}

void Model::add_block(std::string name, SequenceLayer& layer) {
  blocks_.push_back({.name = std::move(name),
                     .layer = &layer,
                     .forward = [&layer](const at::Tensor& input, const SequenceContext& context) {
                       return layer.forward(input, context);
                     }});
}

void Model::add_vocabulary_head(std::string name, VocabularyHead& head) {
  vocabulary_head_ = &head;
  head.vocabulary_size_ = head.weight().size(0);
  add_block(std::move(name), static_cast<UnaryLayer&>(head));
}

void name_spans(Model& model) {
  std::set<std::string> names;  // a layer without a name of its own is part of its parent's work
  model.visit_layers([&](const std::string& name, Layer& layer) {
    if (names.insert(name).second) layer.set_span_name(name);
  });
  for (const Block& block : model.blocks()) block.layer->set_span_name(block.name);
}

void Model::visit_state(runtime::State& state) {
  const auto visit = [&](const std::string& name, TensorDecl& decl) { state.tensor(name, decl.value); };
  visit_parameters(visit);
  visit_buffers(visit);
}

void split_layers(Model& model, const TensorRanksPtr& ranks) {
  model.visit_layers([&](const std::string&, Layer& layer) { layer.split(ranks); });
  model.visit_parameters([&](const std::string&, TensorDecl& decl) { decl.is_copy = !decl.shard && ranks->rank > 0; });
  if (ranks->shares_tokens) model.share_tokens(ranks);
}

std::vector<NamedTensor> named_parameters(Model& model) {
  std::vector<NamedTensor> named;
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) {
    named.push_back({.name = name, .tensor = decl.value, .shard = decl.shard, .is_copy = decl.is_copy});
  });
  return named;
}

std::vector<NamedTensor> named_buffers(Model& model) {
  std::vector<NamedTensor> named;
  model.visit_buffers([&](const std::string& name, TensorDecl& decl) { named.push_back({name, decl.value}); });
  return named;
}

namespace {

/// Returns how many blocks come after the block of each parameter that is in one.
std::map<const TensorDecl*, std::int64_t> blocks_after(Model& model) {
  std::map<const TensorDecl*, std::int64_t> after;
  auto left = static_cast<std::int64_t>(model.blocks().size());
  for (const Block& block : model.blocks()) {
    --left;
    block.layer->visit_parameters([&](const std::string&, TensorDecl& decl) { after.emplace(&decl, left); });
  }
  return after;
}

/// Returns the parameters that are embeddings, and the output's.
std::map<const TensorDecl*, ParameterRole> roles_at_the_ends(Model& model) {
  std::map<const TensorDecl*, ParameterRole> roles;
  model.visit_layers([&](const std::string&, Layer& layer) {
    if (dynamic_cast<Embedding*>(&layer) != nullptr || dynamic_cast<PositionEmbedding*>(&layer) != nullptr)
      layer.visit_own_parameters([&](TensorDecl& decl) { roles.emplace(&decl, ParameterRole::embedding); });
  });
  // The last block may begin with hidden layers, as BERT's head does. A vocabulary head says what the output's is.
  const TensorDecl* output = nullptr;
  VocabularyHead* const head = model.vocabulary_head();
  if (!model.blocks().empty())
    model.blocks().back().layer->visit_parameters([&](const std::string&, TensorDecl& decl) {
      if (head == nullptr ? decl.value.dim() > 1 : head->weight().is_same(decl.value)) output = &decl;
    });
  if (output != nullptr) roles.emplace(output, ParameterRole::output);
  return roles;
}

ParameterRole role_inside(const TensorDecl& decl) {
  if (decl.value.dim() < 2) return ParameterRole::vector;
  const std::int64_t rows = decl.value.size(0);
  return rows > 1 && decl.value.numel() > rows ? ParameterRole::hidden : ParameterRole::vector;
}

}  // namespace

std::map<std::string, ParameterFacts> parameter_facts(Model& model) {
  const auto after = blocks_after(model);
  const auto ends = roles_at_the_ends(model);
  std::map<std::string, ParameterFacts> facts;
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) {
    const auto block = after.find(&decl);
    const auto end = ends.find(&decl);
    facts[name] = {.blocks_after = block == after.end() ? 0 : block->second,
                   .role = end == ends.end() ? role_inside(decl) : end->second,
                   .lr_scale = decl.lr_scale};
  });
  return facts;
}

std::int64_t num_parameters(Model& model) {
  std::int64_t count = 0;
  model.visit_parameters([&](const std::string&, TensorDecl& decl) { count += decl.value.numel(); });
  return count;
}

void set_running_statistics(Model& model, RunningStatistics when) {
  model.visit_layers([&](const std::string&, Layer& layer) {
    if (auto* norm = dynamic_cast<BatchNorm*>(&layer)) norm->set_running_statistics(when);
  });
}

void synchronize_batch_norm(Model& model, const BatchRanks& ranks) {
  model.visit_layers([&](const std::string&, Layer& layer) {
    if (auto* norm = dynamic_cast<BatchNorm*>(&layer)) norm->synchronize(ranks);
  });
}

void commit_running_statistics(Model& model, std::int64_t updates) {
  model.visit_layers([&](const std::string&, Layer& layer) {
    if (auto* norm = dynamic_cast<BatchNorm*>(&layer)) norm->commit(updates);
  });
}

std::unique_ptr<Model> build(const PluggedNetworkConfig& config, const InputSpec& input) {
  return config.interface().build(config.config(), input);
}

std::unique_ptr<Model> build(const ModelConfig& config, const InputSpec& input) {
  std::unique_ptr<Model> model = config.network.visit([&](const auto& network) { return build(network, input); });
  if (config.convolution_algorithm == ConvolutionAlgorithm::direct)
    model->visit_layers([](const std::string&, Layer& layer) {
      if (auto* convolution = dynamic_cast<Convolution*>(&layer)) convolution->set_winograd(kernels::Winograd::never);
    });
  if (config.mup) parametrize(*model, config, input);
  if (config.lora) add_adapters(*model, *config.lora);
  freeze(*model, config.freeze);
  name_spans(*model);
  return model;
}

}  // namespace trainctl::model
