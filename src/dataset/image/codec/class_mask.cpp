#include "dataset/image/codec/class_mask.h"

#include <png.h>

#include <csetjmp>
#include <cstring>

#include "dataset/image/codec/codecs.h"

namespace trainctl::dataset {
namespace {

/// What libpng's calls share. Its errors leave by longjmp, over frames that have nothing to destroy.
struct MaskFile {
  EncodedImage file;
  std::size_t offset = 0;
  char message[128] = {};
  std::jmp_buf jump{};
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit MaskFile(const EncodedImage& image) : file(image) {}
  MaskFile(const MaskFile&) = delete;
  MaskFile& operator=(const MaskFile&) = delete;
  ~MaskFile() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void leave_mask(png_structp png, png_const_charp message) {
  auto* self = static_cast<MaskFile*>(png_get_error_ptr(png));
  std::strncpy(self->message, message, sizeof(self->message) - 1);
  std::longjmp(self->jump, 1);
}

void pass_over_warning(png_structp, png_const_charp) {}

void give_mask_bytes(png_structp png, png_bytep out, png_size_t count) {
  auto* self = static_cast<MaskFile*>(png_get_io_ptr(png));
  if (self->file.bytes.size() - self->offset < count) png_error(png, "the data ends too early");
  std::memcpy(out, self->file.bytes.data() + self->offset, count);
  self->offset += count;
}

/// Runs a step of libpng, and turns its fault into a BadSample. The step must make no object with a destructor.
template <class Step>
void guard_mask(MaskFile& mask, const Step& step) {
  if (setjmp(mask.jump) != 0) throw bad_image(mask.file.name, std::string("damaged PNG: ") + mask.message);
  step();
}

void refuse_colors(const MaskFile& mask) {
  const int color = png_get_color_type(mask.png, mask.info);
  const int depth = png_get_bit_depth(mask.png, mask.info);
  const bool is_grey = color == PNG_COLOR_TYPE_GRAY && depth <= 8;
  if (is_grey || color == PNG_COLOR_TYPE_PALETTE) return;
  const std::string got = color == PNG_COLOR_TYPE_GRAY ? "16 bits" : "colors or transparency";
  BadSample error(std::string(mask.file.name) + ": the mask has " + got +
                  "; expected a PNG of class numbers: grey levels of up to 8 bits, or a palette");
  error.hint("convert the mask's colors to class numbers");
  throw error;
}

}  // namespace

ClassMask decode_class_mask(const EncodedImage& file) {
  constexpr std::string_view kSignature = "\x89PNG";
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  if (!text.starts_with(kSignature)) throw bad_image(file.name, "a mask is a PNG file, and this is none");
  MaskFile mask(file);
  guard_mask(mask, [&mask] {
    mask.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &mask, leave_mask, pass_over_warning);
    if (mask.png == nullptr) return;
    mask.info = png_create_info_struct(mask.png);
    if (mask.info == nullptr) return;
    png_set_read_fn(mask.png, &mask, give_mask_bytes);
    png_set_keep_unknown_chunks(mask.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // as of photos
    png_read_info(mask.png, mask.info);
  });
  if (mask.info == nullptr) throw std::bad_alloc();
  refuse_colors(mask);
  ClassMask classes{.name = std::string(file.name),
                    .height = png_get_image_height(mask.png, mask.info),
                    .width = png_get_image_width(mask.png, mask.info)};
  check_size(file, classes.width, classes.height);
  classes.classes.resize(static_cast<std::size_t>(classes.height * classes.width));
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < classes.height; ++y) rows.push_back(classes.classes.data() + y * classes.width);
  guard_mask(mask, [&mask, &rows] {
    png_set_packing(mask.png);  // numbers of 1, 2 or 4 bits take a byte each, and keep their values
    png_set_interlace_handling(mask.png);
    png_read_update_info(mask.png, mask.info);
    png_read_image(mask.png, rows.data());
    png_read_end(mask.png, nullptr);
  });
  return classes;
}

MaskColor color_of_class(std::uint8_t class_number) {
  MaskColor color{0, 0, 0};
  unsigned bits = class_number;
  for (int shift = 7; bits != 0; --shift, bits >>= 3U) {
    color.red = static_cast<std::uint8_t>(color.red | (bits & 1U) << shift);
    color.green = static_cast<std::uint8_t>(color.green | (bits >> 1U & 1U) << shift);
    color.blue = static_cast<std::uint8_t>(color.blue | (bits >> 2U & 1U) << shift);
  }
  return color;
}

std::vector<std::byte> encode_class_mask(const ClassMask& mask) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(mask.width);
  header.height = static_cast<png_uint_32>(mask.height);
  header.format = PNG_FORMAT_RGB_COLORMAP;
  header.colormap_entries = 256;
  std::vector<png_byte> palette;
  for (unsigned number = 0; number < 256; ++number) {
    const MaskColor color = color_of_class(static_cast<std::uint8_t>(number));
    palette.insert(palette.end(), {color.red, color.green, color.blue});
  }
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, mask.classes.data(), 0, palette.data()) == 0)
    throw core::Error(std::string("cannot write a mask: ") + header.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace trainctl::dataset
