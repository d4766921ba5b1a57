#include "pretrained/image_frame.h"

#include <cmath>
#include <optional>

#include "core/error.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;
using dataset::ImageSize;

struct ImageFrame {
  std::optional<std::int64_t> shorter_side;  // scaled to this, in proportion
  std::optional<ImageSize> stretched;        // scaled to this, whatever the proportions
  std::optional<ImageSize> crop;             // then the middle of it
};

core::Error not_described(const std::string& where, const std::string& what) {
  return core::Error(where + " has no " + what + ", which evaluation does")
      .hint(
          "dataset.eval_transforms: a resize, or a resize and then a square center_crop; or --format onnx, whose "
          "model.json lists the transforms");
}

ImageFrame frame_of(const ModelInfo& facts, const std::string& where) {
  ImageFrame frame;
  for (const dataset::TransformConfig& transform : facts.transforms) {
    if (const auto* resize = transform.get_if<dataset::ResizeConfig>()) {
      if (frame.shorter_side || frame.stretched || frame.crop)
        throw not_described(where, "resize behind another transform");
      if (resize->max_size) throw not_described(where, "resize with max_size");
      if (resize->width)
        frame.stretched = ImageSize{resize->size, *resize->width};
      else
        frame.shorter_side = resize->size;
    } else if (const auto* crop = transform.get_if<dataset::CenterCropConfig>()) {
      if (frame.crop) throw not_described(where, "second center_crop");
      frame.crop = ImageSize{crop->size, crop->width.value_or(crop->size)};
    } else if (!transform.get_if<dataset::NormalizeConfig>()) {
      throw not_described(where, std::string(transform.kind()));
    }
  }
  // Without a crop, all images had the proportions of what the network takes.
  if (!frame.crop && !frame.stretched) frame.stretched = ImageSize{facts.input_shape[1], facts.input_shape[2]};
  return frame;
}

/// Returns the largest share of which floor(size / share) is `scaled`, as timm computes it.
std::optional<double> share_of(std::int64_t size, std::int64_t scaled) {
  double share = static_cast<double>(size) / static_cast<double>(scaled);
  if (std::floor(static_cast<double>(size) / share) < static_cast<double>(scaled)) share = std::nextafter(share, 0.0);
  return share <= 1 ? std::optional(share) : std::nullopt;
}

Json size_of(const ImageSize& size) {
  return {{"height", size.height}, {"width", size.width}};
}

}  // namespace

Json image_processor(const ModelInfo& facts) {
  const ImageFrame frame = frame_of(facts, "an image processor of transformers");
  // CLIP's processor crops; ViT's only stretches.
  Json json = {{"image_processor_type", frame.crop ? "CLIPImageProcessor" : "ViTImageProcessor"},
               {"do_resize", frame.stretched || frame.shorter_side},
               {"size", frame.shorter_side ? Json{{"shortest_edge", *frame.shorter_side}}
                                           : size_of(frame.stretched.value_or(ImageSize{}))},
               {"resample", 2},
               {"do_rescale", true},
               {"rescale_factor", 1.0 / 255},
               {"do_normalize", !facts.pixel_mean.empty()}};
  if (frame.crop) {
    json["do_center_crop"] = true;
    json["crop_size"] = size_of(*frame.crop);
    json["do_convert_rgb"] = facts.input_shape[0] == 3;
    if (!json["do_resize"]) json.erase("size");
  }
  if (!facts.pixel_mean.empty()) {
    json["image_mean"] = facts.pixel_mean;
    json["image_std"] = facts.pixel_std;
  }
  return json;
}

Json timm_transforms(const ModelInfo& facts) {
  const std::string where = "timm's transform of evaluation";
  const ImageFrame frame = frame_of(facts, where);
  if (!frame.stretched && !frame.shorter_side) throw not_described(where, "center_crop without a resize before it");
  const ImageSize to{facts.input_shape[1], facts.input_shape[2]};
  std::optional<double> share = 1;
  if (frame.shorter_side) {
    share = to.height == to.width ? share_of(to.height, *frame.shorter_side) : std::nullopt;
  } else {
    share = share_of(to.height, frame.stretched->height);
    if (share && std::floor(static_cast<double>(to.width) / *share) != static_cast<double>(frame.stretched->width))
      share.reset();
  }
  if (!share) throw not_described(where, "resize with a center_crop of these sizes");
  const auto channels = static_cast<std::size_t>(facts.input_shape[0]);
  const bool normalizes = !facts.pixel_mean.empty();  // without values, timm takes ImageNet's
  return {{"interpolation", "bilinear"},
          {"crop_pct", *share},
          {"crop_mode", frame.shorter_side ? "center" : "squash"},
          {"mean", normalizes ? facts.pixel_mean : std::vector<double>(channels, 0)},
          {"std", normalizes ? facts.pixel_std : std::vector<double>(channels, 1)}};
}

}  // namespace trainctl::pretrained
