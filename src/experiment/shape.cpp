#include "experiment/shape.h"

#include "experiment/experiment.h"

namespace trainctl::experiment {

const config::Shape& experiment_shape() {
  return config::shape_of<Experiment>();
}

}  // namespace trainctl::experiment
