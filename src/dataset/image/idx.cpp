// The IDX format: a magic number, big-endian sizes, bytes (http://yann.lecun.com/exdb/mnist).
#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "dataset/image/gzip.h"
#include "dataset/image/in_memory.h"
#include "dataset/sources.h"

namespace trainctl::dataset {
namespace {

constexpr std::uint32_t kImagesMagic = 0x00000803;  // unsigned bytes, three dims
constexpr std::uint32_t kLabelsMagic = 0x00000801;  // unsigned bytes, one dim

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

std::string hex(std::uint32_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[value >> shift & 15];
  return text;
}

std::uint32_t read_number(ContentReader& file, std::string_view what) {
  std::array<std::byte, 4> bytes{};
  const std::uint64_t offset = file.offset();
  if (file.read(bytes) != bytes.size())
    throw core::Error(file.path() + ": the header ends too early: " + std::string(what) + " should stand " +
                      file.at(offset));
  return big_endian(bytes.data());
}

void check_magic(ContentReader& file, std::uint32_t expected) {
  const std::uint32_t magic = read_number(file, "the magic number");
  if (magic == expected) return;
  core::Error error(file.path() + ": wrong magic number " + hex(magic) + " " + file.at(0) + ", expected " +
                    hex(expected) + (expected == kImagesMagic ? " (images)" : " (labels)"));
  if (magic == kImagesMagic || magic == kLabelsMagic)
    error.hint(magic == kImagesMagic ? "this is a file of images; was it given as labels?"
                                     : "this is a file of labels; was it given as images?");
  throw error;
}

/// Reads the rest of the file, which must have exactly the bytes that its header states.
std::vector<std::byte> read_rest(ContentReader& file, std::array<std::uint32_t, 3> dims) {
  const std::uint64_t begin = file.offset();
  const std::string claim =
      std::to_string(dims[0]) + "×" + std::to_string(dims[1]) + "×" + std::to_string(dims[2]) + " bytes";
  std::uint64_t size = 0;
  const bool overflows = __builtin_mul_overflow(std::uint64_t{dims[0]} * dims[1], std::uint64_t{dims[2]}, &size);
  if (overflows || size > file.most_left())
    throw core::Error(file.path() + ": the header promises " + claim + " from byte " + std::to_string(begin) +
                      " on, but at most " + std::to_string(file.most_left()) + " follow")
        .hint("the file is damaged or was not downloaded whole; get it again");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  const std::size_t got = file.read(bytes);
  if (got != bytes.size())
    throw core::Error(file.path() + ": the header promises " + claim + ", but the data ends after " +
                      std::to_string(got) + ", " + file.at(begin + got));
  std::byte one{};
  if (file.read({&one, 1}) != 0)
    throw core::Error(file.path() + ": the header promises " + claim + ", but more follow " + file.at(begin + size));
  return bytes;
}

struct Images {
  ImageShape shape;
  std::int64_t count = 0;
  std::vector<std::byte> pixels;
};

Images read_images(const std::string& path) {
  ContentReader file(path);
  check_magic(file, kImagesMagic);
  const std::uint32_t count = read_number(file, "the number of images");
  const std::uint32_t rows = read_number(file, "the number of rows");
  const std::uint32_t columns = read_number(file, "the number of columns");
  if (count == 0 || rows == 0 || columns == 0)
    throw core::Error(path + ": no images: the header says " + std::to_string(count) + " of " + std::to_string(rows) +
                      "×" + std::to_string(columns) + " " + file.at(4));
  return {.shape = {.height = rows, .width = columns, .channels = 1},
          .count = count,
          .pixels = read_rest(file, {count, rows, columns})};
}

struct Labels {
  std::vector<std::uint8_t> values;
  bool compressed = false;
};

Labels read_labels(const std::string& path) {
  ContentReader file(path);
  check_magic(file, kLabelsMagic);
  const std::uint32_t count = read_number(file, "the number of labels");
  const std::vector<std::byte> bytes = read_rest(file, {count, 1, 1});
  Labels labels{.values = std::vector<std::uint8_t>(bytes.size()), .compressed = file.compressed()};
  std::transform(bytes.begin(), bytes.end(), labels.values.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return labels;
}

void check_labels(const Labels& labels, std::int64_t num_classes, const std::string& path) {
  constexpr std::size_t kHeaderBytes = 8;
  const auto wrong = std::find_if(labels.values.begin(), labels.values.end(),
                                  [&](std::uint8_t label) { return label >= num_classes; });
  if (wrong == labels.values.end()) return;
  const auto index = static_cast<std::size_t>(wrong - labels.values.begin());
  throw core::Error(path + ": label " + std::to_string(*wrong) + " of sample " + std::to_string(index) + ", at byte " +
                    std::to_string(kHeaderBytes + index) + (labels.compressed ? " of its uncompressed content" : "") +
                    ", is not below num_classes, " + std::to_string(num_classes));
}

/// Reads a set. Without `num_classes`, the largest label gives the number of classes.
ImageSet read_set(const IdxFiles& files, std::optional<std::int64_t> num_classes) {
  Images images = read_images(files.images);
  Labels labels = read_labels(files.labels);
  if (static_cast<std::size_t>(images.count) != labels.values.size())
    throw core::Error(files.images + " has " + core::format_count(images.count) + " images, but " + files.labels +
                      " has " + core::format_count(static_cast<long long>(labels.values.size())) +
                      " labels (each count stands at byte 4)");
  const std::int64_t classes =
      num_classes ? *num_classes : *std::max_element(labels.values.begin(), labels.values.end()) + std::int64_t{1};
  check_labels(labels, classes, files.labels);
  return {.shape = images.shape,
          .pixels = std::move(images.pixels),
          .labels = std::move(labels.values),
          .num_classes = classes,
          .class_names = {}};
}

/// Returns the number of classes in the config; none if the labels give it.
std::optional<std::int64_t> given_classes(const IdxConfig& config) {
  if (config.num_classes.value || config.class_names.empty()) return config.num_classes.value;
  return static_cast<std::int64_t>(config.class_names.size());
}

}  // namespace

Sources build(const IdxConfig& config, const LoaderOptions& options) {
  ImageSet train = read_set(config.train, given_classes(config));
  train.class_names = config.class_names;
  const auto read_other = [&, shape = train.shape, num_classes = train.num_classes](const IdxFiles& files) {
    ImageSet set = read_set(files, num_classes);
    if (set.shape != shape)
      throw core::Error("the images of " + files.images + " are " + describe(set.shape) + ", those of " +
                        config.train.images + " " + describe(shape));
    set.class_names = config.class_names;
    return make_source(std::move(set));
  };
  Sources sources = divided_sources(std::move(train), {.eval_fraction = config.eval_fraction,
                                                       .test_fraction = config.test_fraction,
                                                       .seed = static_cast<std::uint64_t>(config.split_seed),
                                                       .fold = options.fold});
  if (config.eval) sources.eval = read_other(*config.eval);
  if (config.test && options.evaluated == EvaluatedSet::test) sources.test = read_other(*config.test);
  return sources;
}

}  // namespace trainctl::dataset
