// A batch as what the model is given.
#pragma once

#include "dataset/dataset.h"
#include "model/model.h"

namespace trainctl::task {

inline model::ModelInput model_input(const dataset::Batch& batch) {
  return {.values = batch.inputs,
          .token_types = batch.token_types,
          .key_mask = batch.key_mask,
          .documents = batch.documents};
}

}  // namespace trainctl::task
