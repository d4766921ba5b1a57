#include "exporters/inductor_package.h"

#include <dlfcn.h>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <string>

#include "core/error.h"
#include "machine/cpu.h"
#include "model/torch_archive.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;
using PackageLoader = torch::inductor::AOTIModelPackageLoader;

/// Loads libtorch.so from LibTorch's directory: packages are linked with it, and the program itself is not.
void load_libtorch() {
  if (::dlopen("libtorch.so", RTLD_LAZY | RTLD_GLOBAL) == nullptr)
    throw core::Error("libtorch.so, which packages need, can't be loaded: " + std::string(::dlerror()));
}

/// Throws if the package's code is for another machine.
void check_target(const fs::path& path) {
  const auto notes = PackageLoader::load_metadata_from_package(path.string(), "model");
  if (const auto device = notes.find("AOTI_DEVICE_KEY"); device != notes.end() && device->second != "cpu")
    throw core::Error("the package is compiled for the wrong device, got " + device->second + "; expected cpu");
  if (const auto isa = notes.find("AOTI_CPU_ISA"); isa != notes.end())
    if (isa->second.find("512") != std::string::npos && !machine::cpu_features().avx512f)
      throw core::Error("the package is compiled for CPUs with " + isa->second + ", which this CPU lacks");
}

class Package final : public InductorPackage {
 public:
  explicit Package(const fs::path& path) : path_(path), loader_(path.string()) {}

  at::Tensor run(const std::vector<at::Tensor>& inputs) override {
    const at::NoGradGuard no_grad;
    try {
      std::vector<at::Tensor> contiguous;
      for (const at::Tensor& input : inputs) contiguous.push_back(input.contiguous());
      const std::vector<at::Tensor> outputs = loader_.run(contiguous);
      if (outputs.empty()) throw core::Error("the package returned no tensor; expected one");
      return outputs.front();
    } catch (const std::exception& error) {
      throw core::Error("cannot run " + path_.string() + ": " + core::as_error(error).what())
          .hint("a package is for the sizes that it was compiled with: give torch.export the dynamic ones");
    }
  }

 private:
  fs::path path_;
  PackageLoader loader_;
};

}  // namespace

bool is_inductor_package(const fs::path& path) {
  return path.extension() == ".pt2";
}

std::unique_ptr<InductorPackage> open_inductor_package(const fs::path& path) {
  if (!fs::is_regular_file(path)) throw core::Error("there is no file " + path.string());
  try {
    model::check_archive(path);
    check_target(path);
    load_libtorch();
    return std::make_unique<Package>(path);
  } catch (const std::exception& error) {
    throw core::Error(path.string() + " is no AOTInductor package that can be run: " + core::as_error(error).what())
        .hint("torch._inductor.aoti_compile_and_package writes such files, for the machine that it runs on");
  }
}

}  // namespace trainctl::exporters
