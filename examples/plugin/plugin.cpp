#include "example.h"

void trainctl_plugin(trainctl::plugin::Registry& registry) {
  example::add_network(registry);
  example::add_operator();
  example::add_layer(registry);
  example::add_dataset(registry);
  example::add_transform(registry);
  example::add_task(registry);
  example::add_optimizer(registry);
  example::add_metric(registry);
  example::add_command(registry);
}
