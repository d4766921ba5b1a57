#include "dataset/image/cache/decoded_cache.h"

#include <ATen/ops/equal.h>
#include <sys/wait.h>

#include <csignal>

#include "core/file.h"
#include "dataset/dataset.h"
#include "dataset/image/cache/shared_memory.h"
#include "support/skip.h"
#include "support/small_files.h"

namespace trainctl::dataset::decoded_cache_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace fs = std::filesystem;

namespace {

Image numbered(std::int64_t height, std::int64_t width, std::uint64_t key) {
  Image image;
  image.resize(height, width);
  for (std::size_t i = 0; i < image.size(); ++i) image.bytes[i] = static_cast<std::uint8_t>(runtime::mix(key, i));
  return image;
}

CachedImage cached(const Image& image, std::int64_t label = 0, int eighths = 8) {
  return {.size = {image.height, image.width}, .eighths = eighths, .label = label, .pixels = image};
}

bool has(const DecodedCache& cache, std::uint64_t sample, const Image& image) {
  const auto found = cache.find(sample, 8);
  return found && found->pixels.height == image.height && found->pixels.width == image.width &&
         std::equal(image.pixels().begin(), image.pixels().end(), found->pixels.bytes);
}

/// Smooth, so that it is worth compressing, and different everywhere.
std::string photo(int number, std::int64_t height, std::int64_t width) {
  Image image;
  image.resize(height, width);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] =
            static_cast<std::uint8_t>(128 + 100 * std::sin(0.07 * static_cast<double>((c + 1) * x + 13 * number)) *
                                                std::cos(0.05 * static_cast<double>(y + number)));
  const std::vector<std::byte> bytes = encode_jpeg(image, 90);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr int kPhotos = 12;

/// A tree of photos; crops of some shrink enough to be decoded smaller.
DatasetConfig photos_in(const TemporaryDirectory& directory) {
  for (const char* name : {"ant", "bee"}) fs::create_directories(directory.path() / "train" / name);
  for (int i = 0; i < kPhotos; ++i)
    directory.write("train/" + std::string(i % 2 == 0 ? "ant/" : "bee/") + std::to_string(i) + ".jpg",
                    photo(i, 90 + 37 * (i % 5), 110 + 23 * (i % 7)));
  DatasetConfig config;
  config.source = ImageFolderConfig{.train = (directory.path() / "train").string(),
                                    .eval = std::nullopt,
                                    .eval_fraction = 0.25,
                                    .cache_dir = (directory.path() / "cache").string()};
  config.batch_size = 4;
  config.transforms = {RandomResizedCropConfig{.size = 48}, RandomHorizontalFlipConfig{}, NormalizeConfig{}};
  return config;
}

struct Epoch {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
};

Epoch take_epoch(Loader& loader) {
  Epoch epoch;
  while (const std::optional<Batch> batch = loader.next()) {
    epoch.inputs.push_back(batch->inputs.clone());
    epoch.targets.push_back(batch->targets.clone());
  }
  return epoch;
}

bool same(const Epoch& a, const Epoch& b) {
  const auto equal = [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); };
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), equal) &&
         std::equal(a.targets.begin(), a.targets.end(), b.targets.begin(), b.targets.end(), equal);
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  return names;
}

/// Runs `work` in a process of its own; it ends with 0 where `work` returns true.
template <class Work>
::pid_t in_process(const Work& work) {
  const ::pid_t pid = ::fork();
  if (pid != 0) return pid;
  try {
    ::_exit(work() ? 0 : 1);
  } catch (...) {
    ::_exit(2);
  }
}

