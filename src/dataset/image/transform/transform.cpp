#include "dataset/image/transform/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/overloaded.h"

namespace trainctl::dataset {
namespace {

template <class Config>
concept Frames = requires(const Config& config) {
  { build(config) } -> std::same_as<std::unique_ptr<Framing>>;
};
template <class Config>
concept ChangesPixels = requires(const Config& config) {
  { build(config) } -> std::same_as<std::unique_ptr<PixelTransform>>;
};

bool is_flip(const TransformConfig& config) {
  return config.get_if<RandomHorizontalFlipConfig>() != nullptr || config.get_if<RandomVerticalFlipConfig>() != nullptr;
}

/// Refuses an impossible order: transforms change bytes, and random_erasing changes floats. Only flips give the same
/// result on either side of normalize.
void check_order(const std::vector<TransformConfig>& configs) {
  bool normalized = false;
  bool erased = false;
  for (const TransformConfig& config : configs) {
    const auto refuse = [&](std::string_view why) {
      throw core::Error("transforms: " + std::string(config.kind()) + " " + std::string(why));
    };
    const bool erases = config.get_if<RandomErasingConfig>() != nullptr;
    const bool normalizes = config.get_if<NormalizeConfig>() != nullptr;
    if (normalizes && normalized) refuse("stands twice");
    if (normalizes && erased) refuse("must stand before random_erasing, whose value is of normalised images");
    if (!normalizes && !erases && erased) refuse("must stand before random_erasing, which comes last");
    if (!normalizes && !erases && !is_flip(config) && normalized)
      refuse("must stand before normalize: it works on bytes");
    normalized = normalized || normalizes;
    erased = erased || erases;
  }
}

Normalize build_normalize(const std::vector<TransformConfig>& configs, std::int64_t channels) {
  for (const TransformConfig& config : configs)
    if (const auto* normalize = config.get_if<NormalizeConfig>()) return {*normalize, channels};
  return Normalize(channels);
}

ImageShape shape_after(const std::vector<TransformConfig>& configs, ImageShape shape) {
  ImageSize size{shape.height, shape.width};
  for (const TransformConfig& config : configs) {
    if (const auto fixed = size_after(config))
      size = *fixed;
    else if (const auto* resize = config.get_if<ResizeConfig>())
      size = size.height > 0 ? resized(*resize, size) : ImageSize{};
  }
  if (size.height == 0)
    throw core::Error("dataset.transforms leave images of different sizes, which fit into no batch")
        .hint("add random_resized_crop, center_crop, or resize with a width");
  return {.height = size.height, .width = size.width, .channels = shape.channels};
}

void reverse_pixels(const std::uint8_t* in, std::int64_t width, std::int64_t channels, std::uint8_t* out) {
  const std::uint8_t* from = in + (width - 1) * channels;
  if (channels == 3) {
    for (std::int64_t x = 0; x < width; ++x, from -= 3, out += 3) out[0] = from[0], out[1] = from[1], out[2] = from[2];
    return;
  }
  for (std::int64_t x = 0; x < width; ++x, from -= channels, out += channels) std::copy_n(from, channels, out);
}

}  // namespace

/// An image between its source and the batch: its pixels, which may still be encoded, the frame over them, and the
/// flips.
class Transforms::Progress {
 public:
  /// Takes the pixels in scratch.image.
  explicit Progress(ImageScratch& scratch) : scratch_(scratch), frame_({scratch.image.height, scratch.image.width}) {}
  /// Takes an image that has yet to be decoded.
  Progress(ImageScratch& scratch, PixelSource& supply, DecodeScaling scaling)
      : scratch_(scratch), frame_(supply.size()), scaling_(scaling), supply_(&supply) {}

  void frame(const Framing& framing, runtime::Random& random) {
    if (is_turned()) settle();
    if (framing.extend(frame_, random)) return;
    settle();
    core::ensure(framing.extend(frame_, random), "a new frame takes any framing");
  }

  void change(const PixelTransform& transform, runtime::Random& random) {
    settle();
    transform.apply(scratch_.image, scratch_.spare, random);
  }

