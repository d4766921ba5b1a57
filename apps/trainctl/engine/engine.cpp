#include "engine.h"

#include <c10/util/Logging.h>

#include <cstdlib>

#include "choices.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/overloaded.h"
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

/// Raises LibTorch's log level: at a lost rank it logs each broken connection with a stack, over the message of the
/// cause. TORCH_CPP_LOG_LEVEL=INFO brings its log back.
void keep_libtorch_quiet() {
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();
}

experiment::LoadedExperiment with_auto_values(const cli::EngineCall& call) {
  switch (std::visit([](const auto& options) { return options.auto_values; }, call.command)) {
    case cli::AutoValues::chosen_by_command:
      return call.loaded;
    case cli::AutoValues::not_needed:
      return without_choices(call.loaded);
    case cli::AutoValues::before_command:
      break;
  }
  std::vector<tracking::Notice> notices;
  experiment::LoadedExperiment chosen = with_choices(call.loaded, notices);
  NoticePrinter printer;
  tell(printer, notices);
  return chosen;
}

/// Runs the command. A command without a function here does not compile.
int run_command(const cli::EngineCall& call) {
  return std::visit(core::Overloaded{[&](const cli::DoctorOptions&) { return run_doctor(call); },
                                     [&](const cli::CheckOptions&) { return run_check(call); },
                                     [&](const cli::TrainOptions&) { return run_train(call); },
                                     [&](const cli::ProfileOptions&) { return run_profile(call); },
                                     [&](const cli::MeasureOptions&) { return run_measure(call); },
                                     [&](const cli::PlanOptions&) { return run_plan(call); },
                                     [&](const cli::RehearseOptions&) { return run_rehearse(call); },
                                     [&](const cli::EvalOptions&) { return run_eval(call); },
                                     [&](const cli::PredictOptions&) { return run_predict(call); },
                                     [&](const cli::GenerateOptions&) { return run_generate(call); },
                                     [&](const cli::QuantizeOptions&) { return run_quantize(call); },
                                     [&](const cli::ExportOptions&) { return run_export(call); },
                                     [&](const cli::ConsolidateOptions&) { return run_checkpoint_consolidate(call); },
                                     [&](const cli::AverageOptions&) { return run_checkpoint_average(call); },
                                     [&](const cli::VerifyCheckpointOptions&) { return run_checkpoint_verify(call); },
                                     [&](const cli::DataPrepareOptions&) { return run_data_prepare(call); },
                                     [&](const cli::DataBenchOptions&) { return run_data_bench(call); },
                                     [&](const cli::DataShardOptions&) { return run_data_shard(call); },
                                     [&](const cli::DataVerifyOptions&) { return run_data_verify(call); },
                                     [&](const cli::ConfigNewOptions&) { return run_config_new(call); },
                                     [&](const cli::DataStatsOptions&) { return run_data_stat(call); },
                                     [&](const cli::DataPreviewOptions&) { return run_data_preview(call); }},
                    call.command);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int trainctl_engine_main(const trainctl::cli::EngineCall& given) {
  keep_libtorch_quiet();
  cli::EngineCall call = given;
  call.loaded = with_auto_values(given);
  const int code = run_command(call);
  core::check_mapped_files();
  return code;
}
