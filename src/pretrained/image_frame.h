// How an image becomes the network's size in evaluation, as configs of timm and transformers describe it.
#pragma once

#include <nlohmann/json.hpp>

#include "pretrained/model_info.h"

namespace trainctl::pretrained {

/// Returns the preprocessor_config.json of transformers. Throws Error where no image processor has these transforms.
nlohmann::ordered_json image_processor(const ModelInfo& facts);

/// Returns `crop_pct`, `crop_mode`, `interpolation`, `mean` and `std` of timm's pretrained_cfg, from which
/// timm.data.create_transform makes the same pixels. Throws Error where it can't.
nlohmann::ordered_json timm_transforms(const ModelInfo& facts);

}  // namespace trainctl::pretrained
