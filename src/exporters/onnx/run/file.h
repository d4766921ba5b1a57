// ONNX files, read back and run operator by operator with LibTorch: to check an export, and to predict with it. Not a
// runtime: no fusion, no plan; ONNX Runtime is what serves such files.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporters/onnx/proto.h"

namespace trainctl::exporters {

class OnnxFile {
 public:
  /// What is no ONNX file, is damaged, has operators that aren't known here, or data outside its directory, is an Error
  /// that says so.
  explicit OnnxFile(const std::filesystem::path& path);
  OnnxFile(const OnnxFile&) = delete;
  OnnxFile& operator=(const OnnxFile&) = delete;

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  /// "": there is none.
  std::string note(const std::string& name) const;

  /// Outputs by name. What an operator can't do with its inputs is an Error that names the node.
  std::map<std::string, at::Tensor> run(const std::map<std::string, at::Tensor>& inputs) const;

 private:
  void keep_constants();
  void check_operators() const;

  std::filesystem::path path_;
  onnx::Model model_;             // without initializers
  std::deque<std::string> kept_;  // what its attributes refer to
  std::map<std::string, at::Tensor> tensors_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  std::map<std::string, std::size_t> last_use_;  // of values, by the node's number
};

}  // namespace trainctl::exporters