  void flip(const Flip& flip, runtime::Random& random) {
    bool& turned = flip.axis == Flip::Axis::horizontal ? mirrored_ : upside_down_;
    if (random.uniform() < flip.p) turned = !turned;
  }

  /// Returns all rows as one piece of memory, if they are one; else null.
  const std::uint8_t* in_one_piece() const { return is_untouched() ? scratch_.image.bytes.data() : nullptr; }

  /// Calls `take(y, row)` for all rows of the image in its present state.
  template <class Take>
  void rows(const Take& take) {
    if (frame_.is_padded()) settle();
    const auto [from, box] = pixels();
    const std::int64_t height = frame_.part.height;
    const std::int64_t channels = from.channels;
    if (mirrored_) scratch_.line.resize(static_cast<std::size_t>(frame_.part.width * channels));
    const auto take_turned = [&](std::int64_t y, const std::uint8_t* row) {
      if (mirrored_) reverse_pixels(row, frame_.part.width, channels, scratch_.line.data());
      take(upside_down_ ? height - 1 - y : y, mirrored_ ? scratch_.line.data() : row);
    };
    if (frame_.is_resampled) {
      scratch_.resampler.begin(from, plan(box));
      for (std::int64_t y = 0; y < height; ++y) take_turned(y, scratch_.resampler.row(y));
      return;
    }
    const std::int64_t top = static_cast<std::int64_t>(box.top) + frame_.part.top;
    const std::int64_t left = (static_cast<std::int64_t>(box.left) + frame_.part.left) * channels;
    for (std::int64_t y = 0; y < height; ++y) take_turned(y, from.row(top + y) + left);
  }

 private:
  bool is_encoded() const { return supply_ != nullptr; }
  bool is_turned() const { return mirrored_ || upside_down_; }
  bool is_untouched() const {
    const Frame begun({scratch_.image.height, scratch_.image.width});
    return !is_encoded() && !is_turned() && !frame_.is_resampled && frame_.part == begun.part &&
           frame_.region == begun.region;
  }
  ResamplePlan plan(const Box& box) const { return {box, frame_.size.height, frame_.size.width, frame_.part}; }

  /// Returns the pixels, decoded if needed, and the place of the frame's region in them. Of an image that isn't
  /// resampled only the frame's part is decoded.
  PixelSource::Pixels pixels() {
    const Region& region = frame_.region;
    if (!is_encoded())
      return {scratch_.image,
              {static_cast<double>(region.top), static_cast<double>(region.left), static_cast<double>(region.height),
               static_cast<double>(region.width)}};
    DecodeRequest request{.region = region};
    if (frame_.is_resampled)
      request = {region, frame_.size.height, frame_.size.width, scaling_};
    else
      request.region = {region.top + frame_.part.top, region.left + frame_.part.left, frame_.part.height,
                        frame_.part.width};
    PixelSource::Pixels pixels = supply_->read(request);
    if (!frame_.is_resampled) {
      pixels.box.top -= static_cast<double>(frame_.part.top);
      pixels.box.left -= static_cast<double>(frame_.part.left);
    }
    return pixels;
  }

  /// Makes the pixels that the frame describes in scratch.image, and begins a new frame over them.
  void settle() {
    if (is_untouched()) return;
    const Region whole = frame_.part;
    Region& part = frame_.part;
    const std::int64_t top = std::max<std::int64_t>(0, part.top);
    const std::int64_t left = std::max<std::int64_t>(0, part.left);
    const std::int64_t bottom = std::min(frame_.size.height, part.top + part.height);
    const std::int64_t right = std::min(frame_.size.width, part.left + part.width);
    scratch_.spare.resize(whole.height, whole.width, is_encoded() ? 3 : scratch_.image.channels);
    if (frame_.is_padded()) std::memset(scratch_.spare.bytes.data(), 0, scratch_.spare.size());
    if (top < bottom && left < right) {
      part = {top, left, bottom - top, right - left};
      const auto bytes = static_cast<std::size_t>(part.width * scratch_.spare.channels);
      const std::int64_t above = upside_down_ ? whole.top + whole.height - bottom : top - whole.top;
      const std::int64_t before = mirrored_ ? whole.left + whole.width - right : left - whole.left;
      std::uint8_t* const first = scratch_.spare.row(above) + before * scratch_.spare.channels;
      rows([&](std::int64_t y, const std::uint8_t* row) {
        std::memcpy(first + y * scratch_.spare.row_bytes(), row, bytes);
      });
    }
    std::swap(scratch_.image, scratch_.spare);
    supply_ = nullptr;
    mirrored_ = upside_down_ = false;
    frame_ = Frame({whole.height, whole.width});
  }

