#include "exporters/package/serving.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "exporters/export_graph.h"
#include "exporters/package/torchserve_handler.h"
#include "exporters/package/zip_writer.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostInBatch = 64;  // that Triton may put together

void make_directories(const fs::path& directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) throw core::Error("cannot make the directory " + directory.string() + ": " + failed.message());
}

/// Returns the sizes of one sample, with -1 for a dynamic axis.
std::string dims_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::size_t i = 1; i < shape.size(); ++i)
    text += (text.empty() ? "" : ", ") + std::to_string(shape[i] == kSequenceAxis ? -1 : shape[i]);
  return "[ " + text + " ]";
}

std::vector<std::int64_t> output_shape(const ModelCard& card) {
  std::vector<std::int64_t> shape{kBatchAxis};
  const bool one_a_token =
      card.task_kind == "causal_lm" || card.task_kind == "masked_lm" || card.task_kind == "token_classification";
  if (one_a_token) shape.push_back(kSequenceAxis);
  shape.push_back(card.num_outputs);
  if (card.task_kind == "semantic_segmentation") {
    const std::vector<std::int64_t>& image = card.facts.input_shape;
    shape.insert(shape.end(), image.begin() + 1, image.end());
  }
  return shape;
}

/// Returns Triton's config:
/// https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md
std::string triton_config(const ServedModel& served) {
  const ModelCard& card = served.card;
  std::string text = "name: \"" + served.name +
                     "\"\nplatform: \"onnxruntime_onnx\"\nmax_batch_size: " + std::to_string(kMostInBatch) + "\n";
  for (const GraphInput& input : card.signature.inputs)
    text += "input [\n  {\n    name: \"" + input.name +
            "\"\n    data_type: " + (input.dtype == at::kLong ? "TYPE_INT64" : "TYPE_FP32") +
            "\n    dims: " + dims_of(input.shape) + "\n  }\n]\n";
  text += "output [\n  {\n    name: \"" + card.signature.output +
          "\"\n    data_type: " + (card.signature.restores_labels() ? "TYPE_FP64" : "TYPE_FP32") +
          "\n    dims: " + dims_of(output_shape(card)) + "\n";
  if (!card.facts.class_names.empty()) text += "    label_filename: \"labels.txt\"\n";
  return text + "  }\n]\ndynamic_batching { }\n";
}

/// Returns a line per name; a line end within a name becomes a blank.
std::string labels(const std::vector<std::string>& names) {
  std::string text;
  for (std::string name : names) {
    for (char& c : name)
      if (c == '\n' || c == '\r') c = ' ';
    text += name + "\n";
  }
  return text;
}

Json index_to_name(const std::vector<std::string>& names) {
  Json json = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) json[std::to_string(i)] = names[i];
  return json;
}

/// Returns the manifest that torch-model-archiver would write.
Json manifest(const ServedModel& served) {
  return {{"runtime", "python"},
          {"model",
           {{"modelName", served.name},
            {"serializedFile", "model.pt"},
            {"handler", "handler.py"},
            {"modelVersion", std::to_string(std::max<std::int64_t>(served.card.step, 1)) + ".0"}}},
          {"archiverVersion", "0.12.0"}};
}

std::string dumped(const Json& json) {
  return core::indented_json(json) + "\n";
}

}  // namespace

std::string served_name(const std::string& experiment) {
  std::string name;
  for (const char c : experiment)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ? c : '_';
  return name;
}

std::vector<fs::path> write_triton_repository(model::Model& model, const ServedModel& served,
                                              const fs::path& repository) {
  const fs::path directory = repository / served.name;
  make_directories(directory / "1");
  std::vector<fs::path> files = export_graph(model, served.card, directory / "1" / "model.onnx");
  const auto add = [&](const std::string& name, const std::string& text) {
    core::write_file_atomically(directory / name, text);
    files.push_back(directory / name);
  };
  add("config.pbtxt", triton_config(served));
  if (!served.card.facts.class_names.empty()) add("labels.txt", labels(served.card.facts.class_names));
  for (const auto& [name, text] : notes_of(served.card)) add(name, text);
  return files;
}

std::vector<fs::path> write_torchserve_archive(model::Model& model, const ServedModel& served,
                                               const fs::path& directory) {
  make_directories(directory);
  std::vector<fs::path> files = export_graph(model, served.card, directory / (served.name + ".pt"));
  const fs::path archive = directory / (served.name + ".mar");
  const fs::path beside = archive.string() + ".tmp";
  ZipWriter zip(beside);
  zip.add("MAR-INF/MANIFEST.json", dumped(manifest(served)));
  zip.add("model.pt", core::read_file(files.front()));
  zip.add("handler.py", kTorchServeHandler);
  zip.add("index_to_name.json", dumped(index_to_name(served.card.facts.class_names)));
  for (const auto& [name, text] : notes_of(served.card)) zip.add(name, text);
  for (const fs::path& file : served.tokenizer) zip.add(file.filename().string(), core::read_file(file));
  zip.close();
  fs::rename(beside, archive);
  files.push_back(archive);
  return files;
}

}  // namespace trainctl::exporters
