#include "experiment/resolve.h"

#include <utility>

#include "config/emit.h"
#include "config/flatten.h"
#include "config/write.h"
#include "experiment/check.h"
#include "experiment/shape.h"

namespace trainctl::experiment {

LoadedExperiment resolve(Experiment experiment, const config::Node& written, config::Problems& problems) {
  LoadedExperiment loaded;
  loaded.experiment = std::move(experiment);
  loaded.node = config::write_value(experiment_shape(), &loaded.experiment);
  config::adopt_origins(loaded.node, written);
  check_experiment(loaded.experiment, loaded.node, problems);
  problems.throw_if_any();

  loaded.resolved_yaml = config::emit(loaded.node);
  loaded.flat = config::flatten(loaded.node);
  return loaded;
}

}  // namespace trainctl::experiment
