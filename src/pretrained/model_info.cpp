#include "pretrained/model_info.h"

#include <algorithm>
#include <array>

namespace trainctl::pretrained {

ModelInfo model_info_of(model::Model& model, const std::vector<std::int64_t>& input_shape) {
  constexpr std::array<std::string_view, 4> kEmbeddings = {"bert.embeddings.word_embeddings.weight",
                                                           "transformer.wte.weight", "model.embed_tokens.weight",
                                                           "encoder.weight"};
  constexpr std::array<std::string_view, 3> kClassifiers = {"classifier.weight", "head.weight", "fc.weight"};
  ModelInfo facts{.input_shape = input_shape};
  const auto look_at = [&](const std::string& name, model::Slot& slot) {
    if (std::find(kEmbeddings.begin(), kEmbeddings.end(), name) != kEmbeddings.end())
      facts.vocab_size = slot.value.size(0);
    if (std::find(kClassifiers.begin(), kClassifiers.end(), name) != kClassifiers.end())
      facts.num_outputs = slot.value.size(slot.value.dim() == 3 ? 1 : 0);  // groups of levels: [groups, out, size]
  };
  model.visit_parameters(look_at);
  model.visit_buffers(look_at);  // of what is quantized
  return facts;
}

}  // namespace trainctl::pretrained
