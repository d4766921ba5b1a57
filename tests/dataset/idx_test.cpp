#include <set>

#include "core/file.h"
#include "dataset/dataset.h"
#include "dataset/image/gzip.h"
#include "dataset/sources.h"
#include "support/skip.h"
#include "support/small_files.h"

namespace trainctl::dataset::idx_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

std::string read_error(const std::string& images, const std::string& labels,
                       config::AutoOr<std::int64_t> num_classes = {}) {
  return error_of([&] { build(IdxConfig{.train = {images, labels}, .eval = {}, .num_classes = num_classes}); });
}

struct Files {
  TemporaryDirectory directory;
  std::string images = directory.write("images", idx_images(4, 2, 3));
  std::string labels = directory.write("labels", idx_labels(4, 3));
};

}  // namespace

TEST_CASE("idx reads images and labels, raw or gzip alike", "[dataset]") {
  Files files;
  const std::string images = idx_images(4, 2, 3);
  const std::string gz_images = files.directory.write("images.gz", gzip(images));
  const std::string gz_labels = files.directory.write("labels.gz", gzip(idx_labels(4, 3)));
  const Sources raw = build(IdxConfig{.train = {files.images, files.labels}, .eval = {}, .num_classes = {}});
  const Sources gz = build(
      IdxConfig{.train = {gz_images, gz_labels}, .eval = IdxFiles{files.images, files.labels}, .num_classes = {}});
  CHECK(raw.eval == nullptr);
  REQUIRE(gz.eval != nullptr);
  CHECK(raw.train->size() == 4);
  CHECK(raw.train->spec().input_shape == std::vector<std::int64_t>{1, 2, 3});
  CHECK(raw.train->spec().num_classes == 3);
  CHECK(raw.train->fingerprint() == gz.train->fingerprint());
  for (std::int64_t i = 0; i < 4; ++i) {
    std::string pixels(6, '\0');
    CHECK(raw_samples(*gz.train).get(i, reinterpret_cast<std::byte*>(pixels.data())) == i % 3);
    CHECK(pixels == images.substr(static_cast<std::size_t>(16 + 6 * i), 6));
  }
}

