// The networks, one file each: from a config and the data's shape to a model that isn't materialised yet.
// What the data can't be (tokens, images that are too small, another number of classes) is an Error.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "model/config.h"
#include "model/layers/image_shape.h"
#include "model/model.h"

namespace trainctl {

std::unique_ptr<Model> build(const MlpConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const CnnConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const WideResNetConfig& config, const InputSpec& input);
template <int Depth>
std::unique_ptr<Model> build(const ResNetConfig<Depth>& config, const InputSpec& input);

/// The shape of the data's images; an Error when it has none, or they have no pixels.
ImageShape image_shape(const InputSpec& input, std::string_view network);

/// The model's number of outputs: its own, or the data's; an Error where they contradict each other.
std::int64_t num_outputs(const config::AutoOr<std::int64_t>& own, const InputSpec& input);

}  // namespace trainctl
