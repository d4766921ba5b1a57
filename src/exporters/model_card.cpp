#include "exporters/model_card.h"
#include "core/json.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/version.h"

namespace trainctl::exporters {
namespace {

using Json = nlohmann::ordered_json;

/// Returns a scalar in YAML, whose quoting includes JSON's.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns the hub's name of a task: https://huggingface.co/tasks.
const char* pipeline_tag(const ModelCard& card) {
  if (card.task_kind == "causal_lm") return "text-generation";
  if (card.task_kind == "masked_lm") return "fill-mask";
  if (card.task_kind == "seq2seq_lm") return "text2text-generation";
  if (card.task_kind == "token_classification") return "token-classification";
  if (card.facts.vocab_size > 0) return "text-classification";
  if (card.facts.input_shape.size() == 3) return "image-classification";
  return card.task_kind == "regression" ? "tabular-regression" : "tabular-classification";
}

const char* library_of(ArtefactFormat format) {
  switch (format) {
    case ArtefactFormat::torchscript:
    case ArtefactFormat::torchscript_mobile:
    case ArtefactFormat::safetensors:
      return "pytorch";
    case ArtefactFormat::onnx:
      return "onnx";
    case ArtefactFormat::quantized:
      return "trainctl";
    case ArtefactFormat::hugging_face:
      return "transformers";
    case ArtefactFormat::timm:
      return "timm";
    case ArtefactFormat::peft:
      return "peft";
  }
  throw std::logic_error("unknown format");
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string front_matter(const ModelCard& card) {
  std::string text = "---\n";
  if (card.metadata.license) text += "license: " + quoted(*card.metadata.license) + "\n";
  text += std::string("library_name: ") + library_of(card.format) + "\n";
  text += std::string("pipeline_tag: ") + pipeline_tag(card) + "\ntags:\n  - trainctl\n";
  for (const std::string& tag : card.metadata.tags) text += "  - " + quoted(tag) + "\n";
  if (card.metrics.empty()) return text + "---\n";
  text += "model-index:\n  - name: " + quoted(card.name) +
          "\n    results:\n      - task:\n          type: " + pipeline_tag(card) +
          "\n        dataset:\n          name: " + quoted(card.dataset_kind) +
          "\n          type: " + quoted(card.dataset_kind) + "\n        metrics:\n";
  for (const auto& [name, value] : card.metrics)
    text += "          - type: " + quoted(name) + "\n            value: " + number(value) + "\n";
  return text + "---\n";
}

std::string described(const GraphInput& input) {
  std::string shape;
  for (const std::int64_t size : input.shape)
    shape += (shape.empty() ? "" : ", ") + (size == kBatchAxis      ? "batch"
                                            : size == kSequenceAxis ? "sequence"
                                                                    : std::to_string(size));
  return "`" + input.name + "`: " + (input.dtype == at::kLong ? "int64" : "float32") + " [" + shape + "]";
}

std::string usage(const ModelCard& card) {
  std::string call;
  for (const GraphInput& input : card.signature.inputs) call += (call.empty() ? "" : ", ") + input.name;
  switch (card.format) {
    case ArtefactFormat::torchscript:
      return "```python\nimport torch\n\nmodel = torch.jit.load(\"model.pt\")\nlogits = model(" + call + ")\n```\n";
    case ArtefactFormat::torchscript_mobile:
      return "For LibTorch's lite interpreter: `torch::jit::_load_for_mobile(\"model.ptl\")`.\n";
    case ArtefactFormat::onnx: {
      std::string feed;
      for (const GraphInput& input : card.signature.inputs)
        feed += (feed.empty() ? "" : ", ") + ("\"" + input.name + "\": " + input.name);
      return "```python\nimport onnxruntime\n\nsession = onnxruntime.InferenceSession(\"model.onnx\")\nlogits, = "
             "session.run([\"logits\"], {" +
             feed + "})\n```\n";
    }
    case ArtefactFormat::safetensors:
      return "```python\nfrom safetensors.torch import load_file\n\nweights = load_file(\"model.safetensors\")\n```\n";
    case ArtefactFormat::quantized:
      return "```sh\ntrainctl eval config.yaml --checkpoint .\n```\n\n`predict`, `generate` and `export` take it, too. "
             "What it "
             "gives and costs is in report.html.\n";
    case ArtefactFormat::hugging_face:
      return "```python\nfrom transformers import AutoConfig, AutoModel\n\nmodel = AutoModel.from_pretrained(\".\")\n"
             "```\n";
    case ArtefactFormat::timm:
      return "```python\nimport timm\n\nmodel = timm.create_model(\"local-dir:.\")\n```\n";
    case ArtefactFormat::peft:
      return "Load the base (`base_model_name_or_path` of adapter_config.json) with the class of transformers that its "
             "config.json names, and then the adapters:\n\n```python\nfrom peft import PeftModel\n\nmodel = "
             "PeftModel.from_pretrained(base, \".\")\n```\n";
  }
  throw std::logic_error("unknown format");
}

/// Describes a transform of an image's frame; null for any other transform.
Json described_transform(const dataset::TransformConfig& transform) {
  Json json;
  if (const auto* resize = transform.get_if<dataset::ResizeConfig>()) {
    json = {{"kind", "resize"}, {"size", resize->size}};
    if (resize->width) json["width"] = *resize->width;
    if (resize->max_size) json["max_size"] = *resize->max_size;
  }
  if (const auto* crop = transform.get_if<dataset::CenterCropConfig>()) {
    json = {{"kind", "center_crop"}, {"size", crop->size}};
    if (crop->width) json["width"] = *crop->width;
  }
  return json;
}

Json model_json(const ModelCard& card) {
  Json inputs = Json::array();
  for (const GraphInput& input : card.signature.inputs) {
    Json shape = Json::array();
    for (const std::int64_t size : input.shape)
      if (size == kBatchAxis)
        shape.push_back("batch");
      else if (size == kSequenceAxis)
        shape.push_back("sequence");
      else
        shape.push_back(size);
    inputs.push_back(
        {{"name", input.name}, {"type", input.dtype == at::kLong ? "int64" : "float32"}, {"shape", shape}});
  }
  Json json = {{"trainctl", core::kVersion},
               {"name", card.name},
               {"task", card.task_kind},
               {"network", card.network_kind},
               {"step", card.step},
               {"num_parameters", card.num_parameters},
               {"data_fingerprint", card.data_fingerprint}};
  if (!card.quantization.empty()) json["quantization"] = card.quantization;
  if (card.metadata.license) json["license"] = *card.metadata.license;
  json["metrics"] = Json::object();
  for (const auto& [name, value] : card.metrics) json["metrics"][name] = value;
  if (card.label_threshold) json["threshold"] = *card.label_threshold;
  if (!card.facts.class_names.empty()) json["classes"] = card.facts.class_names;
  if (!inputs.empty()) json["inputs"] = inputs;
  if (!inputs.empty()) json["output"] = card.signature.output;
  if (card.encoding.max_length) json["max_length"] = *card.encoding.max_length;
  if (card.encoding.special_tokens == tokenizer::SpecialTokens::leave_out) json["special_tokens"] = false;
  if (card.bytes_are_tokens) json["bytes_are_tokens"] = true;
  if (card.facts.roles.pad) json["pad"] = *card.facts.roles.pad;
  for (const dataset::TransformConfig& transform : card.facts.transforms)
    if (const auto described = described_transform(transform); !described.is_null())
      json["transforms"].push_back(described);
  if (!card.facts.pixel_mean.empty())
    json["normalize"] = {{"mean", card.facts.pixel_mean}, {"std", card.facts.pixel_std}};
  if (!card.side_files.empty()) json[kSideFiles] = card.side_files;
  return json;
}

}  // namespace

std::string readme(const ModelCard& card) {
  std::string text = front_matter(card) + "\n# " + card.name + "\n\n";
  if (!card.metadata.description.empty()) text += card.metadata.description + "\n\n";
  text +=
      "A " + card.network_kind + " with " + std::to_string(card.num_parameters) + " parameters, trained by trainctl";
  text += card.step > 0 ? " in " + std::to_string(card.step) + " steps.\n\n" : ".\n\n";
  if (!card.quantization.empty()) text += "Quantized afterwards: " + card.quantization + ".\n\n";
  text += "## Use\n\n" + usage(card) + "\n";
  if (!card.signature.inputs.empty()) {
    text += "Inputs:\n\n";
    for (const GraphInput& input : card.signature.inputs) text += "- " + described(input) + "\n";
    text += "\nThe output is `" + card.signature.output + "`.\n\n";
  }
  if (card.facts.input_shape.size() == 3 && !card.facts.pixel_mean.empty()) {
    text += "Pixels are bytes / 255, less the mean, over the standard deviation, by channel: mean";
    for (const double value : card.facts.pixel_mean) text += " " + number(value);
    text += ", standard deviation";
    for (const double value : card.facts.pixel_std) text += " " + number(value);
    text += ".\n\n";
  }
  if (!card.metrics.empty()) {
    text += "## Evaluation\n\n| metric | value |\n| --- | --- |\n";
    for (const auto& [name, value] : card.metrics) text += "| " + name + " | " + number(value) + " |\n";
    text += "\n";
  }
  text += "## Training\n\nThe training data's fingerprint is `" + card.data_fingerprint +
          "`. config.yaml is the whole experiment: `trainctl train config.yaml` repeats it.\n";
  return text;
}

std::map<std::string, std::string> notes_of(const ModelCard& card) {
  return {{"README.md", readme(card)},
          {"config.yaml", card.config},
          {kModelJson, core::indented_json(model_json(card)) + "\n"}};
}

ListedData data_in(const std::string& model_json) {
  const auto json = core::parse_json_or_discard(model_json);
  if (!json.is_object() || !json.contains("trainctl")) return {};
  ListedData data{.fingerprint = core::text_member(json, "data_fingerprint")};
  const auto classes = json.value("classes", nlohmann::json::array());
  if (std::all_of(classes.begin(), classes.end(), [](const auto& name) { return name.is_string(); }))
    data.classes.assign(classes.begin(), classes.end());
  return data;
}

}  // namespace trainctl::exporters
