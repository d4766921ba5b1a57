// The experiment file described to editors, readers and beginners.
#pragma once

#include <string>

namespace trainctl::experiment {

/// JSON schema (draft 2020-12) of an experiment file.
std::string experiment_schema();

/// docs/reference.md.
std::string experiment_reference();

/// Returns the part of docs/kinds.md that the experiment file decides: kinds, and the metrics of each task.
std::string experiment_kinds();

struct StarterChoice {
  std::string name = "my-run";
  std::string model;      // kind of the model; empty takes cnn
  std::string optimizer;  // kind of the update rule; empty takes adamw
};

/// Returns a commented experiment that trains as it is. Networks for images train on Debian's Fashion-MNIST, networks
/// for sequences on a text that every Debian has, and bert on made-up tokens. Throws ConfigError for an unknown kind.
std::string experiment_starter(const StarterChoice& choice = {});

}  // namespace trainctl::experiment
