#include "exporters/export_graph.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "exporters/onnx/builder.h"
#include "exporters/onnx/lower/lowering.h"
#include "exporters/torchscript.h"
#include "exporters/trace.h"
#include "model/lora.h"

namespace trainctl::exporters {

namespace fs = std::filesystem;

std::vector<fs::path> export_graph(model::Model& model, const ModelCard& card, const fs::path& file) {
  model::merge_adapters(model);
  torch::jit::Module module = trace(model, card.signature);
  const auto notes = notes_of(card);
  if (card.format == ArtefactFormat::onnx) {
    const std::vector<std::string> written =
        write_onnx(lower_to_onnx(module, card.signature), file.string(), {.notes = notes});
    return {written.begin(), written.end()};
  }
  const bool mobile = card.format == ArtefactFormat::torchscript_mobile;
  if (!mobile) follow_training_flag(module);
  write_torchscript(module, mobile ? TorchScriptFlavour::mobile : TorchScriptFlavour::full, notes, file);
  return {file};
}

LargestDifference compare(model::Model& live, model::Model& written, const std::vector<model::ModelInput>& batches) {
  const at::NoGradGuard no_grad;
  LargestDifference difference;
  double largest = 0;
  for (const model::ModelInput& batch : batches) {
    const at::Tensor expected = live.forward(batch).to(at::kFloat).cpu();
    const at::Tensor actual = written.forward(batch).to(at::kFloat).cpu();
    if (actual.sizes() != expected.sizes()) throw core::Error("what was written gives outputs of another shape");
    if (expected.numel() == 0) continue;
    const double here = actual.sub(expected).abs().max().item<double>();
    difference.absolute =
        std::isnan(here) ? std::numeric_limits<double>::infinity() : std::max(difference.absolute, here);
    largest = std::max(largest, expected.abs().max().item<double>());
    difference.num_samples += expected.size(0);
  }
  difference.relative = largest > 0 ? difference.absolute / largest : difference.absolute;
  return difference;
}

}  // namespace trainctl::exporters
