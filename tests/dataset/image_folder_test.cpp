#include <ATen/ops/equal.h>

#include <algorithm>
#include <set>

#include "core/file.h"
#include "dataset/dataset.h"
#include "dataset/image/folder/folder_index.h"
#include "dataset/loader/bad_samples.h"
#include "dataset/small_images.h"
#include "support/small_files.h"

namespace trainctl::dataset::image_folder_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace fs = std::filesystem;

namespace {

/// ROOT/{ant,bee,cat}/n.jpg; `count` images, each of a size and a level of its own.
void make_tree(const TemporaryDirectory& directory, const std::string& root, int count) {
  for (const char* name : {"ant", "bee", "cat"}) fs::create_directories(directory.path() / root / name);
  const std::vector<std::string> names = {"ant", "bee", "cat"};
  for (int i = 0; i < count; ++i)
    directory.write(root + "/" + names[static_cast<std::size_t>(i % 3)] + "/" + std::to_string(1000 + i) + ".jpg",
                    jpeg(2 * i, 20 + i % 7, 30 - i % 5));
}

DatasetConfig config_of(const TemporaryDirectory& directory) {
  DatasetConfig config;
  config.source = ImageFolderConfig{.train = (directory.path() / "train").string(),
                                    .eval = std::nullopt,
                                    .cache_dir = (directory.path() / "cache").string()};
  config.batch_size = 7;
  config.transforms = {ResizeConfig{.size = 8, .width = 6}};
  return config;
}

ImageFolderConfig& folder(DatasetConfig& config) {
  return std::get<ImageFolderConfig>(config.source.value);
}

/// Label and level (of its even image) of each sample of an epoch, in the order in which they come.
std::vector<std::pair<std::int64_t, int>> epoch_of(Loader& loader) {
  std::vector<std::pair<std::int64_t, int>> samples;
  while (const std::optional<Batch> batch = loader.next())
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const float value = batch->inputs.const_data_ptr<float>()[i * 8 * 6 * 3];
      samples.emplace_back(batch->targets.const_data_ptr<std::int64_t>()[i], static_cast<int>(value * 255 + 0.5F));
    }
  return samples;
}

}  // namespace

TEST_CASE("a folder of images is classes by folder, all images once an epoch", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 40);
  const Datasets data = build(config_of(directory), {.seed = 3, .workers = 3});
  CHECK(data.train->num_samples() == 40);
  CHECK(data.train->spec().class_names == std::vector<std::string>{"ant", "bee", "cat"});
  CHECK(data.train->spec().num_classes == 3);
  CHECK(data.train->spec().input_shape == std::vector<std::int64_t>{3, 8, 6});
  CHECK(data.eval == nullptr);
  const auto samples = epoch_of(*data.train);
  std::set<int> levels;
  for (const auto& [label, level] : samples) {
    CHECK(label == level / 2 % 3);
    levels.insert(level);
  }
  CHECK(samples.size() == 40);
  CHECK(levels.size() == 40);
}

TEST_CASE("random crops and colours are the same for any number of workers", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 30);
  DatasetConfig config = config_of(directory);
  config.transforms = {RandomResizedCropConfig{.size = 8, .width = 6}, RandomHorizontalFlipConfig{},
                       ColorJitterConfig{.brightness = 0.4, .hue = 0.1}, RandAugmentConfig{}, NormalizeConfig{}};
  std::vector<std::vector<std::pair<std::int64_t, int>>> epochs;
  for (const std::int64_t workers : {0, 1, 5}) {
    config.num_workers = workers;
    epochs.push_back(epoch_of(*build(config, {.seed = 9}).train));
  }
  CHECK(epochs[0] == epochs[1]);
  CHECK(epochs[0] == epochs[2]);
}

