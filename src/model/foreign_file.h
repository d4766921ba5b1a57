// What a stranger's file of a scripted network must be, and what it may not do, whoever runs it.
#pragma once

#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/mapped_file.h"

namespace trainctl::model {

/// An archive that check_archive() passed, as memory, so that a child process can read it, too, which may open no file.
class ForeignFile {
 public:
  explicit ForeignFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// For LibTorch's loaders. Outlives this object.
  std::unique_ptr<caffe2::serialize::ReadAdapterInterface> reader() const;

  /// Does the work first in a child process with limits of time and memory. There, code that crashes, loops without end
  /// or takes all memory is an Error that begins with `what`. Other errors are left to the work itself.
  void try_in_child(const std::string& what, const std::function<void()>& work) const;
  /// Does the work in such a child. An Error of the work is one here, too, and a limit that it reaches is none.
  void check_in_child(const std::function<void()>& work) const;

 private:
  void run_in_child(const std::function<void()>& work) const;

  std::filesystem::path path_;
  std::shared_ptr<const core::MappedFile> content_;
};

/// Calls `work` with tensors that have neither memory nor values, so that even large networks take no time.
void run_without_values(const std::function<void()>& work);

/// Calls `look` with each operator that `forward` may run, those of what it calls among them.
void visit_operators(const torch::jit::Method& forward, const std::function<void(const torch::jit::Node&)>& look);

/// Refuses operators with side effects, which no network needs: a foreign file must not read or write others. Looks
/// into what `forward` calls, too. An Error names `path` and the operator.
void refuse_side_effects(const torch::jit::Method& forward, const std::string& path);

/// Lets the networks of this process print to standard error, where a terminal doesn't obey what they print.
void tame_prints();

}  // namespace trainctl::model
