// Where the pixels of a transformed image come from: what moves a mask as its image is moved.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/overloaded.h"
#include "dataset/image/transform/transform.h"

namespace trainctl::dataset {
namespace {

/// A part of one axis of a frame.
struct AxisPart {
  std::int64_t begin;  // of the region in the image
  std::int64_t size;
  std::int64_t resized;  // pixels that the region becomes
  std::int64_t from;     // of these, the first that is kept
  std::int64_t count;    // and how many are
};

/// Returns the origins of a part's pixels. A pixel of a resampled region is that of the nearest center, as Pillow's
/// NEAREST and PyTorch's nearest-exact have it.
std::vector<std::int64_t> origins_of(const AxisPart& part, const std::vector<std::int64_t>& before, bool is_reversed) {
  std::vector<std::int64_t> origins;
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::int64_t at = part.from + (is_reversed ? part.count - 1 - i : i);
    if (at < 0 || at >= part.resized) {
      origins.push_back(-1);
      continue;
    }
    const double center =
        (static_cast<double>(at) + 0.5) * static_cast<double>(part.size) / static_cast<double>(part.resized);
    const auto nearest = std::min(static_cast<std::int64_t>(std::floor(center)), part.size - 1);
    origins.push_back(before[static_cast<std::size_t>(part.begin + nearest)]);
  }
  return origins;
}

std::vector<std::int64_t> first_numbers(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Follows the transforms of an image, without its pixels.
class OriginTrace {
 public:
  explicit OriginTrace(ImageSize size)
      : frame_(size), origins_{.rows = first_numbers(size.height), .columns = first_numbers(size.width)} {}

  void frame(const Framing& framing, runtime::Random& random) {
    if (mirrored_ || upside_down_) settle();
    if (framing.extend(frame_, random)) return;
    settle();
    core::ensure(framing.extend(frame_, random), "a new frame takes any framing");
  }
  void mirror() { mirrored_ = !mirrored_; }
  void turn_upside_down() { upside_down_ = !upside_down_; }

  PixelOrigins take() {
    settle();
    return std::move(origins_);
  }

 private:
  void settle() {
    const Region& region = frame_.region;
    const Region& part = frame_.part;
    origins_ = {.rows = origins_of({region.top, region.height, frame_.size.height, part.top, part.height},
                                   origins_.rows, upside_down_),
                .columns = origins_of({region.left, region.width, frame_.size.width, part.left, part.width},
                                      origins_.columns, mirrored_)};
    frame_ = Frame({part.height, part.width});
    mirrored_ = upside_down_ = false;
  }

  Frame frame_;
  PixelOrigins origins_;
  bool mirrored_ = false;
  bool upside_down_ = false;
};

}  // namespace

PixelOrigins Transforms::origins(ImageSize size, runtime::Random random) const {
  OriginTrace trace(size);
  Image pixel;  // changes of pixels draw their numbers from `random` for this one, too
  Image spare;
  const core::Overloaded take{
      [&](const std::unique_ptr<Framing>& framing) { trace.frame(*framing, random); },
      [&](const std::unique_ptr<PixelTransform>& transform) {
        pixel.resize(1, 1);
        transform->apply(pixel, spare, random);
      },
      [&](const Flip& flip) {
        if (random.uniform() >= flip.p) return;
        if (flip.axis == Flip::Axis::horizontal)
          trace.mirror();
        else
          trace.turn_upside_down();
      },
  };
  for (const Step& step : steps_) std::visit(take, step);
  return trace.take();
}

}  // namespace trainctl::dataset
