// What an artefact that a command writes says of itself.
#pragma once

#include "checkpointed_run.h"
#include "exporters/model_card.h"

namespace trainctl::engine {

/// Without a graph's signature. `quantization`: of what is written; null: it is in floats.
exporters::ModelCard card_of(const CheckpointedRun& loaded, const cli::EngineCall& call,
                             exporters::ArtefactFormat format, task::Metrics metrics,
                             const quantization::Quantization* quantization);

}  // namespace trainctl::engine
