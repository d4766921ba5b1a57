// libpng. Its errors leave by longjmp, over its own frames and ours that have nothing to destroy.
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "dataset/image/codec/codecs.h"

namespace trainctl::dataset {
namespace {

class PngCodec final : public Codec {
 public:
  PngCodec() = default;
  PngCodec(const PngCodec&) = delete;
  PngCodec& operator=(const PngCodec&) = delete;
  ~PngCodec() override { close(); }

  ImageInfo open(const EncodedImage& image) override {
    close();
    image_ = image;
    check_data();
    offset_ = 0;
    message_[0] = '\0';
    guarded([this] {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, pass_over);
      if (png_ == nullptr) return;
      info_ = png_create_info_struct(png_);
      if (info_ == nullptr) return;
      png_set_read_fn(png_, this, give_bytes);
      // Chunks that pixels don't need are skipped: texts of a few megabytes can take gigabytes unpacked.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_crc_action(png_, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);  // check_data() has compared them
      png_read_info(png_, info_);
    });
    if (info_ == nullptr) throw std::bad_alloc();
    const ImageInfo found = {.width = png_get_image_width(png_, info_),
                             .height = png_get_image_height(png_, info_),
                             .channels = png_get_channels(png_, info_),
                             .format = ImageFormat::png};
    check_size(image, found.width, found.height);
    const bool is_palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
    return {found.width, found.height, is_palette ? 3 : found.channels, found.format};
  }

  /// Reads all columns of the wanted rows; of an interlaced image, and of a file that may be cut, all rows too.
  Box read(const DecodeRequest& request, Image& pixels) override {
    bool interlaced = false;
    guarded([this, &interlaced] {
      png_set_expand(png_);
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
      interlaced = png_set_interlace_handling(png_) > 1;
      png_read_update_info(png_, info_);
    });
    const auto width = static_cast<std::int64_t>(png_get_image_width(png_, info_));
    const auto height = static_cast<std::int64_t>(png_get_image_height(png_, info_));
    core::ensure(png_get_rowbytes(png_, info_) == static_cast<std::size_t>(3 * width), "a PNG's rows are made RGB");
    const std::int64_t top = interlaced ? 0 : request.region.top;
    const std::int64_t bottom = interlaced ? height : request.region.top + request.region.height;
    pixels.resize(bottom - top, width);
    rows_.resize(static_cast<std::size_t>(may_be_cut_ ? height : bottom));
    spare_row_.resize(static_cast<std::size_t>(3 * width));
    // Rows above the region are overwritten by its first.
    for (std::size_t y = 0; y < rows_.size(); ++y) {
      const auto row = static_cast<std::int64_t>(y);
      rows_[y] = row < bottom ? pixels.row(std::max<std::int64_t>(0, row - top)) : spare_row_.data();
    }
    guarded([this, interlaced] {
      if (interlaced)
        png_read_image(png_, rows_.data());
      else
        png_read_rows(png_, rows_.data(), nullptr, static_cast<png_uint_32>(rows_.size()));
    });
    return {.top = static_cast<double>(request.region.top - top),
            .left = static_cast<double>(request.region.left),
            .height = static_cast<double>(request.region.height),
            .width = static_cast<double>(request.region.width)};
  }

 private:
  [[noreturn]] static void leave(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngCodec*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->jump_, 1);
  }
  static void pass_over(png_structp, png_const_charp) {}

  static void give_bytes(png_structp png, png_bytep out, png_size_t count) {
    auto* self = static_cast<PngCodec*>(png_get_io_ptr(png));
    if (self->image_.bytes.size() - self->offset_ < count) png_error(png, "the data ends too early");
    std::memcpy(out, self->image_.bytes.data() + self->offset_, count);
    self->offset_ += count;
  }

  /// Runs a step of libpng, and turns its fault into a BadSample. The step must make no object with a destructor.
  template <class Step>
  void guarded(const Step& step) {
    if (setjmp(jump_) != 0) throw bad_image(image_.name, std::string("damaged PNG: ") + message_);
    step();
  }

  std::uint32_t number_at(std::size_t at) const {
    std::uint32_t number = 0;
    for (std::size_t i = at; i < at + 4; ++i) number = number << 8 | std::to_integer<std::uint32_t>(image_.bytes[i]);
    return number;
  }

  /// Throws unless all chunks are there, and those up to the last one with pixels have their checksums, whichever rows
  /// are wanted.
  void check_data() {
    constexpr std::uint32_t kData = 0x49444154;          // IDAT
    constexpr std::uint32_t kEnd = 0x49454e44;           // IEND
    constexpr std::uint32_t kFrameControl = 0x6663544C;  // fcTL
    constexpr std::uint32_t kFrameData = 0x66644154;     // fdAT
    constexpr std::size_t kSignature = 8;
    const std::size_t size = image_.bytes.size();
    may_be_cut_ = false;
    bool is_behind_data = false;
    bool has_frame_control = false;
    for (std::size_t at = kSignature; at + 8 <= size;) {
      const std::size_t length = number_at(at);
      const std::uint32_t type = number_at(at + 4);
      const bool is_data = type == kData;
      has_frame_control = has_frame_control || type == kFrameControl;
      if (type == kFrameData && !has_frame_control)
        throw bad_image(image_.name,
                        "damaged PNG: an animation's frame without its size, at byte " + std::to_string(at));
      is_behind_data = is_behind_data || (may_be_cut_ && !is_data);
      if (is_behind_data) may_be_cut_ = false;
      if (is_behind_data && type == kEnd) return;
      if (length > size - at - 8) break;
      const std::size_t end = at + 8 + length;
      if (!is_behind_data && end + 4 <= size && number_at(end) != checksum(at + 4, end))
        throw bad_image(image_.name,
                        "damaged PNG: the chunk at byte " + std::to_string(at) + " is not what its checksum says");
      may_be_cut_ = is_data && !is_behind_data;  // unless another chunk follows
      at = end + 4;
      if (at + 8 > size && may_be_cut_) return;
    }
    throw bad_image(image_.name, "the file ends after " + std::to_string(size) +
                                     " bytes, before its image does; it was not copied whole");
  }

  std::uint32_t checksum(std::size_t begin, std::size_t end) const {
    const auto* bytes = reinterpret_cast<const Bytef*>(image_.bytes.data());
    return static_cast<std::uint32_t>(::crc32_z(0, bytes + begin, end - begin));
  }

  void close() {
    if (png_ != nullptr) png_destroy_read_struct(&png_, info_ != nullptr ? &info_ : nullptr, nullptr);
    png_ = nullptr;
    info_ = nullptr;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[128] = {};
  EncodedImage image_{};
  std::size_t offset_ = 0;
  std::vector<png_bytep> rows_;
  std::vector<png_byte> spare_row_;
  bool may_be_cut_ = false;  // the last chunk has pixels
};

}  // namespace

std::unique_ptr<Codec> make_png_codec() {
  return std::make_unique<PngCodec>();
}

}  // namespace trainctl::dataset
