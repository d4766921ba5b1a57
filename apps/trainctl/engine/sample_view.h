// What a person sees of a sample of the evaluation set: a picture, a text, the columns of a row.
#pragma once

#include "../engine_call.h"
#include "train/loop/prediction_log.h"
#include "train/run/run.h"

namespace trainctl::engine {

/// `call` and `run` must outlive it. A tokenizer is opened once it is needed.
train::ShowSample make_sample_view(const cli::EngineCall& call, const train::Run& run);

}  // namespace trainctl::engine
