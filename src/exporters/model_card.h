// What an artefact says of itself: the README.md that model hubs show, and the files that go with it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset/config.h"
#include "exporters/config.h"
#include "exporters/signature.h"
#include "pretrained/model_info.h"
#include "task/task.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::exporters {

/// quantized: our own, which `trainctl quantize` writes.
enum class ArtefactFormat { torchscript, torchscript_mobile, onnx, safetensors, quantized, hugging_face, timm, peft };

struct ModelCard {
  std::string name;  // the experiment's
  ModelCardConfig metadata{};
  ArtefactFormat format = ArtefactFormat::safetensors;
  std::string task_kind;                    // task.kind
  std::optional<double> label_threshold{};  // probability from which a sample has a label; none: it has one class
  std::string network_kind;                 // model.network's kind
  std::string dataset_kind;
  std::string config;            // config.yaml, whole
  std::string data_fingerprint;  // of the training data
  task::Metrics metrics{};       // on the evaluation set; empty: it names none
  std::int64_t step = 0;         // 0: weights of others
  std::int64_t num_parameters = 0;
  std::string
      quantization{};  // how it was brought to fewer bits: "static, 8 bits, affine activations"; empty: it is in floats
  pretrained::ModelInfo facts{};
  std::int64_t num_outputs = 0;         // of the last axis
  tokenizer::EncodeOptions encoding{};  // of texts
  bool bytes_are_tokens = false;
  Signature signature{};                            // of formats that have a graph
  std::map<std::string, std::string> side_files{};  // checksums of the files beside that programs obey, by name
};

constexpr const char* kModelJson = "model.json";
constexpr const char* kSideFiles = "side_files";  // its key for ModelCard's

/// YAML front matter as https://huggingface.co/docs/hub/model-cards has it, then text.
std::string readme(const ModelCard& card);

/// README.md, config.yaml, and model.json: what a program needs to know (task, classes, inputs, normalisation,
/// fingerprint, metrics). Beside an artefact that is a directory, within one that is a file.
std::map<std::string, std::string> notes_of(const ModelCard& card);

/// Training data that a model.json names; empty if it names none.
struct ListedData {
  std::vector<std::string> classes{};  // in the order of the outputs
  std::string fingerprint{};
};
ListedData data_in(const std::string& model_json);

}  // namespace trainctl::exporters
