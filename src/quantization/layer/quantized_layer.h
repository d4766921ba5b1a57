// Stand-ins that do a layer's work in eight bits or fewer, and what their makers and readers see of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/layer.h"
#include "quantization/observer/observer.h"

namespace trainctl::quantization {

/// How a stand-in works for now. original: the layer itself. watched: so too, and its activations' ranges are noted.
/// quantized: what it is for.
enum class LayerMode { original, watched, quantized };

/// A layer that may be quantized or not on its own.
struct QuantizedUnit {
  std::string name;  // inside the stand-in's layer; "": that layer
  std::int64_t num_weights = 0;
};

class QuantizedPart {
 public:
  virtual ~QuantizedPart() = default;
  virtual std::vector<QuantizedUnit> units() const = 0;
  using UnitFilter = std::function<bool(const std::string& unit)>;
  /// Sets the mode. LayerMode::quantized is for units that `chosen` takes; the others work as the layer does. Call it
  /// before finish().
  virtual void set_mode(LayerMode mode, const UnitFilter& chosen) = 0;
  /// Writes levels and scales into this stand-in's buffers, from the layer's weights and what was watched.
  virtual void convert() = 0;
  /// Buffers are as they will stay: packs them for the engine that is selected.
  virtual void prepare() = 0;
  /// Forgets the layer's own weights; quantized from now on.
  virtual void finish() = 0;
};

class QuantizedLayer : public model::LayerOverride, public QuantizedPart {};

/// Levels as two buffers: `<name>_scale` float [], `<name>_zero_point` int64 [].
class QParamBuffers {
 public:
  QParamBuffers() = default;
  QParamBuffers(at::Tensor& scale, at::Tensor& zero_point) : scale_(&scale), zero_point_(&zero_point) {}
  void write(const QParams& levels);
  /// What isn't a scale, or levels of eight bits, is an Error naming `what`.
  QParams read(const std::string& what) const;
  /// Returns the buffer as it is stored.
  const at::Tensor& scale() const { return *scale_; }
  const at::Tensor& zero_point() const { return *zero_point_; }

 private:
  at::Tensor* scale_ = nullptr;
  at::Tensor* zero_point_ = nullptr;
};

/// A layer's parameter by its own name; undefined where it has none.
at::Tensor own_parameter(model::Layer& layer, const std::string& name);

}  // namespace trainctl::quantization
