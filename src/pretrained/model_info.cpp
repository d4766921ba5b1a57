#include "pretrained/model_info.h"

#include <algorithm>

namespace trainctl::pretrained {

ModelInfo model_info_of(model::Model& model, const std::vector<std::int64_t>& input_shape) {
  ModelInfo facts{.input_shape = input_shape};
  if (const auto listed = model.listed_sizes()) {
    facts.vocab_size = listed->vocab_size;
    facts.num_outputs = listed->num_outputs;
    return facts;
  }
  const auto look_at = [&](const std::string& name, model::TensorDecl& decl) {
    const auto is = [&](auto which) {
      return std::any_of(model::kNetworkKinds.begin(), model::kNetworkKinds.end(),
                         [&](const model::NetworkKind& network) { return name == *(network.traits->*which); });
    };
    if (is(&model::ModelTraits::embedding)) facts.vocab_size = decl.value.size(0);
    if (is(&model::ModelTraits::classifier))
      facts.num_outputs = decl.value.size(decl.value.dim() == 3 ? 1 : 0);  // groups of levels: [groups, out, size]
  };
  model.visit_parameters(look_at);
  model.visit_buffers(look_at);  // of what is quantized
  return facts;
}

}  // namespace trainctl::pretrained
