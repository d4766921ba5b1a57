// What `plan --device here` asks of a process of its own: the steps of single ranks, timed, and nothing written.
#include <cstdio>

#include "core/terminal.h"
#include "engine.h"
#include "notice_printer.h"
#include "plan/rehearsal/rehearse.h"

namespace trainctl::engine {

int run_rehearse(const cli::EngineCall& call) {
  const cli::RehearseOptions& options = call.options<cli::RehearseOptions>();
  std::vector<tracking::Notice> notices;
  const std::vector<replay::RankTrace> traces =
      plan::rehearse(call.loaded.experiment, {.world = options.world, .per_node = options.per_node}, notices);
  NoticePrinter printer;
  tell(printer, notices);
  core::print(stdout, "%s\n", replay::format_traces(traces).c_str());
  return 0;
}

}  // namespace trainctl::engine
