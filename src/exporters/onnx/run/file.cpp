#include "exporters/onnx/run/file.h"

#include <ATen/core/grad_mode.h>

#include <charconv>
#include <limits>
#include <set>
#include <span>

#include "core/error.h"
#include "core/file.h"
#include "core/mapped_file.h"
#include "exporters/onnx/run/registry.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size())
    throw core::Error("`" + text + "` is no place in a file");
  return number;
}

constexpr std::uint64_t kMostSharing = 4;  // tensors that lie in the same bytes

/// The tensors' data in files beside the model's.
class Outside {
 public:
  explicit Outside(fs::path directory) : directory_(std::move(directory)) {}

  std::string_view part(const onnx::Tensor& stored) {
    std::map<std::string, std::string> said;
    for (const onnx::Entry& entry : stored.external_data) said[entry.key] = entry.value;
    const std::string& location = said["location"];
    const std::span<const std::byte> bytes = file(location);
    const std::uint64_t offset = said.contains("offset") ? number_of(said["offset"]) : 0;
    if (offset > bytes.size())
      throw core::Error("the data begin behind the end of " + location + ", got offset " + std::to_string(offset) +
                        "; expected at most " + std::to_string(bytes.size()));
    const std::uint64_t length = said.contains("length") ? number_of(said["length"]) : bytes.size() - offset;
    if (length > bytes.size() - offset)
      throw core::Error("the data end behind the end of " + location + ", got " + std::to_string(length) +
                        " bytes; expected at most " + std::to_string(bytes.size() - offset));
    if ((taken_[location] += length) > kMostSharing * bytes.size())
      throw core::Error("the tensors' data overlap in " + location + ": they would take far more memory than it has");
    return {reinterpret_cast<const char*>(bytes.data()) + offset, length};
  }

 private:
  std::span<const std::byte> file(const std::string& name) {
    if (const auto found = files_.find(name); found != files_.end()) return found->second.bytes();
    const fs::path path = directory_ / name;
    const bool is_plain = !name.empty() && name != "." && name != ".." && fs::path(name).filename() == name;
    if (!is_plain || fs::is_symlink(path) || (fs::exists(path) && !fs::is_regular_file(path)))
      throw core::Error("location of the data: no file beside the model, got `" + name + "`");
    return files_.emplace(name, core::MappedFile(path)).first->second.bytes();
  }

  fs::path directory_;
  std::map<std::string, core::MappedFile> files_;
  std::map<std::string, std::uint64_t> taken_;  // bytes of each that tensors have
};

onnx::Model parse(std::string_view bytes) {
  onnx::Model model = onnx::decode(bytes);
  if (model.graph.nodes.empty()) throw core::Error("the file has no graph; expected an undamaged ONNX file");
  if (model.has_functions) throw core::Error("the model defines functions, which aren't known here");
  return model;
}

void check_opset(const onnx::Model& model) {
  for (const onnx::OperatorSet& set : model.opsets) {
    if (!set.domain.empty() && set.domain != "ai.onnx")
      throw core::Error("the model has unknown operators, got `" + set.domain + "`; expected those of ai.onnx");
    if (set.version < 13 || set.version > 17)
      throw core::Error("the model has an unknown opset, got opset " + std::to_string(set.version) +
                        "; expected 13 to 17");
  }
  if (model.opsets.empty()) throw core::Error("the model names no opset; expected 13 to 17");
}

std::string title(const onnx::Node& node) {
  return "node `" + node.name + "` (" + node.op_type + ")";
}

}  // namespace

