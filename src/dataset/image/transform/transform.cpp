#include "dataset/image/transform/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"

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

/// Pixels are changed as bytes and erased as floats. Flips give the same on either side of normalize; the others don't.
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

/// An image between its source and the batch: pixels that are there, or are still to be decoded, and the frame that
/// lies over them.
class Transforms::Progress {
 public:
  /// Pixels in scratch.image.
  explicit Progress(ImageScratch& scratch) : scratch_(scratch), frame_({scratch.image.height, scratch.image.width}) {}
  /// An image that has yet to be decoded.
  Progress(ImageScratch& scratch, PixelSource& supply, DecodeScaling scaling)
      : scratch_(scratch), frame_(supply.size()), scaling_(scaling), supply_(&supply) {}

  std::vector<std::uint8_t>& line() { return scratch_.line; }

  void frame(const Framing& framing, runtime::Random& random) {
    if (framing.extend(frame_, random)) return;
    settle();
    core::ensure(framing.extend(frame_, random), "a new frame takes any framing");
  }

  void change(const PixelTransform& transform, runtime::Random& random) {
    settle();
    transform.apply(scratch_.image, scratch_.spare, random);
  }

  /// All rows in one piece, where they lie so; else null.
  const std::uint8_t* in_one_piece() const { return is_untouched() ? scratch_.image.bytes.data() : nullptr; }

  /// Calls `take(y, row)` for all rows of the image as it now is.
  template <class Take>
  void rows(const Take& take) {
    if (frame_.is_padded()) settle();
    const auto [from, box] = pixels();
    if (frame_.is_resampled) {
      scratch_.resampler.begin(from, plan(box));
      for (std::int64_t y = 0; y < frame_.part.height; ++y) take(y, scratch_.resampler.row(y));
      return;
    }
    const std::int64_t top = static_cast<std::int64_t>(box.top) + frame_.part.top;
    const std::int64_t left = (static_cast<std::int64_t>(box.left) + frame_.part.left) * from.channels;
    for (std::int64_t y = 0; y < frame_.part.height; ++y) take(y, from.row(top + y) + left);
  }

 private:
  bool is_encoded() const { return supply_ != nullptr; }
  bool is_untouched() const {
    const Frame begun({scratch_.image.height, scratch_.image.width});
    return !is_encoded() && !frame_.is_resampled && frame_.part == begun.part && frame_.region == begun.region;
  }
  ResamplePlan plan(const Box& box) const { return {box, frame_.size.height, frame_.size.width, frame_.part}; }

  /// Pixels, decoded if need be, and where in them the frame's region lies; of what isn't resampled: its part.
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

  /// Makes the pixels that the frame describes, in scratch.image, with a frame of their own.
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
      std::uint8_t* const first = scratch_.spare.row(top - whole.top) + (left - whole.left) * scratch_.spare.channels;
      rows([&](std::int64_t y, const std::uint8_t* row) {
        std::memcpy(first + y * scratch_.spare.row_bytes(), row, bytes);
      });
    }
    std::swap(scratch_.image, scratch_.spare);
    supply_ = nullptr;
    frame_ = Frame({whole.height, whole.width});
  }

  ImageScratch& scratch_;
  Frame frame_;
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

void Transforms::add(const std::vector<TransformConfig>& configs) {
  for (const TransformConfig& config : configs) {
    if (const auto* across = config.get_if<RandomHorizontalFlipConfig>()) {
      flips_.push_back({Flip::Axis::horizontal, across->p});
      continue;
    }
    if (const auto* down = config.get_if<RandomVerticalFlipConfig>()) {
      flips_.push_back({Flip::Axis::vertical, down->p});
      continue;
    }
    if (config.get_if<NormalizeConfig>() != nullptr || config.get_if<RandomErasingConfig>() != nullptr) continue;
    for (const Flip& flip : flips_)  // they aren't the last, after all
      steps_.push_back({.pixels = flip.axis == Flip::Axis::horizontal ? build(RandomHorizontalFlipConfig{flip.p})
                                                                      : build(RandomVerticalFlipConfig{flip.p})});
    flips_.clear();
    config.visit([this]<class Config>(const Config& transform) {
      if constexpr (Frames<Config>)
        steps_.push_back({.framing = build(transform)});
      else if constexpr (ChangesPixels<Config>)
        steps_.push_back({.pixels = build(transform)});
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
  for (const Step& step : steps_)
    if (step.framing)
      progress.frame(*step.framing, random);
    else
      progress.change(*step.pixels, random);
  bool mirrored = false;
  bool upside_down = false;
  for (const Flip& flip : flips_)
    if (random.uniform() < flip.p) (flip.axis == Flip::Axis::horizontal ? mirrored : upside_down) ^= true;
  if (const std::uint8_t* const whole = progress.in_one_piece(); whole != nullptr && !mirrored && !upside_down)
    write(whole, 0, output_.bytes(), pixels);
  else
    write_rows(progress, {mirrored, upside_down}, pixels);
  for (const auto& erasing : erasings_) erasing->apply(static_cast<float*>(pixels), random);
}

void Transforms::write_rows(Progress& progress, const Turned& turned, void* pixels) const {
  std::vector<std::uint8_t>& line = progress.line();
  line.resize(static_cast<std::size_t>(output_.row_bytes()));
  progress.rows([&](std::int64_t y, const std::uint8_t* row) {
    if (turned.mirrored) {
      reverse_pixels(row, output_.width, output_.channels, line.data());
      row = line.data();
    }
    write(row, (turned.upside_down ? output_.height - 1 - y : y) * output_.row_bytes(), output_.row_bytes(), pixels);
  });
}

void Transforms::write(const std::uint8_t* bytes, std::int64_t at, std::int64_t size, void* pixels) const {
  if (kind_ == PixelOutput::floats)
    normalize_.apply(bytes, static_cast<float*>(pixels) + at, size);
  else
    std::memcpy(static_cast<std::uint8_t*>(pixels) + at, bytes, static_cast<std::size_t>(size));
}

}  // namespace trainctl::dataset
