#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "data_tools/inspect_rows.h"
#include "dataset/image/codec/decode.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOpened = 300;
constexpr std::array kTrainNames = {"train", "training"};
constexpr std::array kEvalNames = {"val", "valid", "validation", "eval", "dev", "test"};

bool is_image(const fs::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".webp";
}

template <std::size_t Count>
std::optional<fs::path> part_of(const fs::path& directory, const std::array<const char*, Count>& names) {
  for (const char* name : names)
    if (fs::is_directory(directory / name)) return directory / name;
  return std::nullopt;
}

/// Returns the images of each class, by the name of its folder.
std::map<std::string, std::vector<fs::path>> images_by_class(const fs::path& directory) {
  std::map<std::string, std::vector<fs::path>> classes;
  for (const fs::directory_entry& folder : fs::directory_iterator(directory)) {
    if (!folder.is_directory() || folder.path().filename().string().starts_with('.')) continue;
    std::vector<fs::path> images;
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(folder))
      if (file.is_regular_file() && is_image(file.path())) images.push_back(file.path());
    if (!images.empty()) classes[folder.path().filename().string()] = std::move(images);
  }
  return classes;
}

std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Opens some of the images, evenly spread, for their sizes.
void look_at_sizes(const std::vector<fs::path>& images, SeenImages& seen) {
  std::vector<std::int64_t> widths;
  std::vector<std::int64_t> heights;
  const std::size_t stride = images.size() / kMostOpened + 1;
  for (std::size_t i = 0; i < images.size(); i += stride) {
    ++seen.num_looked_at;
    try {
      const std::string content = core::read_file(images[i]);
      const std::span<const char> bytes(content.data(), content.size());
      const dataset::ImageInfo info = dataset::probe({.bytes = std::as_bytes(bytes), .name = images[i].string()});
      widths.push_back(info.width);
      heights.push_back(info.height);
    } catch (const core::Error&) {
      ++seen.num_damaged;
    }
  }
  seen.median_width = median(std::move(widths));
  seen.median_height = median(std::move(heights));
}

}  // namespace

SeenImages inspect_images(const fs::path& directory, const InspectOptions& options) {
  SeenImages seen{.train = "", .eval = std::nullopt, .classes = {}};
  const std::optional<fs::path> train = part_of(directory, kTrainNames);
  seen.train = train.value_or(directory).string();
  if (!options.eval.empty())
    seen.eval = options.eval;
  else if (train)
    if (const std::optional<fs::path> eval = part_of(directory, kEvalNames)) seen.eval = eval->string();
  const std::map<std::string, std::vector<fs::path>> classes = images_by_class(seen.train);
  std::vector<fs::path> all;
  for (const auto& [name, images] : classes) {
    seen.classes.emplace_back(name, static_cast<std::int64_t>(images.size()));
    all.insert(all.end(), images.begin(), images.end());
  }
  std::stable_sort(seen.classes.begin(), seen.classes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  seen.num_images = static_cast<std::int64_t>(all.size());
  look_at_sizes(all, seen);
  return seen;
}

}  // namespace trainctl::data_tools
