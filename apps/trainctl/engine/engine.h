// The commands that need LibTorch.
#pragma once

#include "../engine_call.h"
#include "tracking/tracking.h"
#include "train/run.h"
#include "train/run_directory.h"

namespace trainctl {

/// Prints where LibTorch was loaded from, and the kernels that this processor selects, as one JSON object.
int run_doctor(const EngineCall& call);
/// Throws ConfigError where the config names what isn't there, and the Error that training would begin with.
int run_check(const EngineCall& call);
int run_train(const EngineCall& call);
int run_profile(const EngineCall& call);
int run_plan(const EngineCall& call);
int run_measure(const EngineCall& call);
int run_eval(const EngineCall& call);
int run_generate(const EngineCall& call);
int run_export(const EngineCall& call);
int run_quantize(const EngineCall& call);
int run_predict(const EngineCall& call);
int run_checkpoint_consolidate(const EngineCall& call);
int run_checkpoint_verify(const EngineCall& call);
int run_data_prepare(const EngineCall& call);
int run_data_bench(const EngineCall& call);
int run_data_shard(const EngineCall& call);
int run_data_verify(const EngineCall& call);
int run_data_stat(const EngineCall& call);

/// The console as the call wants it.
Console console_of(Show show);

/// Tells what building the run found worth telling.
void tell(Sink& sink, const std::vector<Notice>& notices);

}  // namespace trainctl
