#include <cstdio>
#include <filesystem>
#include <memory>

#include "command.h"
#include "core/error.h"
#include "core/terminal.h"
#include "run_report/run_report.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;
};

/// Writes a page for each run. A run without one is told, and the others get theirs.
int report(const ReportOptions& options) {
  if (options.runs.size() > 1 && !options.output.empty())
    throw wrong_use("--output", "names the page of one run, not of several");
  bool has_failed = false;
  for (const std::string& run : options.runs) {
    try {
      if (!fs::is_directory(run)) throw core::Error(run + ": no such run directory");
      core::print(stdout, "%s\n", run_report::write_report(run, options.output).c_str());
    } catch (const core::Error& error) {
      if (options.runs.size() == 1) throw;
      core::print(stderr, "trainctl: %s\n", error.text().c_str());
      has_failed = true;
    }
  }
  return has_failed ? core::kExitFailed : core::kExitDone;
}

}  // namespace

Action declare_report(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  app.add_option("RUN", options->runs, "Run directories")->required();
  app.add_option("--output", options->output, "File to write (default report.html in the run directory)")
      ->type_name("FILE");
  return [options] { return report(*options); };
}

}  // namespace trainctl::cli
