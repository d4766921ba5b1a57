// Whether TensorRT can build an engine of an ONNX file, as far as the file tells.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::exporters {

/// What TensorRT 10 refuses, or wouldn't compute in eight bits; empty: nothing is known against the file. By
/// https://github.com/onnx/onnx-tensorrt/blob/main/docs/operators.md and
/// https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
std::vector<std::string> tensorrt_problems(const std::filesystem::path& onnx_file);

}  // namespace trainctl::exporters