  ImageScratch& scratch_;
  Frame frame_;
  bool mirrored_ = false;
  bool upside_down_ = false;
  DecodeScaling scaling_ = DecodeScaling::off;
  PixelSource* supply_ = nullptr;  // of pixels that aren't in scratch.image yet
};

Transforms::Transforms(const std::vector<TransformConfig>& configs, const ImageShape& input, Phase phase,
                       PixelOutput kind)
    : scaling_(phase == Phase::training ? DecodeScaling::automatic : DecodeScaling::off),
      output_(shape_after(phase == Phase::training ? configs : without_randomness(configs), input)),
      kind_(kind),
      normalize_(build_normalize(configs, input.channels)) {
  check_order(configs);
  for (const TransformConfig& config : configs)
    if (const auto* erasing = config.get_if<RandomErasingConfig>()) erasings_.push_back(build(*erasing, output_));
  if (phase == Phase::evaluation) erasings_.clear();
  if (kind == PixelOutput::bytes && !erasings_.empty())
    throw core::Error("transforms: random_erasing fills in normalised values, but the images leave the host as bytes")
        .hint("set dataset.normalize_on: host");
  add(phase == Phase::training ? configs : without_randomness(configs));
}

std::unique_ptr<PixelTransform> build(const PluggedTransformConfig& config) {
  return config.interface().build(config.config());
}

void Transforms::add(const std::vector<TransformConfig>& configs) {
  for (const TransformConfig& config : configs) {
    if (const auto* across = config.get_if<RandomHorizontalFlipConfig>())
      steps_.emplace_back(Flip{Flip::Axis::horizontal, across->p});
    if (const auto* down = config.get_if<RandomVerticalFlipConfig>())
      steps_.emplace_back(Flip{Flip::Axis::vertical, down->p});
    config.visit([this]<class Config>(const Config& transform) {
      if constexpr (Frames<Config> || ChangesPixels<Config>) steps_.emplace_back(build(transform));
    });
  }
}

void Transforms::apply(ImageScratch& scratch, runtime::Random random, void* pixels) const {
  Progress progress(scratch);
  run(progress, random, pixels);
}

void Transforms::decode_and_apply(PixelSource& supply, ImageScratch& scratch, runtime::Random random,
                                  void* pixels) const {
  Progress progress(scratch, supply, scaling_);
  run(progress, random, pixels);
}

void Transforms::run(Progress& progress, runtime::Random random, void* pixels) const {
  const core::Overloaded take{
      [&](const std::unique_ptr<Framing>& framing) { progress.frame(*framing, random); },
      [&](const std::unique_ptr<PixelTransform>& transform) { progress.change(*transform, random); },
      [&](const Flip& flip) { progress.flip(flip, random); },
  };
  for (const Step& step : steps_) std::visit(take, step);
  if (const std::uint8_t* const whole = progress.in_one_piece())
    write(whole, 0, output_.bytes(), pixels);
  else
    progress.rows([&](std::int64_t y, const std::uint8_t* row) {
      write(row, y * output_.row_bytes(), output_.row_bytes(), pixels);
    });
  for (const auto& erasing : erasings_) erasing->apply(static_cast<float*>(pixels), random);
}

void Transforms::write(const std::uint8_t* bytes, std::int64_t at, std::int64_t size, void* pixels) const {
  if (kind_ == PixelOutput::floats)
    normalize_.apply(bytes, static_cast<float*>(pixels) + at, size);
  else
    std::memcpy(static_cast<std::uint8_t*>(pixels) + at, bytes, static_cast<std::size_t>(size));
}

}  // namespace trainctl::dataset
