#include <type_traits>

#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_wide_resnet(Checked& c) {
  const auto* wide = c.experiment.model.network.get_if<model::WideResNetConfig>();
  if (wide == nullptr || wide->depth % 6 == 4) return;
  const std::int64_t below = wide->depth - (wide->depth + 2) % 6;
  c.report({"model.depth", "model.kind"}, "expected 6 n + 4, such as " + std::to_string(below) + " or " +
                                              std::to_string(below + 6) + ", got " + std::to_string(wide->depth));
}

void check_cnn(Checked& c) {
  const auto* cnn = c.experiment.model.network.get_if<model::CnnConfig>();
  if (cnn == nullptr) return;
  if (cnn->kernel_size % 2 == 0)
    c.report({"model.kernel_size", "model.kind"},
             "expected an odd number, so that the image keeps its size, got " + std::to_string(cnn->kernel_size));
  if (cnn->num_pools && *cnn->num_pools > static_cast<std::int64_t>(cnn->channels.size()))
    c.report({"model.num_pools", "model.channels", "model.kind"},
             "each pooling follows a convolution, and there are " + std::to_string(cnn->channels.size()) + " of them");
}

void check_input(Checked& c) {
  const bool sequences = has_tokens(c.experiment.dataset.source);
  const bool takes_sequences = c.experiment.model.network.visit([](const auto& network) {
    return requires {
      network.vocab_size;
    };
  });
  if (has_rows(c.experiment.dataset.source)) {
    if (c.experiment.model.network.get_if<model::MlpConfig>() == nullptr)
      c.report({"model.kind", "dataset.kind"}, std::string(c.experiment.dataset.source.kind()) +
                                                   " has rows of numbers, which model mlp takes, and " +
                                                   std::string(c.experiment.model.network.kind()) + " doesn't");
    return;
  }
  if (sequences == takes_sequences) return;
  c.report({"model.kind", "dataset.kind"}, std::string(c.experiment.model.network.kind()) + " takes " +
                                               (takes_sequences ? "sequences of tokens" : "images") + ", but " +
                                               std::string(c.experiment.dataset.source.kind()) + " has " +
                                               (sequences ? "sequences of tokens" : "images"));
}

void check_classes(Checked& c) {
  const std::int64_t in_data = known_classes(c.experiment.dataset.source);
  const std::int64_t in_model = c.experiment.model.network.visit([](const auto& network) -> std::int64_t {
    if constexpr (requires { network.num_classes; }) return network.num_classes.value.value_or(0);
    return 0;
  });
  if (in_data > 0 && in_model > 0 && in_data != in_model)
    c.report({"model.num_classes", "model.kind", "dataset.kind", "dataset.num_classes", "dataset.coarse_labels"},
             "the dataset has " + std::to_string(in_data) + " classes, not " + std::to_string(in_model) +
                 "; leave this out to follow it");
}

/// Heads share the width evenly, unless they have a size of their own.
void check_heads(Checked& c) {
  c.experiment.model.network.visit([&](const auto& network) {
    if constexpr (requires { network.num_heads; }) {
      bool own_size = false;
      if constexpr (requires { network.head_size; }) own_size = !network.head_size.is_auto();
      if (!own_size && network.hidden_size % network.num_heads != 0)
        c.report({"model.hidden_size", "model.num_heads", "model.kind"},
                 "expected a multiple of model.num_heads, " + std::to_string(network.num_heads) + ", got " +
                     std::to_string(network.hidden_size));
    }
  });
}

void check_vit(Checked& c) {
  const auto* vit = c.experiment.model.network.get_if<model::VitConfig>();
  if (vit == nullptr) return;
  if (vit->pool == model::VitPool::token && !vit->class_token)
    c.report({"model.class_token", "model.pool", "model.kind"}, "model.pool is token, which is this one; or pool: avg");
  const auto* synthetic = c.experiment.dataset.source.get_if<dataset::SyntheticImagesConfig>();
  if (synthetic != nullptr && (synthetic->height % vit->patch_size != 0 || synthetic->width % vit->patch_size != 0))
    c.report({"model.patch_size", "model.kind", "dataset.kind", "dataset.height", "dataset.width"},
             "expected a divisor of the image's sides, " + std::to_string(synthetic->height) + " and " +
                 std::to_string(synthetic->width) + ", got " + std::to_string(vit->patch_size));
}

void check_lstm(Checked& c) {
  const auto* lstm = c.experiment.model.network.get_if<model::LstmConfig>();
  if (lstm == nullptr) return;
  if (lstm->bidirectional && c.experiment.task.get_if<task::CausalLmConfig>() != nullptr)
    c.report({"model.bidirectional", "model.kind", "task.kind"},
             "a language model must not see the tokens that it predicts");
  if (lstm->tie_embeddings && lstm->size_of_embedding() != lstm->hidden_size)
    c.report({"model.tie_embeddings", "model.embedding_size", "model.hidden_size", "model.kind"},
             "needs an embedding_size of " + std::to_string(lstm->hidden_size) + ", the hidden_size");
}

/// Which of the network's heads serves the task; "" where none does.
std::string_view head_for(const model::BertConfig&, std::string_view task) {
  if (task == task::ClassificationConfig::kind || task == task::RegressionConfig::kind) return "classification";
  if (task == task::MaskedLmConfig::kind || task == task::TokenClassificationConfig::kind) return task;
  return "";
}
std::string_view head_for(const model::LstmConfig&, std::string_view task) {
  if (task == task::ClassificationConfig::kind || task == task::RegressionConfig::kind) return "classification";
  return task == task::CausalLmConfig::kind ? "language_model" : "";
}

/// The head that `auto` becomes: it knows the number of classes, not the task.
template <class Network>
std::string_view chosen_head(const Network& network, std::string_view task) {
  if (config::name_of(network.head) != "auto") return config::name_of(network.head);
  const bool has_classes = task == task::ClassificationConfig::kind || task == task::TokenClassificationConfig::kind;
  if (has_classes || !network.num_classes.is_auto()) return "classification";
  return std::is_same_v<Network, model::BertConfig> ? "masked_lm" : "language_model";
}

void check_output(Checked& c) {
  const std::string_view task = c.experiment.task.kind();
  c.experiment.model.network.visit([&](const auto& network) {
    const std::string kind(network.kind);
    if constexpr (requires { network.head; }) {
      const std::string_view wanted = head_for(network, task);
      if (wanted.empty())
        c.report({"task.kind", "model.kind"}, kind + " has no head for " + std::string(task));
      else if (chosen_head(network, task) != wanted)
        c.report({"model.head", "model.kind", "model.num_classes", "task.kind"},
                 "task " + std::string(task) + " needs " + std::string(wanted) + ", got " +
                     std::string(config::name_of(network.head)));
    } else if constexpr (requires { network.vocab_size; }) {
      if (task != task::CausalLmConfig::kind)
        c.report({"task.kind", "model.kind"}, kind + " predicts next tokens: expected " +
                                                  std::string(task::CausalLmConfig::kind) + ", got " +
                                                  std::string(task));
    }
  });
}

}  // namespace

void check_model(Checked& checked) {
  check_wide_resnet(checked);
  check_cnn(checked);
  check_input(checked);
  check_classes(checked);
  check_heads(checked);
  check_vit(checked);
  check_lstm(checked);
  check_output(checked);
}

}  // namespace trainctl::experiment
