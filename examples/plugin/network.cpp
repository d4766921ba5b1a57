// `model: {kind: maxout, hidden: [64, 64], pieces: 2}`: layers of maxout units (https://arxiv.org/abs/1302.4389).
#include <ATen/ops/amax.h>

#include "example.h"
#include "model/layers/linear.h"
#include "model/model.h"
#include "model/networks.h"

namespace example {
namespace {

using namespace trainctl;

struct MaxoutConfig {
  static constexpr std::string_view kind = "maxout";
  std::vector<std::int64_t> hidden = {64};
  std::int64_t pieces = 2;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    using C = MaxoutConfig;
    return config::Fields{
        field<&C::hidden>("Units of each hidden layer.", config::positive & config::non_empty),
        field<&C::pieces>("Linear functions whose largest value a unit gives.", config::at_least(2)),
        field<&C::num_classes>("Outputs; `auto`: as many as the data has classes.", config::at_least(1)),
    };
  }
  static constexpr model::ModelTraits traits{.input = model::Input::images,
                                             .outputs = model::Outputs{model::Output::per_sample},
                                             .padding = model::Padding::none,
                                             .has_token_types = false,
                                             .has_kv_cache = false,
                                             .is_recurrent = false,
                                             .has_convolutions = false,
                                             .embedding = "",
                                             .tied_output = "",
                                             .classifier = "head.weight",
                                             .transformers_type = "",
                                             .transformers_prefix = "",
                                             .has_transformers_names = false,
                                             .is_in_timm = false};
  model::OwnSizes sizes() const { return model::only_classes(num_classes); }
  model::SplitSizes split_sizes() const { return {}; }
  model::BrokenRules broken_rules(const model::Surroundings&) const { return {}; }
  static MaxoutConfig starter() { return {}; }
};

/// [B, ...] -> [B, units].
class MaxoutLayer final : public model::UnaryLayer {
 public:
  MaxoutLayer(std::int64_t features, std::int64_t units, std::int64_t pieces)
      : linear_(child<model::Linear>("", features, units * pieces)), pieces_(pieces) {}
  at::Tensor compute(const at::Tensor& input) override {
    return linear_.forward(input.flatten(1)).unflatten(1, {-1, pieces_}).amax(2);
  }
  double flops() const { return linear_.flops(); }

 private:
  model::Linear& linear_;
  std::int64_t pieces_;
};

class Maxout final : public model::Model {
 public:
  Maxout(const MaxoutConfig& config, const model::InputSpec& input) {
    std::int64_t features = model::image_shape(input, MaxoutConfig::kind).size();
    for (std::size_t i = 0; i < config.hidden.size(); ++i) {
      const std::string name = "hidden" + std::to_string(i + 1);
      auto& layer = child<MaxoutLayer>(name, features, config.hidden[i], config.pieces);
      add_block(name, layer);
      flops_ += layer.flops();
      features = config.hidden[i];
    }
    auto& head = child<model::Linear>("head", features, model::num_outputs(config.num_classes, input));
    add_block("head", head);
    flops_ += head.flops();
  }
  double flops_per_sample() const override { return flops_; }

 private:
  double flops_ = 0;
};

std::unique_ptr<model::Model> build(const MaxoutConfig& config, const model::InputSpec& input) {
  return std::make_unique<Maxout>(config, input);
}

}  // namespace

void add_network(plugin::Registry& registry) {
  registry.add_network<MaxoutConfig>();
}

}  // namespace example
