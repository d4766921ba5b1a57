// The commands that need LibTorch.
#pragma once

#include "../engine_call.h"
#include "tracking/tracking.h"
#include "train/run/run.h"
#include "train/run/run_directory.h"

namespace trainctl::engine {

/// Prints where LibTorch was loaded from, and the kernels that this processor selects, as one JSON object.
int run_doctor(const cli::EngineCall& call);
/// Throws ConfigError where the config names what isn't there, and the Error that training would begin with.
void check_experiment(const experiment::LoadedExperiment& loaded);
int run_check(const cli::EngineCall& call);
/// Trains the network at several widths, and prints how its values depend on them. Returns 1 if they do.
int run_coordinate_check(const cli::EngineCall& call);
int run_train(const cli::EngineCall& call);
int run_profile(const cli::EngineCall& call);
int run_plan(const cli::EngineCall& call);
int run_measure(const cli::EngineCall& call);
int run_rehearse(const cli::EngineCall& call);
int run_eval(const cli::EngineCall& call);
int run_generate(const cli::EngineCall& call);
int run_export(const cli::EngineCall& call);
int run_quantize(const cli::EngineCall& call);
int run_predict(const cli::EngineCall& call);
int run_checkpoint_consolidate(const cli::EngineCall& call);
int run_checkpoint_average(const cli::EngineCall& call);
int run_checkpoint_verify(const cli::EngineCall& call);
int run_data_prepare(const cli::EngineCall& call);
int run_data_bench(const cli::EngineCall& call);
int run_data_shard(const cli::EngineCall& call);
int run_data_verify(const cli::EngineCall& call);
int run_data_stat(const cli::EngineCall& call);
int run_data_preview(const cli::EngineCall& call);
int run_config_new(const cli::EngineCall& call);

/// The console as the call wants it.
tracking::Console console_of(cli::Show show);

/// Tells what building the run found worth telling.
void tell(tracking::Sink& sink, const std::vector<tracking::Notice>& notices);

}  // namespace trainctl::engine
