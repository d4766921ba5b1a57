// What each source of this plug-in adds.
#pragma once

#include <ATen/core/Tensor.h>

#include "plugin/plugin.h"

namespace example {

void add_network(trainctl::plugin::Registry& registry);
void add_layer(trainctl::plugin::Registry& registry);
void add_operator();
/// Calls the operator example::squared_relu.
at::Tensor squared_relu(const at::Tensor& x, double scale);
void add_dataset(trainctl::plugin::Registry& registry);
void add_transform(trainctl::plugin::Registry& registry);
void add_task(trainctl::plugin::Registry& registry);
void add_optimizer(trainctl::plugin::Registry& registry);
void add_metric(trainctl::plugin::Registry& registry);
void add_command(trainctl::plugin::Registry& registry);

}  // namespace example
