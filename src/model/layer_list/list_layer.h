// Layers of a list, one after the other, with branches inside.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layer_graph/config.h"
#include "layer_graph/infer.h"
#include "layer_graph/inspect.h"
#include "layer_graph/shape.h"
#include "model/layers_config.h"
#include "model/sequence.h"

namespace trainctl::model {

/// What layers of a list are made with, and what is counted meanwhile.
struct ListMaking {
  LayersInit init = LayersInit::pytorch;
  double init_std = 0.02;
  layer_graph::DataSizes data;
  std::int64_t vocab_size = 0;
  double flops = 0;  // of one sample
  bool has_convolutions = false;
};

/// Layers list[run.begin] to list[run.end - 1], under their names in the list.
class ListLayer final : public SequenceLayer {
 public:
  /// `shapes` are the outputs of all layers of the list, `input` is what the run is given.
  ListLayer(const layer_graph::LayerList& list, layer_graph::Run run, const layer_graph::Shape& input,
            const std::vector<layer_graph::Shape>& shapes, ListMaking& making);
  /// The whole list.
  ListLayer(const layer_graph::LayerList& list, const layer_graph::Shape& input, ListMaking& making);

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override;

 private:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  /// Returns the output for an input, and for the named outputs of earlier layers.
  using Work = std::function<at::Tensor(const at::Tensor& input, const SequenceContext& context, const Named& named)>;
  struct Step {
    Work work;
    std::optional<std::string> name;  // under which the output is kept
  };

  Step make(const layer_graph::LayerConfig& config, const std::string& name, const layer_graph::Shape& input,
            const layer_graph::Shape& output, bool in_place, ListMaking& making);
  Work make_leaf(const layer_graph::LayerConfig& config, const std::string& name, const layer_graph::Shape& input,
                 const layer_graph::Shape& output, ListMaking& making);
  /// Null: the layer is no normalisation.
  UnaryLayer* add_norm(const layer_graph::LayerConfig& config, const std::string& name,
                       const layer_graph::Shape& input);
  template <class Kind>
  Work combine(const Kind& config, const std::string& name, const layer_graph::Shape& input, ListMaking& making);
  Work repeat(const layer_graph::RepeatLayer& config, const std::string& name, layer_graph::Shape shape,
              ListMaking& making);
  Work residual(const layer_graph::ResidualLayer& config, const std::string& name, const layer_graph::Shape& input,
                ListMaking& making);

  std::vector<Step> steps_;
};

}  // namespace trainctl::model
