// Packages that PyTorch's AOTInductor compiled (torch._inductor.aoti_compile_and_package): a network as machine code.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace trainctl::exporters {

/// ".pt2"
bool is_inductor_package(const std::filesystem::path& path);

class InductorPackage {
 public:
  virtual ~InductorPackage() = default;
  /// The first output. What the code can't do with these sizes is an Error: it may have been compiled for others.
  virtual at::Tensor run(const std::vector<at::Tensor>& inputs) = 0;
};

/// The code in it is run as it is: whoever opens a package trusts who made it. What is no package, is damaged, or was
/// compiled for another kind of device or processor, is an Error that says so.
std::unique_ptr<InductorPackage> open_inductor_package(const std::filesystem::path& path);

}  // namespace trainctl::exporters
