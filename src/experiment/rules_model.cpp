#include "experiment/rules.h"

namespace trainctl {
namespace {

void check_wide_resnet(Checked& c) {
  const auto* wide = c.experiment.model.network.get_if<WideResNetConfig>();
  if (wide == nullptr || wide->depth % 6 == 4) return;
  const std::int64_t below = wide->depth - (wide->depth + 2) % 6;
  c.report({"model.depth", "model.kind"}, "expected 6 n + 4, such as " + std::to_string(below) + " or " +
                                              std::to_string(below + 6) + ", got " + std::to_string(wide->depth));
}

void check_cnn(Checked& c) {
  const auto* cnn = c.experiment.model.network.get_if<CnnConfig>();
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

}  // namespace

void check_model(Checked& checked) {
  check_wide_resnet(checked);
  check_cnn(checked);
  check_input(checked);
  check_classes(checked);
}

}  // namespace trainctl
