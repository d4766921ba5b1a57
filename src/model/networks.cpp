#include "model/networks.h"

#include <string>

#include "core/error.h"
#include "core/text.h"

namespace trainctl {

ImageShape image_shape(const InputSpec& input, std::string_view network) {
  if (input.shape.size() != 3)
    throw Error("model " + std::string(network) + " needs images [C, H, W], but the dataset's samples have " +
                std::to_string(input.shape.size()) + " dim" + (input.shape.size() == 1 ? "" : "s"))
        .hint("take an image dataset, or a model for such samples");
  const ImageShape shape{.channels = input.shape[0], .height = input.shape[1], .width = input.shape[2]};
  if (shape.channels < 1 || shape.height < 1 || shape.width < 1)
    throw Error("model " + std::string(network) + " can't work on empty images: " + shape.text());
  return shape;
}

std::int64_t num_outputs(const config::AutoOr<std::int64_t>& own, const InputSpec& input) {
  if (own.is_auto()) {
    if (input.num_classes < 1)
      throw Error("the dataset doesn't say how many classes it has").hint("set model.num_classes");
    return input.num_classes;
  }
  if (input.num_classes > 0 && *own.value != input.num_classes)
    throw Error("model.num_classes is " + format_count(*own.value) + ", but the dataset has " +
                format_count(input.num_classes) + " classes")
        .hint("leave model.num_classes at auto");
  return *own.value;
}

}  // namespace trainctl
