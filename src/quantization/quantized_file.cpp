#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "quantization/quantization.h"

namespace trainctl::quantization {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "quantized.safetensors";
constexpr const char* kDescription = "quantization.json";
constexpr const char* kFormat = "trainctl-quantized";
constexpr std::int64_t kVersion = 1;
constexpr const char* kOtherFile =
    "quantized.safetensors is of another network, or of an older trainctl; run trainctl quantize again";
constexpr std::uint64_t kLongestDescription = 16 << 20;

nlohmann::ordered_json describe(const Quantization& quantization) {
  const QuantizationRecipe& recipe = quantization.recipe();
  nlohmann::ordered_json document = {{"format", kFormat},
                                     {"version", kVersion},
                                     {"method", config::name_of(recipe.method)},
                                     {"backend", config::name_of(recipe.backend)},
                                     {"activation_bits", recipe.activation_bits},
                                     {"activations", config::name_of(recipe.activations)},
                                     {"weight_bits", recipe.weight_bits},
                                     {"group_size", recipe.group_size},
                                     {"engine_workarounds", recipe.engine_workarounds},
                                     {"skip_modules", recipe.skip_modules}};
  for (const LayerChoice& layer : quantization.layers())
    document["layers"].push_back({{"name", layer.name},
                                  {"num_weights", layer.num_weights},
                                  {"quantized", layer.kept_because.empty()},
                                  {"kept_because", layer.kept_because}});
  return document;
}

/// Returns the enumerator that a key of the file names.
template <class Word>
Word word_in(const nlohmann::json& document, const char* key) {
  const auto name = document.at(key).get<std::string>();
  if (const std::optional<Word> word = config::enumerator_named<Word>(name)) return *word;
  const std::vector<std::string_view> known = config::names_of<Word>();
  throw core::Error(std::string(key) + ": unknown word, got '" + name + "'; expected " +
                    core::list_words(std::vector<std::string>(known.begin(), known.end()), "or"));
}

QuantizationBackend backend_in(const nlohmann::json& document) {
  const auto backend = word_in<QuantizationBackend>(document, "backend");
  if (backend == QuantizationBackend::auto_)
    throw core::Error("backend: expected the engine that was chosen, got 'auto'");
  return resolved(backend);
}

/// Returns a number of the file; throws if it is out of range.
std::int64_t number_in(const nlohmann::json& document, const char* key, std::int64_t least, std::int64_t most) {
  const std::int64_t value = document.at(key).get<std::int64_t>();
  if (value < least || value > most)
    throw core::Error(std::string(key) + " is " + std::to_string(value) + ", expected " + std::to_string(least) +
                      " to " + std::to_string(most));
  return value;
}

QuantizationRecipe recipe_of(const nlohmann::json& document) {
  if (document.at("format") != kFormat)
    throw core::Error(std::string(kDescription) + ": unknown format, got " + document.at("format").dump() +
                      "; expected " + kFormat);
  if (number_in(document, "version", 1, 1 << 30) > kVersion)
    throw core::Error(std::string(kDescription) + ": version of a newer trainctl, got " +
                      document.at("version").dump() + "; expected at most " + std::to_string(kVersion))
        .hint("update trainctl, or quantize again");
  QuantizationRecipe recipe;
  recipe.method = word_in<QuantizationMethod>(document, "method");
  recipe.backend = backend_in(document);
  recipe.activation_bits = number_in(document, "activation_bits", 7, 8);
  if (document.contains("activations")) recipe.activations = word_in<ActivationScheme>(document, "activations");
  recipe.weight_bits = document.at("weight_bits").get<std::int64_t>();
  recipe.group_size = document.at("group_size").get<std::int64_t>();
  check_weights(recipe);
  recipe.engine_workarounds = document.value("engine_workarounds", true);
  recipe.skip_modules = document.at("skip_modules").get<std::vector<std::string>>();
  if (rounds_activations_ahead(recipe.method) && recipe.activation_bits > activation_bits(recipe.backend))
    throw core::Error("activation_bits: sums of bytes overflow on this CPU, got " +
                      std::to_string(recipe.activation_bits) + "; expected 7")
        .hint("trainctl quantize with --activation-bits 7, or on this machine");
  return recipe;
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "×") + std::to_string(size);
  return "[" + text + "]";
}

void fill(model::TensorDecl& decl, const std::string& name, const at::Tensor& stored) {
  if (stored.scalar_type() != decl.value.scalar_type() || stored.sizes() != decl.value.sizes())
    throw core::Error(name + " is " + std::string(c10::toString(stored.scalar_type())) + shape_text(stored.sizes()) +
                      ", expected " + std::string(c10::toString(decl.value.scalar_type())) +
                      shape_text(decl.value.sizes()));
  if (stored.is_floating_point() && !stored.isfinite().all().item<bool>()) throw core::Error(name + " isn't finite");
  const at::Tensor own = stored.clone();
  decl.value = decl.value.dim() == 4 && decl.value.is_contiguous(at::MemoryFormat::ChannelsLast)
                   ? own.contiguous(at::MemoryFormat::ChannelsLast)
                   : own;
}

void fill(model::Model& model, checkpoint::TensorMap tensors) {
  const auto take = [&](const std::string& name, model::TensorDecl& decl) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw core::Error(name + " is missing").hint(kOtherFile);
    fill(decl, name, found->second);
    tensors.erase(found);
  };
  model.visit_parameters(take);
  model.visit_buffers(take);
  if (!tensors.empty()) throw core::Error(tensors.begin()->first + " has no place in this network").hint(kOtherFile);
}

}  // namespace

void save_quantized(model::Model& model, const Quantization& quantization, const fs::path& directory) {
  fs::create_directories(directory);
  checkpoint::TensorMap tensors;
  const auto list = [&](const std::string& name, model::TensorDecl& decl) { tensors[name] = decl.value.detach(); };
  model.visit_parameters(list);
  model.visit_buffers(list);
  fs::remove(directory / kDescription);
  nlohmann::ordered_json document = describe(quantization);
  document["checksum"] =
      checkpoint::write_safetensors(directory / kWeights, tensors, {{"format", "pt"}}, core::Durability::process);
  core::write_file_atomically(directory / kDescription, core::indented_json(document) + "\n");
}

bool is_quantized(const fs::path& directory) {
  return fs::exists(directory / kDescription) || fs::exists(directory / kWeights);
}

std::unique_ptr<Quantization> load_quantized(model::Model& model, const fs::path& directory,
                                             const at::Tensor& example) {
  const fs::path description = directory / kDescription;
  try {
    const auto document = core::parse_json(core::read_file(description, kLongestDescription), description.string());
    const QuantizationRecipe recipe = recipe_of(document);
    const fs::path weights = directory / kWeights;
    if (const std::string sum = core::checksum_file(weights); sum != document.at("checksum").get<std::string>())
      throw core::Error(weights.string() + " is damaged: its checksum is " + sum + ", expected " +
                        document.at("checksum").get<std::string>());
    auto quantization = std::make_unique<Quantization>(model, recipe, example);
    quantization->finish();
    fill(model, checkpoint::read_safetensors(weights));
    quantization->prepare();
    return quantization;
  } catch (const nlohmann::json::exception& error) {
    throw core::Error(description.string() + " is damaged: " + core::as_error(error).what());
  } catch (core::Error& error) {
    error.during("loading " + directory.string());
    throw;
  }
}

}  // namespace trainctl::quantization
