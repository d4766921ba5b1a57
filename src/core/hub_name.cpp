#include "core/hub_name.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace trainctl::core {
namespace {

std::string problem(const std::string& path) {
  const std::string nothing = "there is no file or directory " + path;
  return is_hub_name(path) ? nothing + "; expected a local path, since trainctl downloads nothing" : nothing;
}

/// Returns what to do about a name of the hub; "" for other paths.
std::string advice(const std::string& path) {
  if (!is_hub_name(path)) return "";
  const std::string directory = path.substr(path.rfind('/') + 1);
  return "`hf download " + path + " --local-dir " + directory + "` downloads the model " + path +
         " from the Hugging Face Hub; then give the directory " + directory;
}

}  // namespace

bool is_hub_name(std::string_view path) {
  constexpr std::array<std::string_view, 6> kFiles = {".safetensors", ".pth", ".pt", ".bin", ".onnx", ".ckpt"};
  constexpr std::size_t kLongest = 96;  // the hub's limit for each part
  const auto ends = [&](std::string_view ending) { return path.ends_with(ending); };
  if (std::any_of(kFiles.begin(), kFiles.end(), ends) || std::count(path.begin(), path.end(), '/') > 1) return false;
  const std::size_t slash = path.find('/');
  const auto is_part = [](std::string_view part) {
    const auto is_allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
    return !part.empty() && part.size() <= kLongest && part.front() != '.' && part.front() != '-' &&
           std::all_of(part.begin(), part.end(), is_allowed);
  };
  return slash == std::string_view::npos ? is_part(path)
                                         : is_part(path.substr(0, slash)) && is_part(path.substr(slash + 1));
}

std::string missing_weights(const std::string& path) {
  const std::string what = advice(path);
  return what.empty() ? problem(path) : problem(path) + "; try: " + what;
}

Error missing_weights_error(const std::string& path) {
  Error error(problem(path));
  if (const std::string what = advice(path); !what.empty()) error.hint(what);
  return error;
}

}  // namespace trainctl::core
