#include "train/run/initial_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/copy.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "config/flatten.h"
#include "config/write.h"
#include "core/error.h"
#include "experiment/published_config.h"
#include "model/lora.h"
#include "pretrained/adapter_file.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/state_dict_adapter.h"
#include "pretrained/weights_source.h"
#include "quantization/training.h"
#include "runtime/fake_tensor.h"

namespace trainctl::train {
namespace {

constexpr std::size_t kMostNames = 10;

/// Returns the first texts, one per line, so that a wrong file doesn't fill the screen.
std::string lines_of(const std::vector<std::string>& texts) {
  std::string text;
  for (std::size_t i = 0; i < texts.size() && i < kMostNames; ++i) text += "\n    " + texts[i];
  if (texts.size() > kMostNames) text += "\n    … and " + std::to_string(texts.size() - kMostNames) + " more";
  return text;
}

std::string words_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNames; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMostNames ? text + " and " + std::to_string(names.size() - kMostNames) + " more" : text;
}

std::string shape_text(c10::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

/// Returns whether values of one dtype may become those of another: numbers of 16 bits and more.
bool is_convertible(at::ScalarType from, at::ScalarType to) {
  const auto is_plain_float = [](at::ScalarType type) {
    return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
  };
  return from == to || (is_plain_float(from) && is_plain_float(to)) ||
         (c10::isIntegralType(from, false) && c10::isIntegralType(to, false));
}

class Loading {
 public:
  Loading(const model::ModelConfig& config, checkpoint::TensorMap tensors)
      : policy_(config.init_policy),
        has_lora_(config.lora.has_value()),
        has_adapters_(has_lora_ && config.lora->init_from),
        tensors_(std::move(tensors)) {
    for (const auto& [name, tensor] : tensors_) left_.insert(name);
  }

  void match(const std::string& name, const model::TensorDecl& decl) {
    const at::Tensor* found = find(name);
    // PyTorch's BatchNorm begins at 0, too, where an old file has none.
    if (found == nullptr && name.ends_with("num_batches_tracked")) return;
    if (found == nullptr) return miss(name, decl, name + ": missing in the file");
    const c10::IntArrayRef shape = decl.shard ? c10::IntArrayRef(decl.shard->shape) : decl.value.sizes();
    if (found->sizes() != shape)
      return miss(name, decl,
                  name + ": " + shape_text(found->sizes()) + " in the file, " + shape_text(shape) + " in the model");
    if (!is_convertible(found->scalar_type(), decl.value.scalar_type())) {
      problems_.push_back(name + ": " + c10::toString(found->scalar_type()) + " in the file can't become " +
                          c10::toString(decl.value.scalar_type()));
      return;
    }
    matches_.emplace(name, decl.shard ? decl.shard->of(*found) : *found);
  }

  /// Judges the tensors of the file that no parameter took.
  void judge_rest() {
    for (const std::string& name : left_) {
      if (pretrained::is_known_extra(name) || repeats_another(name)) continue;
      // Without one of its adapters, a network isn't the one that the file adapts.
      const bool may_be_left = !(has_adapters_ && name.find(".lora_") != std::string::npos) &&
                               (policy_ == model::InitPolicy::partial ||
                                (policy_ == model::InitPolicy::new_head && pretrained::is_of_head(name)));
      if (may_be_left)
        unused_.push_back(name);
      else
        problems_.push_back(name + reason_for_no_place(name));
    }
  }

  /// Returns each tensor that the file lacks and that takes the values of another one, although the model has both.
  std::vector<std::string> repeated() const {
    std::vector<std::string> texts;
    for (const auto& [name, other] : taken_)
      if (matches_.contains(other)) texts.push_back(name + " from " + other);
    return texts;
  }

  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<std::string>& fresh() const { return fresh_; }
  const std::vector<std::string>& unused() const { return unused_; }
  const checkpoint::TensorMap& matches() const { return matches_; }

 private:
  const at::Tensor* find(const std::string& name) {
    auto found = tensors_.find(name);
    for (const std::string& other : pretrained::shared_with(name))
      if (found == tensors_.end()) found = tensors_.find(other);
    if (found == tensors_.end()) return nullptr;
    if (found->first != name) taken_.emplace(name, found->first);
    left_.erase(found->first);
    return &found->second;
  }

  /// Returns whether a tensor repeats another. A shared tensor may be in the file twice, if its values are the same.
  bool repeats_another(const std::string& name) const {
    for (const std::string& other : pretrained::shared_with(name)) {
      const auto found = tensors_.find(other);
      if (found != tensors_.end() && found->second.scalar_type() == tensors_.at(name).scalar_type() &&
          found->second.equal(tensors_.at(name)))
        return true;
    }
    return false;
  }

  std::string reason_for_no_place(const std::string& name) const {
    for (const std::string& other : pretrained::shared_with(name))
      if (tensors_.contains(other))
        return ": has other values in the file than " + other +
               ", and the model has one tensor for both (tie_word_embeddings in config.json)";
    return ": in the file, but not in the model";
  }

  void miss(const std::string& name, const model::TensorDecl& decl, std::string problem) {
    if ((has_lora_ && !has_adapters_ && model::is_adapter(name)) || quantization::is_rounding(name)) return;
    const bool may_be_fresh = policy_ == model::InitPolicy::partial ||
                              (policy_ == model::InitPolicy::new_head && pretrained::is_of_head(name));
    // Adapters can't make up for a random head that stays as it is.
    const bool stays_random = has_lora_ && policy_ != model::InitPolicy::partial && !decl.trainable;
    if (may_be_fresh && stays_random)
      problems_.push_back(problem + ", and frozen here; list it in model.lora.modules_to_save");
    else if (may_be_fresh)
      fresh_.push_back(name);
    else
      problems_.push_back(std::move(problem));
  }

  model::InitPolicy policy_;
  bool has_lora_;
  bool has_adapters_;  // which are loaded, too
  checkpoint::TensorMap tensors_;
  std::set<std::string> left_;                // names that no decl asked for
  checkpoint::TensorMap matches_;             // by names here
  std::map<std::string, std::string> taken_;  // names in the file, by names here, of tensors that go by another name
  std::vector<std::string> problems_;
  std::vector<std::string> fresh_;
  std::vector<std::string> unused_;
};

void check_config_json(const pretrained::WeightsSource& source, const model::ModelConfig& config,
                       const pretrained::ModelInfo& facts) {
  std::vector<std::string> found = pretrained::differences(source.config_json, config.network, facts);
  std::ranges::move(experiment::timm_differences(source.config_json, config.network), std::back_inserter(found));
  if (!found.empty())
    throw core::Error("the weights in " + source.from.string() + " are of another network:" + lines_of(found))
        .hint("set these keys as in config.json");
}

/// Returns whether a network's key changes training, the first values, or a head's size alone.
bool is_free_to_change(const std::string& key) {
  return key.find("drop") != std::string::npos || key.find("init") != std::string::npos || key == "num_classes";
}

/// Warns of keys of the network that the run had with other values: most change no shape, and what weights compute.
void tell_changed_keys(const pretrained::WeightsSource& source, const model::NetworkConfig& network,
                       std::vector<tracking::Notice>& notices) {
  const auto kind = source.config.find("model.kind");
  if (kind == source.config.end() || kind->second != network.kind()) return;
  const config::Node ours = network.visit([]<class Network>(const Network& one) {
    if constexpr (config::ForPlugIns<Network>)
      return config::Node::mapping();
    else
      return config::write(one);
  });
  std::vector<std::string> changed;
  for (const auto& [key, value] : config::flatten(ours)) {
    const auto was = source.config.find("model." + key);
    if (was == source.config.end() || was->second == value || is_free_to_change(key)) continue;
    if (was->second != "auto" && value != "auto")
      changed.push_back("model." + key + ": " + was->second + " -> " + value);
  }
  if (!changed.empty())
    notices.push_back({tracking::Level::warning, "the weights in " + source.from.string() +
                                                     " were trained with other keys: " + words_of(changed)});
}

/// Returns what the user may do about tensors that don't fit.
std::string advice(const model::ModelConfig& config) {
  if (config.lora && config.lora->init_from)
    return "leave the other keys of model.lora out, so that adapter_config.json gives them";
  return std::string("choose the model that the weights were saved from, or model.init_policy: ") +
         (config.init_policy == model::InitPolicy::strict ? "new_head" : "partial");
}

/// Returns the file's tensors by the names of our parameters and buffers.
checkpoint::TensorMap matching_weights(model::Model& model, const model::ModelConfig& config, const WeightsData& data,
                                       std::vector<tracking::Notice>& notices) {
  const pretrained::WeightsSource source = pretrained::open_weights(*config.init_from);
  pretrained::check_class_order(source, data.class_names, data.classes_by);
  check_config_json(source, config, pretrained::model_info_of(model, data.input.shape));
  tell_changed_keys(source, config.network, notices);
  checkpoint::TensorMap tensors = pretrained::as_named_here(source.tensors, config.network, model);
  std::string from = source.from.string();
  if (config.lora && config.lora->init_from) {
    from += ", with adapters from " + *config.lora->init_from;
    for (const auto& [name, tensor] :
         pretrained::read_adapters(*config.lora->init_from, config.network, *config.lora, model))
      tensors[name] = tensor;
  }
  Loading loading(config, std::move(tensors));
  const auto match = [&](const std::string& name, model::TensorDecl& decl) { loading.match(name, decl); };
  model.visit_parameters(match);
  model.visit_buffers(match);
  loading.judge_rest();
  if (!loading.problems().empty())
    throw core::Error("the weights in " + from + " don't fit the model:" + lines_of(loading.problems()))
        .hint(advice(config));
  if (loading.matches().empty())
    throw core::Error("none of the weights in " + source.from.string() + " fits the model")
        .hint("choose the model that the weights were saved from");
  std::string text = "weights from " + from;
  if (!source.note.empty()) text += " (" + source.note + ")";
  if (!loading.fresh().empty()) text += "; newly initialized: " + words_of(loading.fresh());
  if (!loading.unused().empty()) text += "; not used: " + words_of(loading.unused());
  notices.push_back({tracking::Level::info, text});
  if (const std::vector<std::string> repeated = loading.repeated(); !repeated.empty())
    notices.push_back({tracking::Level::warning,
                       "the weights in " + from + " lack tensors, which are taken from others: " + words_of(repeated)});
  return loading.matches();
}

model::Layer::TensorVisitor copy_from(const checkpoint::TensorMap& weights) {
  return [&weights](const std::string& name, model::TensorDecl& decl) {
    if (const auto found = weights.find(name); found != weights.end()) decl.value.copy_(found->second);
  };
}

}  // namespace

void load_initial_weights(model::Model& model, const model::ModelConfig& config, const WeightsData& data,
                          std::vector<tracking::Notice>& notices) {
  const at::NoGradGuard no_grad;
  const checkpoint::TensorMap weights = matching_weights(model, config, data, notices);
  model.visit_parameters(copy_from(weights));
  model.visit_buffers(copy_from(weights));
}

void check_initial_weights(model::Model& model, const model::ModelConfig& config, const WeightsData& data) {
  const runtime::RealScope values_of_the_file;
  std::vector<tracking::Notice> notices;
  matching_weights(model, config, data, notices);
}

model::FirstValues initial_weights(model::Model& model, const model::ModelConfig& config, const WeightsData& data,
                                   model::FirstValues otherwise, std::vector<tracking::Notice>& notices) {
  const at::NoGradGuard no_grad;
  const checkpoint::TensorMap weights = matching_weights(model, config, data, notices);
  model.visit_buffers(copy_from(weights));
  return [weights, otherwise](const std::string& name, const at::Tensor& value) {
    if (const auto found = weights.find(name); found != weights.end())
      value.copy_(found->second);
    else
      otherwise(name, value);
  };
}

std::int64_t sequences_per_sample(const dataset::SampleSpec& samples) {
  return samples.targets == dataset::Targets::preferences ? 2 : 1;
}

model::InputSpec input_spec(const dataset::SampleSpec& samples) {
  const bool is_value = samples.targets == dataset::Targets::values;
  std::vector<std::int64_t> shape = samples.input_shape;
  shape.front() /= sequences_per_sample(samples);
  return {std::move(shape), is_value ? 1 : samples.num_classes, samples.vocab_size, samples.target_length};
}

}  // namespace trainctl::train