TEST_CASE("evaluation resizes and crops the middle where training crops at random", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 9);
  make_tree(directory, "eval", 6);
  DatasetConfig config = config_of(directory);
  folder(config).eval = (directory.path() / "eval").string();
  config.transforms = {RandomResizedCropConfig{.size = 8, .width = 6}, NormalizeConfig{}};
  const Datasets data = build(config, {});
  CHECK(data.eval->num_samples() == 6);
  CHECK(data.eval->spec().input_shape == data.train->spec().input_shape);
  CHECK(epoch_of(*data.eval) == epoch_of(*data.eval));
  config.eval_transforms = {{CenterCropConfig{.size = 9}}};
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("images are 3×8×6 in training, but 3×9×9 in evaluation"));
  config.transforms = {RandomHorizontalFlipConfig{}};
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("leave images of different sizes"));
}

TEST_CASE("the kept share for evaluation stays the same when images are added", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 60);
  DatasetConfig config = config_of(directory);
  folder(config).eval_fraction = 0.3;
  const auto levels_of = [](Loader& loader) {
    std::set<int> levels;
    for (const auto& [label, level] : epoch_of(loader)) levels.insert(level);
    return levels;
  };
  const Datasets before = build(config, {});
  const std::set<int> kept = levels_of(*before.eval);
  CHECK((kept.size() > 8 && kept.size() < 30));
  CHECK(before.train->num_samples() + before.eval->num_samples() == 60);
  make_tree(directory, "train", 100);
  const std::set<int> now = levels_of(*build(config, {}).eval);
  CHECK(now.size() > kept.size());
  CHECK(std::includes(now.begin(), now.end(), kept.begin(), kept.end()));
}

TEST_CASE("a folder's test images are read for tests alone", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 60);
  make_tree(directory, "test", 9);
  DatasetConfig config = config_of(directory);
  folder(config).test = (directory.path() / "test").string();
  CHECK(build(config, {}).eval == nullptr);
  const Datasets tests = build(config, {.evaluated = EvaluatedSet::test});
  CHECK(tests.eval->num_samples() == 9);
  CHECK(tests.train->num_samples() == 60);
  fs::remove_all(directory.path() / "test");
  CHECK_NOTHROW(build(config, {}));

  folder(config).test = std::nullopt;
  folder(config).test_fraction = 0.2;
  config.fold = FoldConfig{.count = 3, .index = 1};
  const Datasets fold = build(config, {});
  const Datasets held_out = build(config, {.evaluated = EvaluatedSet::test});
  CHECK(fold.train->num_samples() + fold.eval->num_samples() + held_out.eval->num_samples() == 60);
  const std::int64_t others = 60 - held_out.eval->num_samples();
  CHECK((fold.eval->num_samples() == others / 3 || fold.eval->num_samples() == others / 3 + 1));
}

TEST_CASE("the list of files is kept, and made anew when a folder changes", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 12);
  int searches = 0;
  const auto size = [&](ClassFrom classes = ClassFrom::top_folder) {
    return open_folder({directory.path() / "train", classes, {"jpg"}, directory.path() / "cache"},
                       [&](const std::string&) { ++searches; })
        .size();
  };
  CHECK(size() == 12);
  CHECK(size() == 12);
  CHECK(searches == 1);
  directory.write("train/cat/new.JPG", jpeg(1));
  CHECK(size() == 13);
  CHECK(searches == 2);
  CHECK(size(ClassFrom::full_path) == 13);
  CHECK(searches == 3);
  for (const auto& entry : fs::directory_iterator(directory.path() / "cache")) {
    const std::string bytes = core::read_file(entry.path());
    for (const std::size_t kept : {0UL, 7UL, 80UL, bytes.size() / 2, bytes.size() - 1}) {
      core::write_file_atomically(entry.path(), bytes.substr(0, kept));
      CHECK(size() == 13);
    }
  }
}

TEST_CASE("files with other endings are counted, by every run", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 12);
  const auto heard = [&] {
    std::string last;
    open_folder({directory.path() / "train", ClassFrom::top_folder, {"jpg", "png"}, directory.path() / "cache"},
                [&](const std::string& text) { last = text; });
    return last;
  };
  CHECK_THAT(heard(), Contains("looking through"));
  CHECK(heard().empty());
  directory.write("train/cat/notes.txt", {});
  for (int run = 0; run < 2; ++run)
    CHECK_THAT(heard(), Contains("train: 1 file ends otherwise than jpg or png and is passed over"));
  directory.write("train/bee/a.gif", {});
  CHECK_THAT(heard(), Contains("2 files end otherwise than jpg or png and are passed over"));
}

