#include "exporters/gguf/export_gguf.h"

#include "exporters/gguf/gguf_network.h"
#include "exporters/gguf/gguf_vocabulary.h"
#include "model/lora.h"

namespace trainctl::exporters {
namespace {

/// The number by which llama.cpp names what most tensors of a file are.
std::uint32_t file_type_number(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q4_0:
      return 2;
    case GgufType::q8_0:
      return 7;
    case GgufType::q5_0:
      return 8;
    case GgufType::q4_k:
      return 14;  // "mostly Q4_K, small": the only type of matrices here
  }
  throw std::logic_error("unknown type");
}

}  // namespace

std::vector<std::string> export_gguf(model::Model& model, const model::NetworkConfig& network,
                                     const pretrained::ModelInfo& facts, const GgufRequest& request) {
  model::merge_adapters(model);
  checkpoint::TensorMap tensors;
  model.visit_parameters(
      [&](const std::string& name, model::TensorDecl& decl) { tensors[name] = decl.value.detach().cpu(); });
  GgufFile file;
  add_network(file, network, facts, tensors, request.type);
  file.set("general.name", request.name);
  file.set("general.file_type", file_type_number(request.type));
  file.set("general.quantization_version", std::uint32_t{2});
  if (request.tokenizer)
    add_vocabulary(file, *request.tokenizer, facts, request.chat_templates);
  else
    file.set("tokenizer.ggml.model", std::string("none"));  // without the key, llama.cpp doesn't load the file
  file.write(request.path);
  return file.stored_otherwise(request.type);
}

}  // namespace trainctl::exporters
