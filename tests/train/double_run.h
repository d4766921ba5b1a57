// A run in double precision, where equalities that rounding hides can be shown.
#pragma once

#include "changed_loader.h"
#include "train/run/run.h"

namespace trainctl::testing {

/// What lays the model over the ranks is built anew, by the run's config.
inline void make_double(train::Run& run) {
  run.model->visit_parameters([](const std::string&, model::TensorDecl& decl) {
    decl.value = decl.value.detach().to(at::kDouble).requires_grad_(true);
  });
  run.model->visit_buffers([](const std::string&, model::TensorDecl& decl) {
    if (decl.value.is_floating_point()) decl.value = decl.value.to(at::kDouble);
  });
  run.parallel = distributed::build(run.experiment.distributed, run.parallel->group(), *run.model);
  run.parameters = run.parallel->optimized();
  run.optimizer = run.parallel->make_optimizer(run.experiment.optimizer);
  run.data.train = std::make_unique<ChangedLoader>(std::move(run.data.train), [](dataset::Batch& batch) {
    if (batch.inputs.is_floating_point()) batch.inputs = batch.inputs.to(at::kDouble);
  });
}

}  // namespace trainctl::testing
