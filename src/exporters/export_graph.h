// A model as a graph that others run, and the comparison of what was written with the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exporters/model_card.h"
#include "exporters/signature.h"
#include "model/model.h"

namespace trainctl::exporters {

/// Writes the file (and, of large ONNX models, a second one beside it), its card within it; returns them. The model is
/// on the CPU and in evaluation mode; its adapters are merged.
std::vector<std::filesystem::path> export_graph(model::Model& model, const ModelCard& card,
                                                const std::filesystem::path& file);

struct LargestDifference {
  double absolute = 0;
  double relative = 0;  // to the largest output
  std::int64_t num_samples = 0;
};

/// How far the outputs of two models for the same samples are apart, at most.
LargestDifference compare(model::Model& live, model::Model& written, const std::vector<model::ModelInput>& batches);

}  // namespace trainctl::exporters
