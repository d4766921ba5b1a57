// libjpeg-turbo. Its errors leave by longjmp, over its own frames and ours that have nothing to destroy.
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

#include "dataset/image/codec/codecs.h"
#include "dataset/image/codec/exif.h"

namespace trainctl::dataset {
namespace {

/// The columns beyond the region on either side that upsampled chroma needs as neighbors.
constexpr std::int64_t kMargin = 2;

struct Failure {
  jpeg_error_mgr manager;  // first, so that a pointer to it is a pointer to this
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message);
  std::longjmp(failure->jump, 1);
}

/// Ignores warnings, as Pillow and torchvision do, except for data that ends early.
void note(j_common_ptr info, int level) {
  if (level >= 0) return;
  ++info->err->num_warnings;
  if (info->err->msg_code == JWRN_JPEG_EOF) leave(info);
}

void say_nothing(j_common_ptr) {}

/// Refuses scans without end: each goes over the whole image, and a copy of one takes few bytes.
void count_scans(j_common_ptr info) {
  constexpr int kMostScans = 100;  // as cjpeg writes; encoders need about ten
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* failure = reinterpret_cast<Failure*>(info->err);
  std::snprintf(failure->message, sizeof failure->message, "over %d scans", kMostScans);
  std::longjmp(failure->jump, 1);
}

void prepare(Failure& failure) {
  jpeg_std_error(&failure.manager);
  failure.manager.error_exit = leave;
  failure.manager.emit_message = note;
  failure.manager.output_message = say_nothing;
  failure.message[0] = '\0';
}

/// Returns whether the end marker comes after the image data begins. A file that ends early is bad for every crop, also
/// for one that lies before the end.
bool has_end(std::span<const std::byte> bytes, std::size_t data_begins) {
  for (std::size_t i = bytes.size(); i-- > data_begins + 1;)
    if (bytes[i] == std::byte{0xd9} && bytes[i - 1] == std::byte{0xff}) return true;
  return false;
}

/// Returns whether the first scan ends with the end marker. If it doesn't, other scans follow, or the file breaks off
/// into something else, such as the start of another image.
bool ends_behind_scan(std::span<const std::byte> data) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(data.data());
  const auto* const end = at + data.size();
  while (at < end) {
    at = static_cast<const std::uint8_t*>(std::memchr(at, 0xff, static_cast<std::size_t>(end - at)));
    while (at != nullptr && at < end && *at == 0xff) ++at;  // any number of them stand before a marker
    if (at == nullptr || at == end) return false;
    const bool is_of_scan = *at == 0 || (*at >= JPEG_RST0 && *at <= JPEG_RST0 + 7);  // a stuffed byte, or a restart
    if (!is_of_scan) return *at == JPEG_EOI;
  }
  return false;
}

/// Converts inverted CMYK, as Adobe writes nearly all such files, by Pillow's formula.
void cmyk_to_rgb(const std::uint8_t* in, std::int64_t count, std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i, in += 4, out += 3)
    for (int c = 0; c < 3; ++c) {
      const int inverse = (255 - in[c]) * in[3] + 128;
      out[c] = static_cast<std::uint8_t>(std::max(0, in[3] - (((inverse >> 8) + inverse) >> 8)));
    }
}

class JpegCodec final : public Codec {
 public:
  JpegCodec() {
    prepare(failure_);
    info_.err = &failure_.manager;
    guarded([this] { jpeg_create_decompress(&info_); });
    scans_.progress_monitor = count_scans;
    info_.progress = &scans_;
  }
  JpegCodec(const JpegCodec&) = delete;
  JpegCodec& operator=(const JpegCodec&) = delete;
  ~JpegCodec() override { jpeg_destroy_decompress(&info_); }