OnnxFile::OnnxFile(const fs::path& path) : path_(path) {
  if (!fs::is_regular_file(path)) throw core::Error("there is no file " + path.string());
  try {
    const std::string bytes = core::read_file(path, std::numeric_limits<std::int32_t>::max());
    model_ = parse(bytes);
    check_opset(model_);
    Outside outside(path.parent_path());
    for (const onnx::Tensor& stored : model_.graph.initializers) try {
        tensors_[stored.name] =
            tensor_of_onnx(stored, stored.is_external ? std::optional(outside.part(stored)) : std::nullopt);
      } catch (const core::Error& error) {
        throw core::Error("tensor `" + stored.name + "`: " + error.what());
      }
    model_.graph.initializers.clear();
    keep_constants();
    for (const onnx::ValueInfo& input : model_.graph.inputs)
      if (!tensors_.contains(input.name)) inputs_.push_back(input.name);
    for (const onnx::ValueInfo& output : model_.graph.outputs) outputs_.push_back(output.name);
    check_operators();
  } catch (const std::exception& error) {
    throw core::Error(path.string() + " can't be used: " + core::as_error(error).what());
  }
  const std::vector<onnx::Node>& nodes = model_.graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& input : nodes[i].inputs) last_use_[input] = i;
  for (const std::string& output : outputs_) last_use_[output] = nodes.size();
}

/// Copies the tensors among the attributes: they refer to the file's bytes, which are released.
void OnnxFile::keep_constants() {
  for (onnx::Node& node : model_.graph.nodes)
    for (onnx::Attribute& attribute : node.attributes)
      if (attribute.t && attribute.t->raw_data) attribute.t->raw_data = kept_.emplace_back(*attribute.t->raw_data);
}

/// Throws unless each operator is known, and each value is made before its use.
void OnnxFile::check_operators() const {
  std::set<std::string> known(inputs_.begin(), inputs_.end());
  for (const auto& [name, tensor] : tensors_) known.insert(name);
  for (const onnx::Node& node : model_.graph.nodes) {
    if (find_onnx_operator(node.op_type) == nullptr)
      throw core::Error(title(node) + " is an operator that isn't known here; ONNX Runtime may know it");
    for (const std::string& input : node.inputs)
      if (!input.empty() && !known.contains(input))
        throw core::Error(title(node) + " uses `" + input + "`, which nothing before it gives");
    known.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const std::string& output : outputs_)
    if (!known.contains(output)) throw core::Error("output `" + output + "`: no node gives this value");
  if (outputs_.empty()) throw core::Error("the model has no output; expected one or more");
}

std::string OnnxFile::note(const std::string& name) const {
  for (const onnx::Entry& entry : model_.metadata)
    if (entry.key == name) return entry.value;
  return "";
}

std::map<std::string, at::Tensor> OnnxFile::run(const std::map<std::string, at::Tensor>& inputs) const {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> values;
  for (const std::string& name : inputs_) {
    const auto given = inputs.find(name);
    if (given == inputs.end()) throw core::Error(path_.string() + " wants an input `" + name + "`, which isn't given");
    values[name] = given->second;
  }
  const auto value_of = [&](const std::string& name) {
    if (name.empty()) return at::Tensor();
    const auto found = values.find(name);
    return found != values.end() ? found->second : tensors_.at(name);
  };
  const std::vector<onnx::Node>& nodes = model_.graph.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const onnx::Node& node = nodes[i];
    std::vector<at::Tensor> arguments;
    for (const std::string& name : node.inputs) arguments.push_back(value_of(name));
    try {
      const std::vector<at::Tensor> results = find_onnx_operator(node.op_type)(OnnxCall(node, std::move(arguments)));
      for (std::size_t output = 0; output < node.outputs.size(); ++output)
        values[node.outputs[output]] = results.at(output);
    } catch (const std::exception& error) {
      throw core::Error("cannot run " + title(node) + " of " + path_.string() + ": " + core::as_error(error).what());
    }
    for (const std::string& name : node.inputs)
      if (last_use_.at(name) == i) values.erase(name);
  }
  std::map<std::string, at::Tensor> results;
  for (const std::string& name : outputs_) results[name] = value_of(name);
  return results;
}

}  // namespace trainctl::exporters
