// What an artefact that a command writes says of itself.
#pragma once

#include "checkpointed_run.h"
#include "deploy/deploy.h"

namespace trainctl {

/// Without a graph's signature. `quantization`: of what is written; null: it is in floats.
ModelCard card_of(const CheckpointedRun& loaded, const EngineCall& call, ArtefactFormat format, Metrics metrics,
                  const Quantization* quantization);

}  // namespace trainctl
