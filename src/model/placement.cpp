#include "model/placement.h"

#include <set>

#include "core/error.h"
#include "core/name_pattern.h"

namespace trainctl::model {
namespace {

bool is_on(Layer& layer, c10::Device device) {
  bool all = true;
  const auto look = [&](const std::string&, const TensorDecl& decl) { all = all && decl.device == device; };
  layer.visit_parameters(look);
  layer.visit_buffers(look);
  return all;
}

}  // namespace

void place_layers(Model& model, const std::vector<LayerPlace>& places, c10::Device home) {
  if (places.empty()) return;
  std::set<const Layer*> blocks;
  for (const Block& block : model.blocks()) {
    blocks.insert(block.layer);
    block.layer->place(home, Layer::Output::stays);
  }
  for (const LayerPlace& place : places) {
    bool fits = false;
    model.visit_layers([&](const std::string& name, Layer& layer) {
      if (!core::matches_name(place.layers, name)) return;
      fits = true;
      layer.place(place.device, blocks.contains(&layer) ? Layer::Output::stays : Layer::Output::returns);
    });
    if (!fits)
      throw core::Error("model.placement: no layer's name fits '" + place.layers + "'")
          .hint("blocks are called like '" + model.blocks()[model.blocks().size() / 2].name +
                "'; `trainctl profile` lists the layers below them");
  }
  for (const Block* end : {&model.blocks().front(), &model.blocks().back()})
    if (!is_on(*end->layer, home))
      throw core::Error("model.placement moves '" + end->name + "' to another device")
          .hint("the first and the last block stay on the first device, where the data and the loss are");
}

}  // namespace trainctl::model