TEST_CASE("names of idx classes say how many there are, and reach both sets", "[dataset]") {
  Files files;
  const IdxFiles both{files.images, files.labels};
  const Sources named =
      build(IdxConfig{.train = both, .eval = both, .num_classes = {}, .class_names = {"a", "b", "c", "d"}});
  CHECK(named.train->spec().num_classes == 4);
  CHECK(named.eval->spec().class_names == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK_THAT(error_of([&] {
               build(IdxConfig{.train = both, .eval = {}, .num_classes = {}, .class_names = {"a", "b"}});
             }),
             Contains("is not below num_classes, 2"));
}

TEST_CASE("an idx fingerprint changes with any pixel and any label", "[dataset]") {
  Files files;
  std::set<std::string> fingerprints;
  const auto add = [&](std::string images, std::string labels) {
    const Sources sources =
        build(IdxConfig{.train = {files.directory.write("i", images), files.directory.write("l", labels)},
                        .eval = {},
                        .num_classes = {}});
    fingerprints.insert(sources.train->fingerprint());
  };
  std::string images = idx_images(4, 2, 3);
  std::string labels = idx_labels(4, 3);
  add(images, labels);
  images.back() = static_cast<char>(images.back() ^ 1);
  add(images, labels);
  labels.back() = 1;
  add(images, labels);
  CHECK(fingerprints.size() == 3);
}

TEST_CASE("files that can't be read are named", "[dataset]") {
  Files files;
  const std::string missing = (files.directory.path() / "nowhere").string();
  CHECK_THAT(read_error(missing, files.labels), Contains(missing) && Contains("No such file"));
  CHECK_THAT(read_error(files.directory.path().string(), files.labels),
             Contains(files.directory.path().string()) && Contains("directory"));
  CHECK_THAT(read_error(files.directory.write("empty", ""), files.labels), Contains("empty is empty"));
  if (::geteuid() != 0) {
    std::filesystem::permissions(files.labels, std::filesystem::perms::none);
    CHECK_THAT(read_error(files.images, files.labels), Contains(files.labels) && Contains("Permission denied"));
  }
}

TEST_CASE("a wrong magic number is shown with its offset", "[dataset]") {
  Files files;
  CHECK_THAT(read_error(files.labels, files.labels),
             Contains(files.labels) && Contains("wrong magic number 0x00000801 at byte 0, expected 0x00000803"));
  CHECK_THAT(read_error(files.images, files.images),
             Contains("wrong magic number 0x00000803 at byte 0, expected 0x00000801 (labels)"));
  CHECK_THAT(read_error(files.directory.write("text", "not an idx file"), files.labels),
             Contains("wrong magic number 0x6e6f7420"));
}

TEST_CASE("a header that promises another size than the file has is refused before memory is taken", "[dataset]") {
  Files files;
  const auto with = [&](const std::string& bytes) {
    return read_error(files.directory.write("damaged", bytes), files.labels);
  };
  const std::string good = idx_images(4, 2, 3);
  CHECK_THAT(with(good.substr(0, 2)), Contains("the magic number should stand at byte 0"));
  CHECK_THAT(with(good.substr(0, 14)), Contains("the number of columns should stand at byte 12"));
  CHECK_THAT(with(good.substr(0, 30)),
             Contains("the header promises 4×2×3 bytes from byte 16 on, but at most 14 follow"));
  CHECK_THAT(with(good + "x"), Contains("4×2×3 bytes, but more follow at byte 40"));
  const std::string most = big_endian(0xffffffff);
  CHECK_THAT(with(big_endian(0x803) + most + most + most),
             Contains("4294967295×4294967295×4294967295") && Contains("at most 0 follow"));
  CHECK_THAT(with(gzip(big_endian(0x803) + most + most + most)), Contains("4294967295×4294967295×4294967295"));
  CHECK_THAT(with(gzip(big_endian(0x803) + big_endian(1000) + big_endian(1000) + big_endian(1000))),
             Contains("but at most"));
  CHECK_THAT(with(big_endian(0x803) + big_endian(0) + big_endian(28) + big_endian(28)), Contains("no images"));
  CHECK_THAT(with(big_endian(0x803) + big_endian(4) + big_endian(0) + big_endian(28)), Contains("no images"));
  CHECK_THAT(with(gzip(good.substr(0, 30))),
             Contains("the data ends after 14, at byte 30 of its uncompressed content"));
  CHECK_THAT(with(gzip(good + "x")), Contains("more follow at byte 40 of its uncompressed content"));
}

TEST_CASE("damaged gzip is refused with the offset in the file", "[dataset]") {
  Files files;
  const std::string good = gzip(idx_images(4, 2, 3));
  const auto with = [&](const std::string& bytes) {
    return read_error(files.directory.write("damaged.gz", bytes), files.labels);
  };
  for (std::size_t size = 2; size < good.size(); ++size) {
    const std::string message = with(good.substr(0, size));
    INFO("cut to " << size << " of " << good.size() << " bytes: " << message);
    CHECK_THAT(message, Contains("damaged.gz") && Contains("ends too early at byte " + std::to_string(size)));
  }
  std::string wrong_checksum = good;
  wrong_checksum[good.size() - 8] = static_cast<char>(wrong_checksum[good.size() - 8] ^ 1);
  CHECK_THAT(with(wrong_checksum), Contains("incorrect data check") && Contains("at byte"));
  std::string wrong_length = good;
  wrong_length[good.size() - 4] = static_cast<char>(wrong_length[good.size() - 4] ^ 1);
  CHECK_THAT(with(wrong_length), Contains("incorrect length check"));
  CHECK_THAT(with(good + "garbage"),
             Contains("trailing bytes after the gzip data at byte " + std::to_string(good.size())));
}

TEST_CASE("gzip members one after the other are one content", "[dataset]") {
  Files files;
  const std::string whole = idx_images(4, 2, 3);
  const std::string members = gzip(whole.substr(0, 5)) + gzip(whole.substr(5, 20)) + gzip("") + gzip(whole.substr(25));
  CHECK(read_error(files.directory.write("members.gz", members), files.labels) == "no error");
}

TEST_CASE("labels that are out of range or too few are named", "[dataset]") {
  Files files;
  CHECK_THAT(read_error(files.images, files.labels, 2),
             Contains("label 2 of sample 2, at byte 10, is not below num_classes, 2"));
  const std::string compressed = files.directory.write("labels.gz", gzip(idx_labels(4, 3)));
  CHECK_THAT(read_error(files.images, compressed, 2), Contains("at byte 10 of its uncompressed content"));
  const std::string fewer = files.directory.write("fewer", idx_labels(3, 3));
  CHECK_THAT(read_error(files.images, fewer), Contains("images has 4 images, but ") && Contains("fewer has 3 labels"));
}

TEST_CASE("evaluation files must fit the training files", "[dataset]") {
  Files files;
  const auto error = [&](const IdxFiles& eval) {
    return error_of([&] { build(IdxConfig{.train = {files.images, files.labels}, .eval = eval, .num_classes = {}}); });
  };
  CHECK_THAT(error(write_idx(files.directory, "other", 4, 3, 3, 3)), Contains("1×3×3") && Contains("1×2×3"));
  CHECK_THAT(error(write_idx(files.directory, "more", 9, 2, 3, 9)),
             Contains("more-labels: label 3 of sample 3, at byte 11"));
}

TEST_CASE("no damage to an idx file does worse than an error", "[dataset]") {
  Files files;
  const std::string images = idx_images(4, 2, 3);
  const std::string labels = idx_labels(4, 3);
  runtime::Random random(1);
  int errors = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = round % 3 == 0 ? labels : images;
    if (round % 2 == 0) damaged = gzip(damaged);
    const std::int64_t changes = 1 + random.below(3);
    for (std::int64_t i = 0; i < changes; ++i)
      damaged[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(damaged.size())))] =
          static_cast<char>(random.below(256));
    if (random.below(3) == 0)
      damaged.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(damaged.size()))));
    const std::string path = files.directory.write("damaged", damaged);
    const std::string message = round % 3 == 0 ? read_error(files.images, path) : read_error(path, files.labels);
    if (message == "no error") continue;
    ++errors;
    REQUIRE_THAT(message, Contains(files.directory.path().string()));
  }
  CHECK(errors > 700);
}

