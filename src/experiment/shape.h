// The descriptions of an Experiment and of the sections that plug-ins extend. shape.cpp instantiates them; in any other
// source they cost a compiler two minutes.
#pragma once

#include "config/shape.h"
#include "experiment/experiment.h"

namespace trainctl::config {

extern template const Shape& shape_of<experiment::Experiment>();
extern template const Shape& shape_of<model::NetworkConfig>();
extern template const Shape& shape_of<layer_graph::LayerKind>();
extern template const Shape& shape_of<dataset::SourceConfig>();
extern template const Shape& shape_of<dataset::TransformConfig>();
extern template const Shape& shape_of<task::TaskConfig>();
extern template const Shape& shape_of<optimizer::UpdateRuleConfig>();
extern template const Shape& shape_of<task::MetricConfig>();

}  // namespace trainctl::config

namespace trainctl::experiment {

const config::Shape& experiment_shape();

}  // namespace trainctl::experiment
