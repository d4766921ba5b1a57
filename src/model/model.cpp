#include "model/model.h"

#include "model/layers/batch_norm.h"
#include "model/networks.h"

namespace trainctl {

at::Tensor Model::forward(const at::Tensor& input) {
  at::Tensor value = input;
  for (const Block& block : blocks_) value = runner_ ? runner_(block, value) : block.layer->forward(value);
  return value;
}

void Model::visit_state(State& state) {
  const auto visit = [&](const std::string& name, Slot& slot) { state.tensor(name, slot.value); };
  visit_parameters(visit);
  visit_buffers(visit);
}

std::vector<NamedTensor> named_parameters(Model& model) {
  std::vector<NamedTensor> named;
  model.visit_parameters([&](const std::string& name, Slot& slot) { named.push_back({name, slot.value}); });
  return named;
}

std::vector<NamedTensor> named_buffers(Model& model) {
  std::vector<NamedTensor> named;
  model.visit_buffers([&](const std::string& name, Slot& slot) { named.push_back({name, slot.value}); });
  return named;
}

std::int64_t num_parameters(Model& model) {
  std::int64_t count = 0;
  model.visit_parameters([&](const std::string&, Slot& slot) { count += slot.value.numel(); });
  return count;
}

void set_running_statistics(Model& model, RunningStatistics when) {
  model.visit_layers([&](const std::string&, Layer& layer) {
    if (auto* norm = dynamic_cast<BatchNorm*>(&layer)) norm->set_running_statistics(when);
  });
}

void commit_running_statistics(Model& model) {
  model.visit_layers([](const std::string&, Layer& layer) {
    if (auto* norm = dynamic_cast<BatchNorm*>(&layer)) norm->commit();
  });
}

std::unique_ptr<Model> build(const ModelConfig& config, const InputSpec& input) {
  return config.network.visit([&](const auto& network) { return build(network, input); });
}

}  // namespace trainctl
