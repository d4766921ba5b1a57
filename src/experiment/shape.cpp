#include "experiment/shape.h"

template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::model::NetworkConfig>();
template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::layer_graph::LayerKind>();
template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::dataset::SourceConfig>();
template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::dataset::TransformConfig>();
template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::task::TaskConfig>();
template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::optimizer::UpdateRuleConfig>();
template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::task::MetricConfig>();

namespace trainctl::experiment {

const config::Shape& experiment_shape() {
  return config::shape_of<Experiment>();
}

}  // namespace trainctl::experiment
