#include "exporters/torchscript.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>
#include <torch/csrc/jit/passes/xnnpack_rewrite.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/import.h>

#include <exception>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "model/foreign_file.h"
#include "runtime/fake_tensor.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;
using Notes = std::unordered_map<std::string, std::string>;

core::Error unreadable(const fs::path& path, const std::string& why) {
  return core::Error(path.string() + " is no TorchScript file that can be run: " + why)
      .hint("write it again with 'trainctl export --format torchscript'");
}

at::Tensor one_tensor(const c10::IValue& output, const fs::path& path) {
  if (!output.isTensor())
    throw core::Error(path.string() + " gives a " + output.tagKind() + ", where one tensor was expected");
  return output.toTensor();
}

/// Runs `forward`; an error has its message in one line.
template <class Module>
at::Tensor run_forward(Module& module, const std::vector<at::Tensor>& inputs, const fs::path& path) {
  const at::NoGradGuard no_grad;
  try {
    return one_tensor(module.forward(std::vector<c10::IValue>(inputs.begin(), inputs.end())), path);
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw core::Error("cannot run " + path.string() + ": " + core::as_error(error).what());
  }
}

/// Returns the note of this name; "" if the file lacks it.
std::string note_of(const Notes& notes, const std::string& name) {
  const auto found = notes.find(name);
  return found == notes.end() ? "" : found->second;
}

/// A loaded module of either flavour.
template <class Module>
class LoadedFile final : public TorchScriptFile {
 public:
  LoadedFile(model::ForeignFile file, Module module, Notes notes)
      : file_(std::move(file)), module_(std::move(module)), notes_(std::move(notes)) {}

  at::Tensor run(const std::vector<at::Tensor>& inputs) override {
    const auto forward_without_values = [&] {
      model::run_without_values([&] {
        const runtime::FakeTinyTensors all;
        std::vector<at::Tensor> shapes;
        for (const at::Tensor& input : inputs) shapes.push_back(at::empty_like(input));
        run_forward(module_, shapes, file_.path());
      });
    };
    if (!std::exchange(has_run_, true)) file_.try_in_child(file_.path().string(), forward_without_values);
    return run_forward(module_, inputs, file_.path());
  }
  std::string note(const std::string& name) const override { return note_of(notes_, name); }

 private:
  model::ForeignFile file_;
  Module module_;
  Notes notes_;
  bool has_run_ = false;
};

torch::jit::Module load_full(const model::ForeignFile& file, Notes& notes) {
  torch::jit::Module module = torch::jit::load(file.reader(), at::Device(at::kCPU), notes, /*load_debug_files=*/false);
  const auto forward = module.find_method("forward");
  if (!forward) throw core::Error("the module has no method `forward`");
  model::refuse_side_effects(*forward, file.path().string());
  module.eval();
  return module;
}

torch::jit::mobile::Module load_mobile(const model::ForeignFile& file, Notes& notes) {
  torch::jit::mobile::Module module = torch::jit::_load_for_mobile(file.reader(), at::Device(at::kCPU), notes);
  if (!module.find_method("forward")) throw core::Error("the module has no method `forward`");
  return module;
}

struct Contents {
  Notes notes;
  bool has_bytecode = false;
};

/// Reads the list of records. Finds damage before anything is built of the archive.
Contents look_into(const model::ForeignFile& file) {
  Contents contents;
  caffe2::serialize::PyTorchStreamReader reader(file.reader());
  for (const std::string& record : reader.getAllRecords()) {
    if (record == "bytecode.pkl") contents.has_bytecode = true;
    if (record.starts_with("extra/")) contents.notes[record.substr(6)] = "";
  }
  if (!reader.hasRecord("data.pkl") || !reader.hasRecord("constants.pkl"))
    throw core::Error(
        "the archive has no TorchScript module; torch.save writes such archives, and they are pickles, which are "
        "programs");
  return contents;
}

}  // namespace

void write_torchscript(torch::jit::Module& module, TorchScriptFlavour flavour,
                       const std::map<std::string, std::string>& notes, const fs::path& path) {
  const fs::path beside = path.string() + ".tmp";
  const Notes extra(notes.begin(), notes.end());
  try {
    core::FileWriter file(beside);
    std::exception_ptr failure;
    // LibTorch ends the archive in a destructor, where a failed write would end the process: it isn't told of one.
    const auto write = [&](const void* bytes, std::size_t size) {
      try {
        if (!failure) file.write(std::span(static_cast<const std::byte*>(bytes), size));
      } catch (const core::Error&) {
        failure = std::current_exception();
      }
      return size;
    };
    if (flavour == TorchScriptFlavour::full)
      torch::jit::ExportModule(module, write, extra);
    else
      torch::jit::ExportModule(torch::jit::optimizeForMobile(module), write, extra, /*bytecode_format=*/true);
    if (failure) std::rethrow_exception(failure);
    file.close(core::Durability::process);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove(beside, ignored);
    throw core::Error("cannot export " + path.string() + ": " + core::as_error(error).what());
  }
  fs::rename(beside, path);
}

std::unique_ptr<TorchScriptFile> open_torchscript(const fs::path& path) {
  if (!fs::is_regular_file(path)) throw core::Error("there is no file " + path.string());
  try {
    model::tame_prints();
    model::ForeignFile file(path);
    const auto load = [&]() -> std::unique_ptr<TorchScriptFile> {
      Contents contents = look_into(file);
      if (contents.has_bytecode)
        return std::make_unique<LoadedFile<torch::jit::mobile::Module>>(file, load_mobile(file, contents.notes),
                                                                        contents.notes);
      return std::make_unique<LoadedFile<torch::jit::Module>>(file, load_full(file, contents.notes), contents.notes);
    };
    file.try_in_child("its module", load);
    return load();
  } catch (const core::Error& error) {
    throw unreadable(path, error.what());
  } catch (const std::exception& error) {
    throw unreadable(path, core::as_error(error).what());
  }
}

}  // namespace trainctl::exporters
