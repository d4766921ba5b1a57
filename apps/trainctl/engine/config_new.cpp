#include <cstdio>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "data_tools/inspect.h"
#include "engine.h"

namespace trainctl::engine {

int run_config_new(const cli::EngineCall& call) {
  const auto& options = call.options<cli::ConfigNewOptions>();
  const data_tools::SeenData seen =
      data_tools::inspect(options.from, {.eval = options.eval, .label = options.label, .text = options.text});
  const std::string text = data_tools::suggested_experiment(seen, options.name);
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return core::kExitDone;
  }
  if (std::filesystem::exists(options.output))
    throw core::Error(options.output + " exists; --output writes a new file").hint("choose another name, or remove it");
  core::write_file_atomically(options.output, text);
  std::fputs(text.substr(0, text.find("name: ")).c_str(), stdout);
  std::printf("written to %s; next: trainctl train %s\n", options.output.c_str(), options.output.c_str());
  return core::kExitDone;
}

}  // namespace trainctl::engine
