// Layers on several devices of one process, as a user says.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "model/model.h"

namespace trainctl::model {

struct LayerPlace {
  std::string layers;  // a pattern of their names, or of the ends of their names
  c10::Device device;
};

/// Puts the layers that fit a pattern on its device, with all below them; the last pattern that fits a layer counts.
/// All other blocks compute on `home`. Before the model is materialised. Throws Error for a pattern that no layer fits,
/// and for one that moves the first block or the last.
void place_layers(Model& model, const std::vector<LayerPlace>& places, c10::Device home);

}  // namespace trainctl::model
