// The descriptions of an Experiment and of the sections that plug-ins extend. shape.cpp instantiates them; in any other
// source they cost a compiler two minutes.
#pragma once

#include "config/shape.h"
#include "experiment/experiment.h"

extern template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::model::NetworkConfig>();
extern template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::layer_graph::LayerKind>();
extern template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::dataset::SourceConfig>();
extern template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::dataset::TransformConfig>();
extern template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::task::TaskConfig>();
extern template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::optimizer::UpdateRuleConfig>();
extern template const trainctl::config::Shape& trainctl::config::shape_of<trainctl::task::MetricConfig>();

namespace trainctl::experiment {

const config::Shape& experiment_shape();

}  // namespace trainctl::experiment
