#include <catch2/catch.hpp>

#include <map>
#include <type_traits>

#include "model_support.h"

namespace trainctl::model::traits_test {

using namespace trainctl;
using namespace trainctl::testing;

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

Shapes parameters_of(const model::NetworkConfig& network, const model::InputSpec& input) {
  const std::unique_ptr<model::Model> built = model::build(with_network(network), input);
  model::materialize_without_parameters(*built, at::kCPU, /*channels_last=*/false);
  Shapes shapes;
  built->visit_parameters(
      [&](const std::string& name, model::TensorDecl& decl) { shapes.emplace(name, decl.value.sizes().vec()); });
  return shapes;
}

constexpr std::int64_t kVocabulary = 61;

/// One for each token, or for each bucket of n-grams.
template <class Network>
std::int64_t num_embeddings(const Network& network) {
  if constexpr (requires { network.num_buckets; }) return network.num_buckets;
  return kVocabulary;
}

template <class Network>
void check_names(const Network& network) {
  const model::ModelTraits& traits = Network::traits;
  const bool takes_tokens = traits.input == model::Input::tokens;
  const bool classifies = traits.outputs.value.contains(model::Output::per_sample);
  const std::int64_t side = model::kStarterImageSide;
  model::InputSpec input{.shape = {3, side, side}, .num_classes = classifies ? 5 : 0};
  if (takes_tokens) input.shape = {8}, input.vocab_size = kVocabulary;
  INFO(Network::kind);
  const Shapes shapes = parameters_of(network, input);
  if (takes_tokens) CHECK(shapes.at(std::string(*traits.embedding)).front() == num_embeddings(network));
  if (classifies && !traits.classifier.value.empty()) CHECK(shapes.at(std::string(*traits.classifier)).front() == 5);
}

}  // namespace

TEST_CASE("every network has the parameters that its traits name", "[model]") {
  []<class... Networks>(std::type_identity<config::OneOf<Networks...>>) {
    const auto check = []<class Network>(const Network& network) {
      if constexpr (!std::same_as<Network, model::TorchScriptConfig>) check_names(network);  // its file names them
    };
    (check(Networks::starter()), ...);
  }(std::type_identity<model::OwnNetworkConfig>());
}

TEST_CASE("kinds are listed by what they are", "[model]") {
  const auto caches = [](const model::ModelTraits& traits) { return *traits.has_kv_cache; };
  CHECK(model::kinds_where(caches) == std::vector<std::string>{"gpt2", "llama", "t5"});
  CHECK(config::traits_of(model::NetworkConfig(model::LstmConfig{})).is_recurrent);
  CHECK(sizes_of(model::NetworkConfig(model::BertConfig{})).max_position_embeddings.value ==
        std::optional<std::int64_t>(512));
}

}  // namespace trainctl::model::traits_test
