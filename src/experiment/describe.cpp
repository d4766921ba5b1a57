#include "experiment/describe.h"

#include "config/problems.h"
#include "config/read.h"
#include "config/reference.h"
#include "config/schema.h"
#include "config/starter.h"
#include "experiment/experiment.h"
#include "experiment/shape.h"

namespace trainctl::experiment {
namespace {

constexpr std::int64_t kStarterLength = 128;  // tokens
constexpr std::string_view kFashionMnist = "/usr/share/datasets/fashion-mnist/";

dataset::IdxFiles fashion_mnist(const std::string& part) {
  const std::string prefix = std::string(kFashionMnist) + part;
  return {prefix + "-images-idx3-ubyte.gz", prefix + "-labels-idx1-ubyte.gz"};
}

Experiment starter_experiment() {
  Experiment experiment;
  experiment.seed = 1;
  dataset::IdxConfig source;
  source.train = fashion_mnist("train");
  source.eval = fashion_mnist("t10k");
  experiment.dataset.source = source;
  dataset::NormalizeConfig normalize;
  normalize.mean = {0.2860};
  normalize.std = {0.3530};
  experiment.dataset.transforms = {normalize};
  experiment.train.epochs = 4;
  experiment.train.eval_every = 469;
  experiment.checkpoint.every = 469;
  return experiment;
}

/// A text that every Debian has, byte by byte: for a first look at language models.
void take_text(Experiment& experiment) {
  dataset::TextLmConfig text;
  text.train.files = {"/usr/share/common-licenses/GPL-3"};
  text.eval_fraction = 0.1;
  text.tokenizer = "bytes";
  text.seq_len = kStarterLength;
  experiment.dataset = {};
  experiment.dataset.source = text;
  experiment.dataset.batch_size = 16;
  experiment.task = task::CausalLmConfig{};
  experiment.train.epochs = 40;
  experiment.train.eval_every = 0;
  experiment.checkpoint.every = 100;
}

/// No tokenizer with a mask token can be taken for granted.
void take_made_up_tokens(Experiment& experiment) {
  dataset::SyntheticTokensConfig tokens;
  tokens.seq_len = kStarterLength;
  tokens.vocab_size = 1000;
  tokens.mask_probability = 0.15;
  take_text(experiment);
  experiment.dataset.source = tokens;
  experiment.task = task::MaskedLmConfig{};
  experiment.train.epochs = 2;
}

/// Sizes that learn in minutes on two cores, and data that the network takes.
template <class Network>
void fit_to_data(Network& network, Experiment& experiment) {
  if constexpr (requires { network.stem; }) network.stem = model::ResNetStem::cifar;  // for images of 28 pixels
  if constexpr (requires { network.patch_size; }) network.patch_size = 7;
  if constexpr (requires { network.num_heads; }) {
    network.hidden_size = 128;
    network.num_layers = 4;
    network.num_heads = 4;
  }
  if constexpr (requires { network.intermediate_size = std::int64_t{512}; }) network.intermediate_size = 512;
  if constexpr (requires { network.max_position_embeddings; }) network.max_position_embeddings = kStarterLength;
  if constexpr (std::is_same_v<Network, model::BertConfig>)
    take_made_up_tokens(experiment);
  else if constexpr (requires { network.vocab_size; })
    take_text(experiment);
}

/// Reads the two chosen kinds as if they had been written in a file.
void choose_kinds(const StarterChoice& choice, Experiment& experiment) {
  using config::Node;
  const auto section = [](const std::string& kind, const config::Origin& origin) {
    Node mapping = Node::mapping(origin);
    mapping.add("kind", origin, Node::scalar(kind, config::ScalarStyle::plain, origin));
    return mapping;
  };
  const config::Origin origin{config::OriginKind::command_line, "config new", 0, 0};
  const std::string model = choice.model.empty() ? "cnn" : choice.model;
  const std::string optimizer = choice.optimizer.empty() ? "adamw" : choice.optimizer;
  config::Problems problems;
  experiment.model = config::read<model::ModelConfig>(section(model, origin), problems, "model");
  experiment.optimizer = config::read<optimizer::OptimizerConfig>(section(optimizer, origin), problems, "optimizer");
  problems.throw_if_any();
  std::visit([&](auto& network) { fit_to_data(network, experiment); }, experiment.model.network.value);
  experiment.optimizer.lr = config::traits_of(experiment.optimizer.rule).starter_lr;
  experiment.optimizer.lr_scheduler.shape = optimizer::OneCycleScheduleConfig{};
}

}  // namespace

std::string experiment_schema() {
  return config::json_schema(experiment_shape(), "trainctl experiment");
}

std::string experiment_reference() {
  return config::markdown_reference(experiment_shape(), "The experiment file");
}

std::string experiment_starter(const StarterChoice& choice) {
  Experiment experiment = starter_experiment();
  experiment.name = choice.name;
  choose_kinds(choice, experiment);
  return "# Lines that begin with '#' say the defaults; `trainctl check` tells of mistakes.\n" +
         config::starter_text(experiment_shape(), &experiment);
}

}  // namespace trainctl::experiment
