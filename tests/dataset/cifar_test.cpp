#include <algorithm>

#include "dataset/dataset.h"
#include "dataset/sources.h"
#include "support/small_files.h"

namespace trainctl::dataset::cifar_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

/// Records with these label bytes each, and planes of which pixel i has the values i, i + 1, i + 2 (modulo 256).
std::string records(const std::vector<std::string>& labels) {
  std::string bytes;
  for (const std::string& label : labels) {
    bytes += label;
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < 1024; ++i) bytes += static_cast<char>(i + c);
  }
  return bytes;
}

void write_cifar10(const TemporaryDirectory& directory) {
  for (int i = 1; i <= 5; ++i)
    directory.write("data_batch_" + std::to_string(i) + ".bin",
                    records({std::string(1, static_cast<char>(i)), "\x09"}));
  directory.write("test_batch.bin", records({"\x07"}));
}

}  // namespace

TEST_CASE("cifar10 reads its five files in order and keeps pixels together", "[dataset]") {
  const TemporaryDirectory directory;
  write_cifar10(directory);
  const Sources sources = build(Cifar10Config{.path = directory.path().string()});
  CHECK(sources.train->size() == 10);
  CHECK(sources.eval->size() == 1);
  CHECK(sources.train->spec().num_classes == 10);
  CHECK(sources.train->spec().input_shape == std::vector<std::int64_t>{3, 32, 32});
  std::vector<std::byte> image(3072);
  for (std::int64_t i = 0; i < 10; ++i)
    CHECK(raw_samples(*sources.train).get(i, image.data()) == (i % 2 == 1 ? 9 : i / 2 + 1));
  for (std::size_t i = 0; i < 1024; ++i)
    for (std::size_t c = 0; c < 3; ++c) REQUIRE(image[3 * i + c] == static_cast<std::byte>(i + c));
}

TEST_CASE("cifar's published test images are the test set of a fold", "[dataset]") {
  const TemporaryDirectory directory;
  write_cifar10(directory);
  std::vector<std::byte> image(3072);
  std::vector<std::int64_t> held_out;
  for (const std::int64_t index : {0, 1}) {
    const Sources sources =
        build(Cifar10Config{.path = directory.path().string()}, {.fold = FoldConfig{.count = 2, .index = index}});
    CHECK(sources.train->size() == 5);
    REQUIRE(sources.test != nullptr);
    CHECK(raw_samples(*sources.test).get(0, image.data()) == 7);
    for (std::int64_t i = 0; i < sources.eval->size(); ++i)
      held_out.push_back(raw_samples(*sources.eval).get(i, image.data()));
  }
  std::sort(held_out.begin(), held_out.end());
  CHECK(held_out == std::vector<std::int64_t>{1, 2, 3, 4, 5, 9, 9, 9, 9, 9});
}

TEST_CASE("cifar100 takes the fine labels, or the coarse ones", "[dataset]") {
  const TemporaryDirectory directory;
  directory.write("train.bin", records({"\x05\x42", "\x13\x63"}));
  directory.write("test.bin", records({"\x01\x02"}));
  std::vector<std::byte> image(3072);
  const Sources fine = build(Cifar100Config{.path = directory.path().string()});
  CHECK(raw_samples(*fine.train).get(1, image.data()) == 0x63);
  CHECK(fine.train->spec().num_classes == 100);
  const Sources coarse = build(Cifar100Config{.path = directory.path().string(), .coarse_labels = true});
  CHECK(raw_samples(*coarse.train).get(1, image.data()) == 0x13);
  CHECK(coarse.train->spec().num_classes == 20);
  CHECK(coarse.train->fingerprint() != fine.train->fingerprint());
}

TEST_CASE("damaged cifar files are named with the offset", "[dataset]") {
  const TemporaryDirectory directory;
  write_cifar10(directory);
  const auto error = [&] { return error_of([&] { build(Cifar10Config{.path = directory.path().string()}); }); };
  directory.write("data_batch_3.bin", records({"\x01", "\x02"}).substr(0, 4000));
  CHECK_THAT(error(),
             Contains("data_batch_3.bin has 4000 bytes") && Contains("the last record, at byte 3073, is cut short"));
  directory.write("data_batch_3.bin", records({"\x01", "\x0a"}));
  CHECK_THAT(error(), Contains("data_batch_3.bin: label 10 of record 1, at byte 3073, is not below 10"));
  directory.write("data_batch_3.bin", "");
  CHECK_THAT(error(), Contains("data_batch_3.bin is empty"));
  std::filesystem::remove(directory.path() / "data_batch_3.bin");
  CHECK_THAT(error(), Contains("data_batch_3.bin") && Contains("No such file"));
}

}  // namespace trainctl::dataset::cifar_test