TEST_CASE("classes may be paths, and images may lie deep in a class", "[dataset]") {
  const TemporaryDirectory directory;
  for (const char* name : {"train/a/x", "train/a/y", "train/b/.hidden"})
    fs::create_directories(directory.path() / name);
  for (const char* name : {"train/a/x/1.jpg", "train/a/y/2.jpg", "train/b/3.jpg", "train/b/notes.txt", "train/b/.4.jpg",
                           "train/b/.hidden/5.jpg"})
    directory.write(name, jpeg(5));
  const auto names = [&](ClassFrom classes) {
    const FolderIndex index =
        open_folder({directory.path() / "train", classes, {"jpg"}, directory.path() / "cache"}, nullptr);
    CHECK(index.size() == 3);
    CHECK(index.path(0) == "a/x/1.jpg");
    CHECK(index.path(2) == "b/3.jpg");
    return index.classes();
  };
  CHECK(names(ClassFrom::top_folder) == std::vector<std::string>{"a", "b"});
  CHECK(names(ClassFrom::full_path) == std::vector<std::string>{"a/x", "a/y", "b"});
}

TEST_CASE("folders that can't be meant are refused with their names", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = config_of(directory);
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("cannot list " + folder(config).train));
  fs::create_directories(directory.path() / "train");
  directory.write("train/loose.jpg", jpeg(1));
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("no images (.jpg, .jpeg, .png or .webp) in folders of"));
  make_tree(directory, "train", 6);
  fs::create_directories(directory.path() / "train/dog");
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("train/dog has no images"));
  fs::remove(directory.path() / "train/dog");
  make_tree(directory, "eval", 6);
  fs::create_directories(directory.path() / "eval/emu");
  directory.write("eval/emu/1.jpg", jpeg(1));
  folder(config).eval = (directory.path() / "eval").string();
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("class 'emu' of"));
}

TEST_CASE("bad samples fail, are skipped or replaced, up to a ceiling", "[dataset]") {
  const TemporaryDirectory directory;
  make_tree(directory, "train", 30);
  directory.write("train/ant/1003.jpg", jpeg(6).substr(0, 200));
  directory.write("train/bee/1004.jpg", "GIF89a");
  fs::remove(directory.path() / "train/cat/1005.jpg");
  fs::create_symlink("nowhere", directory.path() / "train/cat/1005.jpg");
  DatasetConfig config = config_of(directory);
  config.num_workers = 2;
  CHECK_THAT(error_of([&] { epoch_of(*build(config, {}).train); }), Contains("train/"));
  config.on_bad_sample = OnBadSample::skip;
  const Datasets skipping = build(config, {.seed = 4});
  const auto kept = epoch_of(*skipping.train);
  const std::int64_t bad = skipping.bad_samples->count();
  CHECK(bad >= 2);  // a dangling link isn't listed at all
  CHECK(static_cast<std::int64_t>(kept.size()) == skipping.train->num_samples() - bad);
  for (const auto& [label, level] : kept) CHECK(label == level / 2 % 3);
  const auto reports = skipping.bad_samples->take();
  CHECK(static_cast<std::int64_t>(reports.size()) == bad);
  CHECK(std::any_of(reports.begin(), reports.end(), [](const BadSampleReport& report) {
    return report.what.find("ant/1003.jpg: ") != std::string::npos;
  }));
  CHECK(epoch_of(*skipping.train).size() == kept.size());
  CHECK(skipping.bad_samples->take().empty());
  config.on_bad_sample = OnBadSample::replace;
  const Datasets replacing = build(config, {.seed = 4});
  CHECK(static_cast<std::int64_t>(epoch_of(*replacing.train).size()) == replacing.train->num_samples());
  config.num_workers = 0;
  CHECK(epoch_of(*build(config, {.seed = 4}).train).size() == 30 - (replacing.train->num_samples() == 29 ? 1 : 0));
  config.max_bad_samples = 1;
  CHECK_THAT(error_of([&] { epoch_of(*build(config, {}).train); }), Contains("more than 1 samples are bad"));
}

}  // namespace trainctl::dataset::image_folder_test