  ImageInfo open(const EncodedImage& image) override {
    image_ = image;
    guarded([this] {
      jpeg_abort_decompress(&info_);
      failure_.manager.num_warnings = 0;
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(image_.bytes.data()),
                   static_cast<unsigned long>(image_.bytes.size()));
      jpeg_read_header(&info_, TRUE);
    });
    check_size(image, info_.image_width, info_.image_height);
    const std::size_t data_begins = image.bytes.size() - info_.src->bytes_in_buffer;
    if (!has_end(image.bytes, data_begins))
      throw bad_image(image.name, "the file ends after " + std::to_string(image.bytes.size()) +
                                      " bytes, before its image does; it was not copied whole");
    reads_to_end_ = !ends_behind_scan(image.bytes.subspan(data_begins));
    return {.width = info_.image_width,
            .height = info_.image_height,
            .channels = info_.num_components,
            .format = ImageFormat::jpeg,
            .orientation = exif_orientation(image.bytes)};
  }

  Box read(const DecodeRequest& request, Image& pixels) override {
    const int eighths = eighths_for(request, ImageFormat::jpeg);
    const bool is_cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    guarded([&] {
      info_.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
      info_.scale_num = static_cast<unsigned>(eighths);
      info_.scale_denom = 8;
      jpeg_start_decompress(&info_);
    });
    const double scale = eighths / 8.0;
    const Region& region = request.region;
    const auto top = static_cast<std::int64_t>(std::floor(static_cast<double>(region.top) * scale));
    const std::int64_t bottom = end_of(region.top + region.height, scale, info_.output_height);
    const std::int64_t left = crop_columns(region, scale);
    pixels.resize(bottom - top, info_.output_width);
    rows_.resize(static_cast<std::size_t>(pixels.height));
    for (std::int64_t y = 0; y < pixels.height; ++y) rows_[static_cast<std::size_t>(y)] = pixels.row(y);
    line_.resize(std::size_t{4} * info_.output_width);
    guarded([&] {
      read_rows(top, is_cmyk);
      if (reads_to_end_) read_to_end();
    });
    return {.top = static_cast<double>(region.top) * scale - static_cast<double>(top),
            .left = static_cast<double>(region.left) * scale - static_cast<double>(left),
            .height = static_cast<double>(region.height) * scale,
            .width = static_cast<double>(region.width) * scale};
  }

 private:
  /// Runs a step of libjpeg, and turns its fault into a BadSample. The step must make no object with a destructor.
  template <class Step>
  void guarded(const Step& step) {
    if (setjmp(failure_.jump) != 0) throw bad_image(image_.name, std::string("damaged JPEG: ") + failure_.message);
    step();
  }

  static std::int64_t end_of(std::int64_t end, double scale, JDIMENSION size) {
    return std::min<std::int64_t>(size, static_cast<std::int64_t>(std::ceil(static_cast<double>(end) * scale)));
  }

  /// Skips blocks on both sides of the region; returns the first column that is decoded.
  std::int64_t crop_columns(const Region& region, double scale) {
    const std::int64_t from = std::max<std::int64_t>(
        0, static_cast<std::int64_t>(std::floor(static_cast<double>(region.left) * scale)) - kMargin);
    const std::int64_t to = std::min<std::int64_t>(
        info_.output_width, end_of(region.left + region.width, scale, info_.output_width) + kMargin);
    if (from == 0 && to == info_.output_width) return 0;
    auto left = static_cast<JDIMENSION>(from);
    auto width = static_cast<JDIMENSION>(to - from);
    guarded([&] { jpeg_crop_scanline(&info_, &left, &width); });
    return left;
  }

  void read_rows(std::int64_t top, bool is_cmyk) {
    if (top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(top));
    const auto count = static_cast<JDIMENSION>(rows_.size());
    for (JDIMENSION y = 0; y < count;) {
      if (!is_cmyk) {
        y += jpeg_read_scanlines(&info_, rows_.data() + y, count - y);
        continue;
      }
      JSAMPROW line = line_.data();
      jpeg_read_scanlines(&info_, &line, 1);
      cmyk_to_rgb(line, info_.output_width, rows_[y++]);
    }
  }

  /// Finds the faults behind the region, as a program that reads the whole image does.
  void read_to_end() {
    if (info_.output_scanline < info_.output_height) {
      // A skip to the very end would tell libjpeg that it has seen the end marker.
      if (const JDIMENSION rest = info_.output_height - info_.output_scanline; rest > 1)
        jpeg_skip_scanlines(&info_, rest - 1);
      JSAMPROW line = line_.data();
      jpeg_read_scanlines(&info_, &line, 1);
    }
    jpeg_finish_decompress(&info_);
  }

  jpeg_decompress_struct info_{};
  Failure failure_{};
  jpeg_progress_mgr scans_{};
  EncodedImage image_{};
  std::vector<JSAMPROW> rows_;
  std::vector<std::uint8_t> line_;  // of up to four channels
  bool reads_to_end_ = false;       // since more than the end marker follows the first scan
};

struct Compressor {
  jpeg_compress_struct info{};
  Failure failure{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~Compressor() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
};

void compress(Compressor& c, const Image& image, int quality) {
  jpeg_create_compress(&c.info);
  jpeg_mem_dest(&c.info, &c.bytes, &c.size);
  c.info.image_width = static_cast<JDIMENSION>(image.width);
  c.info.image_height = static_cast<JDIMENSION>(image.height);
  c.info.input_components = static_cast<int>(image.channels);
  c.info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&c.info);
  jpeg_set_quality(&c.info, quality, TRUE);
  jpeg_start_compress(&c.info, TRUE);
  while (c.info.next_scanline < c.info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.row(c.info.next_scanline));  // libjpeg's rows aren't const; it only reads
    jpeg_write_scanlines(&c.info, &row, 1);
  }
  jpeg_finish_compress(&c.info);
}

}  // namespace

std::unique_ptr<Codec> make_jpeg_codec() {
  return std::make_unique<JpegCodec>();
}

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  core::ensure(image.channels == 1 || image.channels == 3, "a JPEG is grey or RGB");
  const auto compressor = std::make_unique<Compressor>();
  prepare(compressor->failure);
  compressor->info.err = &compressor->failure.manager;
  if (setjmp(compressor->failure.jump) != 0)
    throw core::Error(std::string("cannot write a JPEG of ") + std::to_string(image.width) + "×" +
                      std::to_string(image.height) + ": " + compressor->failure.message);
  compress(*compressor, image, quality);
  const auto* bytes = reinterpret_cast<const std::byte*>(compressor->bytes);
  return {bytes, bytes + compressor->size};
}

}  // namespace trainctl::dataset
