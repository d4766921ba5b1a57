#include "gguf.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "card.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "dataset/chat_prompt.h"
#include "engine.h"
#include "exporters/gguf/export_gguf.h"

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;

exporters::GgufType type_of(const std::string& outtype) {
  if (outtype == "f32") return exporters::GgufType::f32;
  if (outtype == "q8_0") return exporters::GgufType::q8_0;
  if (outtype == "q4_k") return exporters::GgufType::q4_k;
  return outtype == "q4_0" ? exporters::GgufType::q4_0 : exporters::GgufType::f16;
}

/// Returns the file: the output itself if it has an extension, else one within that directory.
fs::path file_of(const cli::ExportOptions& options) {
  const fs::path output = options.output;
  if (!output.extension().empty()) return output;
  std::error_code failed;
  fs::create_directories(output, failed);
  if (failed) throw core::Error("cannot make the directory " + output.string() + ": " + failed.message());
  return output / ("model-" + options.outtype + ".gguf");
}

}  // namespace

int export_gguf_file(const cli::EngineCall& given) {
  const cli::ExportOptions& options = given.options<cli::ExportOptions>();
  cli::EngineCall call = given;
  call.loaded.experiment.device.kind = runtime::DeviceKind::cpu;
  const CheckpointedRun loaded = load_checkpointed_run(call, Samples::not_needed);
  if (loaded.replaced != nullptr || loaded.quantization != nullptr)
    throw core::Error(loaded.checkpoint + " has no weights in floating point, of which GGUF files are made")
        .hint("export the checkpoint that it was made from");
  exporters::ModelCard card =
      card_of(loaded, call, exporters::ArtefactFormat::safetensors, {}, loaded.quantization.get());
  exporters::GgufRequest request{.path = file_of(options), .name = card.name, .type = type_of(options.outtype)};
  const std::optional<std::string> tokenizer = tokenizer_path(call);
  if (tokenizer && *tokenizer != "bytes") {
    request.tokenizer = *tokenizer;
    const auto chat = dataset::trained_chat(call.loaded.experiment.dataset.source, *open_tokenizer(call));
    if (chat) request.chat_templates = chat->templates;
    if (chat) card.facts.end_of_answer = chat->end;
  } else {
    core::log().info("the file gets no vocabulary: the dataset has no tokenizer with files");
  }
  const std::vector<std::string> otherwise =
      exporters::export_gguf(*loaded.run->model, loaded.run->experiment.model.network, card.facts, request);
  if (!otherwise.empty())
    core::log().info(core::format_count(static_cast<std::int64_t>(otherwise.size())) +
                     " matrices have rows that the blocks of " + options.outtype + " don't divide, and are stored as " +
                     (options.outtype == "q4_k" ? "q5_0 or f16" : "f16") + "; the first is " + otherwise.front());
  if (call.json)
    std::printf("%s\n", core::indented_json(nlohmann::ordered_json{{"checkpoint", loaded.checkpoint},
                                                                   {"step", loaded.run->step},
                                                                   {"files", {request.path.string()}}})
                            .c_str());
  else
    core::print(stdout, "%s\n  %s\n", title(loaded).c_str(), request.path.c_str());
  return 0;
}

}  // namespace trainctl::engine
