#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpointed_run.h"
#include "deploy/deploy.h"
#include "engine.h"

namespace trainctl {
namespace {

bool is_resnet(const NetworkConfig& network) {
  return network.visit([](const auto& config) {
    return requires {
      config.zero_init_residual;
    };
  });
}

ExportLayout layout_of(const ExportOptions& options, const NetworkConfig& network) {
  if (options.format == "safetensors") return ExportLayout::safetensors;
  const bool timm = options.naming == "timm" || (options.naming == "auto" && is_resnet(network));
  return timm ? ExportLayout::timm : ExportLayout::hugging_face;
}

/// One number for each channel, as the images are normalised in training.
void add_normalisation(NetworkFacts& facts, const DatasetConfig& dataset) {
  if (facts.input_shape.size() != 3) return;
  const auto channels = static_cast<std::size_t>(facts.input_shape[0]);
  const auto for_each = [&](const std::vector<double>& values) {
    return values.size() == 1 ? std::vector<double>(channels, values[0]) : values;
  };
  for (const TransformConfig& transform : dataset.transforms)
    if (const auto* normalize = transform.get_if<NormalizeConfig>()) {
      facts.pixel_mean = for_each(normalize->mean);
      facts.pixel_std = for_each(normalize->std);
    }
}

NetworkFacts facts_of_run(const Run& run) {
  const SampleSpec& spec = run.data.train->spec();
  NetworkFacts facts = facts_of(*run.model, spec.input_shape);
  facts.targets = spec.targets;
  facts.class_names = spec.class_names;
  add_normalisation(facts, run.experiment.dataset);
  return facts;
}

}  // namespace

int run_export(const EngineCall& call) {
  const CheckpointedRun loaded = load_checkpointed_run(call);
  const NetworkConfig& network = loaded.run->experiment.model.network;
  NetworkFacts facts = facts_of_run(*loaded.run);
  ExportRequest request{.layout = layout_of(call.export_options, network), .directory = call.export_options.output};
  if (facts.vocab_size > 0 && request.layout == ExportLayout::hugging_face)
    if (const std::optional<std::string> path = tokenizer_path(call)) {
      facts.roles = open_tokenizer(call)->roles();
      if (*path == "bytes")
        std::fprintf(stderr, "no tokenizer files are written: the byte tokenizer has none\n");
      else
        request.tokenizer = *path;
    }
  const auto files = export_weights(*loaded.run->model, network, facts, request);
  if (call.json) {
    nlohmann::ordered_json document = {{"checkpoint", loaded.checkpoint}, {"step", loaded.run->step}};
    for (const auto& file : files) document["files"].push_back(file.string());
    std::printf("%s\n", document.dump(2).c_str());
  } else {
    std::printf("%s\n", title(loaded).c_str());
    for (const auto& file : files) std::printf("  %s\n", file.c_str());
  }
  return 0;
}

}  // namespace trainctl
