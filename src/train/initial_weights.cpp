#include "train/initial_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/copy.h>

#include <set>
#include <sstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"

namespace trainctl {
namespace {

std::filesystem::path weights_file(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return path;
  if (std::filesystem::exists(path / "model.safetensors")) return path / "model.safetensors";
  if (const std::optional<Found> found = find_newest(path)) return found->path / "model.safetensors";
  throw Error("no weights in " + path.string() + ": neither model.safetensors nor a complete checkpoint")
      .hint("model.init_from takes a .safetensors file, a run directory or a step directory");
}

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// At most ten names, so that a wrong file doesn't fill the screen.
std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 10; ++i) text += "\n    " + names[i];
  if (names.size() > 10) text += "\n    … and " + std::to_string(names.size() - 10) + " more";
  return text;
}

}  // namespace

void load_initial_weights(Model& model, const std::filesystem::path& path) {
  const std::filesystem::path file = weights_file(path);
  const TensorMap tensors = read_safetensors(file);
  const at::NoGradGuard no_grad;
  std::set<std::string> left;
  for (const auto& [name, tensor] : tensors) left.insert(name);
  std::vector<std::string> problems;
  const auto copy = [&](const std::string& name, Slot& slot) {
    const auto found = tensors.find(name);
    left.erase(name);
    if (found == tensors.end())
      problems.push_back(name + ": missing in the file");
    else if (found->second.sizes() != slot.value.sizes())
      problems.push_back(name + ": " + shape_text(found->second) + " in the file, " + shape_text(slot.value) +
                         " in the model");
    else
      slot.value.copy_(found->second);
  };
  model.visit_parameters(copy);
  model.visit_buffers(copy);
  for (const std::string& name : left) problems.push_back(name + ": in the file, but not in the model");
  if (!problems.empty())
    throw Error("the weights in " + file.string() + " don't fit the model:" + names_text(problems))
        .hint("choose the model that the weights were saved from");
}

}  // namespace trainctl
