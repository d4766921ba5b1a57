// TorchScript files: written, and read back to be run.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trainctl::exporters {

/// mobile: frozen, optimised, in the lite interpreter's format.
enum class TorchScriptFlavour { full, mobile };

/// `notes` travel in the file, by name. The module's graph may be changed.
void write_torchscript(torch::jit::Module& module, TorchScriptFlavour flavour,
                       const std::map<std::string, std::string>& notes, const std::filesystem::path& path);

/// Outputs of a file's `forward`.
class TorchScriptFile {
 public:
  virtual ~TorchScriptFile() = default;
  virtual at::Tensor run(const std::vector<at::Tensor>& inputs) = 0;
  virtual std::string note(const std::string& name) const = 0;  // "": there is none
};

/// Either flavour. What isn't such a file, or is damaged, is an Error that says so.
std::unique_ptr<TorchScriptFile> open_torchscript(const std::filesystem::path& path);

}  // namespace trainctl::exporters
