// What decoding and resizing JPEGs costs by itself: libjpeg-turbo on whole images and the crop's resize, on N threads,
// with nothing else. One JSON line.
//   decode_floor ROOT THREADS SECONDS
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/file.h"
#include "dataset/image/transform/crop_resize.h"

using namespace trainctl;

namespace {

using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  struct rusage self {};
  ::getrusage(RUSAGE_SELF, &self);
  return static_cast<double>(self.ru_utime.tv_sec + self.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(self.ru_utime.tv_usec + self.ru_stime.tv_usec);
}

void decode_and_resize(const std::string& path, std::uint64_t number) {
  thread_local dataset::Decoder decoder;
  thread_local dataset::Resampler resampler;
  thread_local dataset::Image whole;
  thread_local dataset::Image small;
  const std::string bytes = core::read_file(path);
  const dataset::ImageInfo info = decoder.open({std::as_bytes(std::span(bytes)), path});
  decoder.read({.region = {.height = info.height, .width = info.width}}, whole);
  runtime::Random random(number);
  const dataset::Region crop = dataset::draw_crop({}, {info.height, info.width}, random);
  const dataset::Box box{static_cast<double>(crop.top), static_cast<double>(crop.left),
                         static_cast<double>(crop.height), static_cast<double>(crop.width)};
  dataset::resample(whole, {box, 224, 224, {.height = 224, .width = 224}}, resampler, small);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "decode_floor ROOT THREADS SECONDS\n"), 2;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1]))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  std::atomic<std::uint64_t> next{0};
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(std::atof(argv[3]));
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(argv[2]); ++i)
    threads.emplace_back([&] {
      while (Clock::now() < end) {
        const std::uint64_t number = next++;
        decode_and_resize(files[runtime::mix(number) % files.size()], number);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const auto images = static_cast<double>(next);
  std::printf("{\"samples_per_s\": %f, \"cpu_s_per_1k\": %f}\n", images / seconds, 1000 * cpu_seconds() / images);
}