int result_of(::pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Waits until a process has said so by making a file.
void wait_for(const fs::path& path) {
  for (int looks = 0; looks < 120'000 && !fs::exists(path); ++looks) ::usleep(1000);
  REQUIRE(fs::exists(path));
}
void say(const fs::path& path) {
  core::write_file_atomically(path, "");
}

}  // namespace

TEST_CASE("a cache gives back what was put in, by sample and scale, until it is full", "[dataset]") {
  const auto cache = make_decoded_cache(1 << 20);
  CHECK_FALSE(cache->find(1, 0));
  const Image image = numbered(20, 30, 1);
  const Image half = numbered(10, 15, 2);
  cache->admit(7, cached(image, 3));
  cache->admit(7, cached(half, 3, 4));
  CHECK(has(*cache, 7, image));
  CHECK(cache->find(7, 8)->label == 3);
  CHECK(cache->find(7, 4)->pixels.width == 15);
  CHECK(cache->find(7, 0));
  CHECK_FALSE(cache->find(7, 2));
  CHECK_FALSE(cache->find(8, 0));
  // 3,072 bytes each: no more than 341 fit.
  std::uint64_t admitted = 0;
  for (std::uint64_t i = 100; i < 1000; ++i) {
    const Image more = numbered(32, 32, i);
    if (cache->has_room(static_cast<std::int64_t>(more.size()))) ++admitted;
    cache->admit(i, cached(more));
  }
  CHECK(admitted > 300);
  CHECK(admitted < 342);
  for (std::uint64_t i = 100; i < 1000; ++i) CHECK(has(*cache, i, numbered(32, 32, i)) == (i < 100 + admitted));
  CHECK(has(*cache, 7, image));
  CHECK(cache->bytes_used() <= 1 << 20);
  CHECK(cache->has_room(100));
}

TEST_CASE("a cache changes no pixel, whatever its budget and the workers, and later epochs come from it", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos_in(directory);
  std::vector<Epoch> expected;
  const Datasets plain = build(config, {.seed = 5, .workers = 2});
  for (int epoch = 0; epoch < 6; ++epoch) expected.push_back(take_epoch(*plain.train));
  const Epoch expected_eval = take_epoch(*plain.eval);
  for (const std::int64_t workers : {0, 3}) {
    config.num_workers = workers;
    config.image_cache.size_mib = 64;
    const Datasets data = build(config, {.seed = 5});
    for (const Epoch& epoch : expected) CHECK(same(take_epoch(*data.train), epoch));
    for (int i = 0; i < 2; ++i) CHECK(same(take_epoch(*data.eval), expected_eval));
    const LoaderStats stats = data.train->take_stats();
    CHECK(stats.cache_hits > 2 * stats.cache_misses);  // each image is decoded once for each scale
    CHECK(stats.cache_bytes > 0);
    const std::int64_t eval_samples = data.eval->num_samples();
    const LoaderStats eval = data.eval->take_stats();
    CHECK(eval.cache_misses == eval_samples);
    CHECK(eval.cache_hits == eval_samples);
  }
}

TEST_CASE("with room for some images only, these are hit and the others are decoded", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos_in(directory);
  std::get<ImageFolderConfig>(config.source.value).eval_fraction = 0;
  // Photos of 600×700 at full size (evaluation's transforms don't scale): 1.26 MB each.
  for (int i = 0; i < kPhotos; ++i) directory.write("train/ant/large" + std::to_string(i) + ".jpg", photo(i, 600, 700));
  config.transforms = {ResizeConfig{.size = 500, .width = 500}};
  config.image_cache.size_mib = 5;
  const Datasets small = build(config, {.seed = 5});
  config.image_cache.size_mib = 0;
  const Datasets none = build(config, {.seed = 5});
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(same(take_epoch(*small.train), take_epoch(*none.train)));
  const LoaderStats stats = small.train->take_stats();
  CHECK(stats.cache_hits > 0);
  CHECK(stats.cache_misses > stats.cache_hits / 4);
  CHECK(stats.cache_bytes <= 5 << 20);
}

TEST_CASE("a sample in the cache needs its file no more", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos_in(directory);
  std::get<ImageFolderConfig>(config.source.value).eval_fraction = 0;
  config.transforms = {ResizeConfig{.size = 140, .width = 150}};  // one scale for all
  config.image_cache.size_mib = 64;
  config.num_workers = 0;
  const Datasets data = build(config, {});
  take_epoch(*data.train);
  fs::remove_all(directory.path() / "train");
  CHECK(take_epoch(*data.train).inputs.size() == kPhotos / 4);
}

TEST_CASE("a cache is refused where there is nothing to decode or no such memory", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config;
  config.source = SyntheticImagesConfig{};
  config.image_cache.size_mib = 10;
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("synthetic_images has nothing to decode"));
  DatasetConfig photos = photos_in(directory);
  photos.image_cache.size_mib = 1 << 24;
  CHECK_THAT(error_of([&] { build(photos, {}); }), Contains("more than this machine's memory"));
}