TEST_CASE("Fashion-MNIST as Debian ships it is read whole", "[dataset]") {
  const std::string directory = "/usr/share/datasets/fashion-mnist/";
  if (!std::filesystem::exists(directory)) testing::skip("Debian's dataset-fashion-mnist is not installed");
  const auto files = [&](const std::string& set) {
    return IdxFiles{directory + set + "-images-idx3-ubyte.gz", directory + set + "-labels-idx1-ubyte.gz"};
  };
  const Sources sources = build(IdxConfig{.train = files("train"), .eval = files("t10k"), .num_classes = {}});
  CHECK(sources.train->size() == 60000);
  CHECK(sources.eval->size() == 10000);
  CHECK(sources.train->spec().input_shape == std::vector<std::int64_t>{1, 28, 28});
  CHECK(sources.train->spec().num_classes == 10);
  std::vector<int> counts(10);
  std::string image(784, '\0');
  std::string first;
  for (std::int64_t i = 0; i < sources.train->size(); ++i) {
    ++counts[static_cast<std::size_t>(raw_samples(*sources.train).get(i, reinterpret_cast<std::byte*>(image.data())))];
    if (i == 0) first = image;
  }
  CHECK(counts == std::vector<int>(10, 6000));
  CHECK(core::checksum(first) == "8af23bf73392ab36");
}

}  // namespace trainctl::dataset::idx_test
