// Ranks that share each sequence, against one process with whole sequences.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "distributed/distributed.h"
#include "model_layout.h"
#include "runtime/sample_randomness.h"

namespace trainctl::train {

using namespace testing;

namespace {

constexpr std::int64_t kLength = 32;
constexpr std::int64_t kVocabulary = 23;

void of_llama_adapters(experiment::Experiment& experiment) {
  network(llama())(experiment);
  experiment.model.lora =
      model::LoraConfig{.rank = 3, .dropout = 0.2, .target_modules = {{"q_proj", "v_proj", "down_proj"}}};
}

std::unique_ptr<model::Model> double_model(const model::NetworkConfig& network) {
  std::unique_ptr<model::Model> model =
      model::build({.network = network}, {.shape = {kLength}, .num_classes = 0, .vocab_size = kVocabulary});
  model::materialize(*model, c10::kCPU, 5, false);
  model->visit_parameters(
      [](const std::string&, model::TensorDecl& decl) { decl.value = decl.value.detach().to(at::kDouble); });
  for (const model::NamedTensor& parameter : model::named_parameters(*model)) parameter.tensor.requires_grad_(true);
  return model;
}

/// Logits of a rank's tokens, and all gradients of the sum of logits * `weights`.
struct Passes {
  at::Tensor logits;
  std::vector<at::Tensor> gradients;
};
Passes passes(model::Model& model, const model::ModelInput& input, const at::Tensor& weights) {
  const runtime::SampleRandomness randomness({.seed = 7, .epoch = 0, .first_sample = 3});
  Passes result{.logits = model.forward(input)};
  result.logits.mul(weights).sum().backward();
  for (const model::NamedTensor& parameter : model::named_parameters(model))
    result.gradients.push_back(parameter.tensor.grad());
  return result;
}

/// Compares the passes of ranks with those of one process, for sequences with padding or documents.
void check_passes(const model::NetworkConfig& network, const model::ModelInput& input, std::int64_t ranks) {
  const at::Tensor weights = at::randn({input.values.size(0), kLength, kVocabulary}, at::kDouble);
  const Passes whole = passes(*double_model(network), input, weights);
  on_ranks(ranks, [&](std::size_t, comm::Group& group) {
    comm::DeviceMesh mesh(group, {.context = ranks});
    const std::unique_ptr<model::Model> model = double_model(network);
    const model::ContextRanksPtr shared = distributed::context_ranks(mesh);
    model->share_sequences(shared);
    const at::Tensor places = shared->places(kLength, c10::kCPU);
    model::ModelInput own = input;
    own.values = input.values.index_select(1, places);
    Passes mine = passes(*model, own, weights.index_select(1, places));
    CHECK(mine.logits.sub(whole.logits.index_select(1, places)).abs().max().item<double>() < 1e-12);
    for (std::size_t i = 0; i < mine.gradients.size(); ++i) {
      group.all_reduce(mine.gradients[i], comm::Reduce::sum)->wait();
      CHECK(mine.gradients[i].sub(whole.gradients[i]).abs().max().item<double>() < 1e-11);
    }
  });
}

}  // namespace

TEST_CASE("ranks that share sequences make the steps of one process", "[train][dist][context]") {
  for (const std::int64_t context : {2, 4}) {
    check_layout(tokens(), {.name = "gpt2", .context = context, .change = network(gpt2())});
    check_layout(tokens(), {.name = "llama", .context = context, .change = network(llama())});
    check_layout(tokens(), {.name = "llama, fused", .context = context, .change = network(llama(0))});
    check_layout(tokens(), {.name = "lora", .context = context, .change = of_llama_adapters});
  }
}

TEST_CASE("sequences are split in copies, shards, stages and layers", "[train][dist][context]") {
  for (const distributed::DistributedKindConfig& how :
       {distributed::DistributedKindConfig(distributed::DdpConfig{.bucket_mib = 0.001}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 1}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 3}),
        distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 3, .shard = std::int64_t{1}})}) {
    check_layout(tokens(), {.name = "copies", .context = 2, .data = 2, .how = how, .change = network(llama())});
    check_layout(tokens(),
                 {.name = "stages", .pipeline = 2, .context = 2, .data = 2, .how = how, .change = network(gpt2())});
  }
  check_layout(tokens(), {.name = "layers", .tensor = 2, .context = 2, .change = network(llama())});
  check_layout(tokens(), {.name = "all",
                          .pipeline = 2,
                          .tensor = 2,
                          .context = 2,
                          .how = distributed::ZeroConfig{.stage = 1},
                          .change = network(gpt2())});
}

TEST_CASE("padding and documents hide keys of other ranks", "[train][dist][context]") {
  const at::Tensor ids = at::randint(kVocabulary, {3, kLength}, at::kLong);
  at::Tensor documents = at::zeros({3, kLength}, at::kLong);
  documents[1].narrow(0, 5, kLength - 5).fill_(1);
  documents[2] = at::arange(kLength).div(7, "floor");
  at::Tensor key_mask = at::ones({3, kLength}, at::kBool);
  key_mask[1].narrow(0, 9, kLength - 9).fill_(false);
  key_mask[2].narrow(0, 0, 3).fill_(false);  // the first queries see nothing
  for (const std::int64_t ranks : {2, 4})
    for (const model::NetworkConfig& network :
         {model::NetworkConfig(llama()), model::NetworkConfig(llama(0)), model::NetworkConfig(gpt2())}) {
      CAPTURE(ranks, std::string(network.kind()));
      check_passes(network, {.values = ids}, ranks);
      check_passes(network, {.values = ids, .documents = documents}, ranks);
      check_passes(network, {.values = ids, .key_mask = key_mask}, ranks);
    }
}

TEST_CASE("state of shared sequences restores exactly in any layout", "[train][dist][context]") {
  const ModelLayout alone{.name = "alone", .change = network(gpt2())};
  const ModelLayout sequences{.name = "context 2 × zero 2",
                              .context = 2,
                              .data = 2,
                              .how = distributed::ZeroConfig{.stage = 3},
                              .change = network(gpt2())};
  const ModelLayout cube{
      .name = "context 2 × tensor 2 × pipeline 2", .pipeline = 2, .tensor = 2, .context = 2, .change = network(gpt2())};
  for (const auto& [from, to] : {std::pair(sequences, alone), std::pair(alone, sequences), std::pair(cube, sequences)})
    check_moved(from, to);
}

TEST_CASE("numbers of ranks that can't share sequences are refused", "[train][dist][context]") {
  CHECK_THROWS_WITH(build_on(3, tokens(), {.context = 2}),
                    Catch::Contains("context is 2, which doesn't divide the 3 ranks"));
  CHECK_THROWS_WITH(build_on(3, tokens(), {.context = 3}),
                    Catch::Contains("sequences of 16 tokens can't be cut into 6"));
}

}  // namespace trainctl::train
