// What each source of this plug-in adds.
#pragma once

#include "plugin/plugin.h"

namespace example {

void add_network(trainctl::plugin::Registry& registry);
void add_layer(trainctl::plugin::Registry& registry);
void add_operator();
void add_dataset(trainctl::plugin::Registry& registry);
void add_transform(trainctl::plugin::Registry& registry);
void add_task(trainctl::plugin::Registry& registry);
void add_optimizer(trainctl::plugin::Registry& registry);
void add_metric(trainctl::plugin::Registry& registry);
void add_command(trainctl::plugin::Registry& registry);

}  // namespace example
