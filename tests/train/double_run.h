// A run in double precision, where equalities that rounding hides can be shown.
#pragma once

#include "changed_loader.h"
#include "train/run/run.h"

namespace trainctl::testing {

/// Meshes from which a run was laid out before. The parts of its layers know the ranks by the first of them. Lives on a
/// rank's thread as long as its runs.
class RetiredMeshes {
 public:
  RetiredMeshes() = default;
  RetiredMeshes(const RetiredMeshes&) = delete;
  RetiredMeshes& operator=(const RetiredMeshes&) = delete;
  ~RetiredMeshes() { all().clear(); }
  static void add(std::unique_ptr<comm::DeviceMesh> mesh) { all().push_back(std::move(mesh)); }

 private:
  static std::vector<std::unique_ptr<comm::DeviceMesh>>& all() {
    thread_local std::vector<std::unique_ptr<comm::DeviceMesh>> meshes;
    return meshes;
  }
};

/// Lays the model over the ranks anew, by the run's config.
inline void lay_out(train::Run& run) {
  comm::Group& world = run.mesh->world();
  auto mesh = std::make_unique<comm::DeviceMesh>(world, distributed::mesh_shape(run.experiment.distributed, world));
  run.parallel =
      distributed::build(run.experiment.distributed, *mesh, *run.model, {}, run.stages ? &*run.stages : nullptr);
  std::swap(run.mesh, mesh);
  if (run.mesh->size(comm::Axis::tensor) * run.mesh->size(comm::Axis::context) > 1) RetiredMeshes::add(std::move(mesh));
  run.parameters = run.parallel->optimized();
  run.optimizer = run.parallel->make_optimizer(run.experiment.optimizer);
}

/// Makes the model's parameters and buffers, and the inputs, double; lays the model out anew.
inline void make_double(train::Run& run) {
  run.model->visit_parameters([](const std::string&, model::TensorDecl& decl) {
    decl.value = decl.value.detach().to(at::kDouble).requires_grad_(true);
  });
  if (model::TensorDecl* const borrowed = run.model->borrowed_weight())
    borrowed->value = borrowed->value.detach().to(at::kDouble).requires_grad_(true);
  run.model->visit_buffers([](const std::string&, model::TensorDecl& decl) {
    if (decl.value.is_floating_point()) decl.value = decl.value.to(at::kDouble);
  });
  lay_out(run);
  run.data.train = std::make_unique<ChangedLoader>(std::move(run.data.train), [](dataset::Batch& batch) {
    if (batch.inputs.is_floating_point()) batch.inputs = batch.inputs.to(at::kDouble);
  });
}

}  // namespace trainctl::testing
