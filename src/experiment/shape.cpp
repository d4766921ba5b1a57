#include "experiment/shape.h"

namespace trainctl::config {

template const Shape& shape_of<experiment::Experiment>();
template const Shape& shape_of<model::NetworkConfig>();
template const Shape& shape_of<layer_graph::LayerKind>();
template const Shape& shape_of<dataset::SourceConfig>();
template const Shape& shape_of<dataset::TransformConfig>();
template const Shape& shape_of<task::TaskConfig>();
template const Shape& shape_of<optimizer::UpdateRuleConfig>();
template const Shape& shape_of<task::MetricConfig>();

}  // namespace trainctl::config

namespace trainctl::experiment {

const config::Shape& experiment_shape() {
  return config::shape_of<Experiment>();
}

}  // namespace trainctl::experiment