TEST_CASE("processes share one cache; one that is killed leaves it whole, and the last takes it along", "[dataset]") {
  const TemporaryDirectory memory;
  const TemporaryDirectory signs;
  const SharedCacheOptions options{
      .key = "cache-test", .budget_bytes = 8 << 20, .participants = 5, .directory = memory.path().string()};
  const auto image_of = [](std::uint64_t sample) { return numbered(40, 50, sample); };
  // Two writers of other samples; the second never stops writing until it is killed.
  const ::pid_t writer = in_process([&] {
    const auto cache = make_shared_cache(options);
    for (std::uint64_t i = 0; i < 200; ++i) cache->admit(i, cached(image_of(i)));
    say(signs.path() / "written");
    wait_for(signs.path() / "end");
    return true;
  });
  const ::pid_t victim = in_process([&] {
    const auto cache = make_shared_cache(options);
    for (std::uint64_t i = 1000;; ++i) {
      cache->admit(1000 + i % 500, cached(image_of(1000 + i % 500)));
      if (i == 1050) say(signs.path() / "busy");
    }
    return true;
  });
  wait_for(signs.path() / "written");
  wait_for(signs.path() / "busy");
  ::kill(victim, SIGKILL);
  CHECK(result_of(victim) == -SIGKILL);
  const ::pid_t reader = in_process([&] {
    const auto cache = make_shared_cache(options);
    for (std::uint64_t i = 0; i < 200; ++i)
      if (!has(*cache, i, image_of(i))) return false;
    for (std::uint64_t i = 1000; i < 1500; ++i)
      if (cache->find(i, 8) && !has(*cache, i, image_of(i))) return false;
    cache->admit(5000, cached(image_of(5000)));
    return cache->find(1000, 8).has_value();
  });
  CHECK(result_of(reader) == 0);
  CHECK(names_in(memory.path()).size() == 1);
  say(signs.path() / "end");
  CHECK(result_of(writer) == 0);
  CHECK(names_in(memory.path()).empty());
}

TEST_CASE("shared memory has no name any more when all have come, so killing them all leaves nothing", "[dataset]") {
  const TemporaryDirectory memory;
  const TemporaryDirectory signs;
  const SharedCacheOptions options{
      .key = "cache-test", .budget_bytes = 1 << 20, .participants = 2, .directory = memory.path().string()};
  std::vector<::pid_t> processes;
  for (int i = 0; i < 2; ++i) {
    const std::string mine = "come" + std::to_string(i);
    processes.push_back(in_process([&] {
      const auto cache = make_shared_cache(options);
      say(signs.path() / mine);
      ::pause();
      return true;
    }));
    wait_for(signs.path() / mine);
    CHECK(names_in(memory.path()).size() == (i == 0 ? 1 : 0));
  }
  for (const ::pid_t pid : processes) ::kill(pid, SIGKILL);
  for (const ::pid_t pid : processes) CHECK(result_of(pid) == -SIGKILL);
}

TEST_CASE("what programs that were killed whole left behind goes when the next one looks", "[dataset]") {
  const TemporaryDirectory memory;
  const TemporaryDirectory signs;
  const auto options = [&](const std::string& key) {
    return SharedCacheOptions{
        .key = key, .budget_bytes = 1 << 20, .participants = 9, .directory = memory.path().string()};
  };
  const ::pid_t victim = in_process([&] {
    const auto cache = make_shared_cache(options("cache-one"));
    say(signs.path() / "come");
    ::pause();
    return true;
  });
  wait_for(signs.path() / "come");
  const auto other = make_shared_cache(options("cache-two"));
  CHECK(names_in(memory.path()).size() == 2);  // it is in use
  ::kill(victim, SIGKILL);
  CHECK(result_of(victim) == -SIGKILL);
  const auto third = make_shared_cache(options("cache-three"));
  CHECK(names_in(memory.path()).size() == 2);
}

TEST_CASE("a full file system ends a shared cache's growth, without a bus error", "[dataset]") {
  if (free_bytes("/dev/shm") == 0) testing::skip("there is no /dev/shm");
  // More than it can ever have: the kernel refuses at once, and takes no room from other programs.
  const std::size_t budget = 2 * fs::space("/dev/shm").capacity;
  SharedMemory memory({.name = "test-" + std::to_string(::getpid()), .bytes = budget, .participants = 1});
  CHECK(memory.reserve(0, 1 << 20));
  CHECK_FALSE(memory.reserve(1 << 20, budget - (1 << 20)));
  memory.data()[0] = std::byte{1};
}

TEST_CASE("ranks that share a cache decode each sample once", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = photos_in(directory);
  std::get<ImageFolderConfig>(config.source.value).eval_fraction = 0;
  config.transforms = {ResizeConfig{.size = 140, .width = 150}};
  config.batch_size = kPhotos / 2;
  config.image_cache.size_mib = 16;
  config.image_cache.shared = true;
  config.num_workers = 1;
  config.shuffle = true;
  const auto loader_of = [&](std::int64_t rank) {
    return build(config, {.seed = 3, .local_ranks = 2, .share = {.rank = rank, .world = 2}});
  };
  const Datasets first = loader_of(0);
  const Datasets second = loader_of(1);
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    take_epoch(*first.train), take_epoch(*second.train);
    for (Loader* loader : {first.train.get(), second.train.get()}) {
      const LoaderStats stats = loader->take_stats();
      hits += stats.cache_hits, misses += stats.cache_misses;
    }
  }
  // Workers may run ahead into the next epoch, and decode what another rank is decoding.
  CHECK(misses < 2 * kPhotos);
  CHECK(hits >= kPhotos);
}

}  // namespace trainctl::dataset::decoded_cache_test
