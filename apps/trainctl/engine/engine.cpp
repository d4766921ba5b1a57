#include "engine.h"

#include <c10/util/Logging.h>

#include <cstdlib>

#include "choices.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "notice_printer.h"

namespace trainctl::engine {

tracking::Console console_of(cli::Show show) {
  switch (show) {
    case cli::Show::progress:
      return tracking::Console::bar;
    case cli::Show::lines:
      return tracking::Console::lines;
    case cli::Show::warnings:
      return tracking::Console::quiet;
  }
  throw std::logic_error("unknown show");
}

void tell(tracking::Sink& sink, const std::vector<tracking::Notice>& notices) {
  for (const tracking::Notice& notice : notices) sink.on(notice);
}

}  // namespace trainctl::engine

namespace {

using namespace trainctl;
using namespace trainctl::engine;

/// When a rank is gone, LibTorch logs each broken connection with a stack of its own, over the message that says what
/// happened. TORCH_CPP_LOG_LEVEL=INFO brings its log back.
void keep_libtorch_quiet() {
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();
}

/// train, and plan, choose by what they know of the run.
experiment::LoadedExperiment resolved(const cli::EngineCall& call) {
  if (call.command == "train" || call.command == "plan") return call.loaded;
  if (call.command != "profile" && call.command != "measure") return without_choices(call.loaded);
  std::vector<tracking::Notice> notices;
  experiment::LoadedExperiment chosen = with_choices(call.loaded, notices);
  NoticePrinter printer;
  tell(printer, notices);
  return chosen;
}

int run_command(const cli::EngineCall& call) {
  if (call.command == "doctor") return run_doctor(call);
  if (call.command == "check") return run_check(call);
  if (call.command == "train") return run_train(call);
  if (call.command == "profile") return run_profile(call);
  if (call.command == "plan") return run_plan(call);
  if (call.command == "measure") return run_measure(call);
  if (call.command == "eval") return run_eval(call);
  if (call.command == "generate") return run_generate(call);
  if (call.command == "predict") return run_predict(call);
  if (call.command == "export") return run_export(call);
  if (call.command == "quantize") return run_quantize(call);
  if (call.command == "checkpoint consolidate") return run_checkpoint_consolidate(call);
  if (call.command == "checkpoint verify") return run_checkpoint_verify(call);
  if (call.command == "data prepare") return run_data_prepare(call);
  if (call.command == "data bench") return run_data_bench(call);
  if (call.command == "data shard") return run_data_shard(call);
  if (call.command == "data verify") return run_data_verify(call);
  if (call.command == "data stat") return run_data_stat(call);
  throw core::Error("the engine knows no command '" + call.command + "'");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int trainctl_engine_main(const trainctl::cli::EngineCall& given) {
  keep_libtorch_quiet();
  cli::EngineCall call = given;
  call.loaded = resolved(given);
  const int code = run_command(call);
  core::check_mapped_files();
  return code;
}
