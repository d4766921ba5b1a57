#include "machine/libraries.h"

#include <link.h>

#include <array>
#include <string_view>
#include <utility>

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

struct Search {
  const std::string& name;
  fs::path found;
};

int compare_with_library(dl_phdr_info* info, std::size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  fs::path path = info->dlpi_name;
  if (!path.filename().string().starts_with(search.name)) return 0;
  search.found = std::move(path);
  return 1;
}

/// Debian 12's package of each library that trainctl links, by the prefix of the library's file name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kPackages{{
    {"libgomp", "libgomp1"},
    {"libstdc++", "libstdc++6"},
    {"libjpeg", "libjpeg62-turbo"},
    {"libpng16", "libpng16-16"},
    {"libz.", "zlib1g"},
    {"libwebp", "libwebp7"},
    {"libicu", "libicu72"},
    {"libsentencepiece", "libsentencepiece0"},
    {"libyaml-cpp", "libyaml-cpp0.7"},
    {"libmpi", "libopenmpi3"},
    {"libcuda.", "libcuda1"},
}};

}  // namespace

fs::path loaded_library(const std::string& name) {
  Search search{name, {}};
  ::dl_iterate_phdr(compare_with_library, &search);
  return search.found;
}

std::string missing_library(const std::string& loader_error) {
  const auto end = loader_error.find(": cannot open shared object file");
  if (end == std::string::npos) return "";
  const auto begin = loader_error.find_last_of(" /", end - 1);
  return loader_error.substr(begin == std::string::npos ? 0 : begin + 1,
                             end - (begin == std::string::npos ? 0 : begin + 1));
}

std::string line_that_gets(const std::string& library) {
  for (const auto& [beginning, package] : kPackages)
    if (library.starts_with(beginning)) return "apt-get install " + std::string(package);
  if (library.starts_with("libtrainctl_"))
    return "install trainctl again, whole: bin/trainctl looks for its libraries in lib/ beside bin/";
  return "pip install torch==2.11.0 beside the wheel of trainctl, scripts/setup.sh in a source tree, or "
         "TRAINCTL_LIBTORCH=/path/to/libtorch (the directory with lib/)";
}

}  // namespace trainctl::machine
