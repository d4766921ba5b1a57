#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "core/file.h"
#include "core/terminal.h"
#include "data_tools/preview.h"
#include "engine.h"

namespace trainctl::engine {
namespace {

/// Colors are for terminals whose user has not refused them.
data_tools::PreviewMarks marks_of_output() {
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool has_colors = ::isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0') &&
                          terminal != nullptr && std::string_view(terminal) != "dumb";
  return has_colors ? data_tools::PreviewMarks::colors : data_tools::PreviewMarks::brackets;
}

}  // namespace

int run_data_preview(const cli::EngineCall& call) {
  const auto& options = call.options<cli::DataPreviewOptions>();
  const data_tools::Preview preview = data_tools::preview_dataset(
      call.loaded.experiment.dataset, {.num_samples = options.num_samples,
                                       .of_evaluation = options.of_evaluation,
                                       .seed = static_cast<std::uint64_t>(call.loaded.experiment.seed)});
  std::fputs(data_tools::preview_text(preview, marks_of_output()).c_str(), stdout);
  if (!options.html.empty()) {
    core::write_file_atomically(options.html, data_tools::preview_page(preview));
    core::print(stdout, "%s\n", options.html.c_str());
  }
  core::flush_standard_output();
  return core::kExitDone;
}

}  // namespace trainctl::engine
