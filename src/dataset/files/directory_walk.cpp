#include "dataset/files/directory_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDeepest = 64;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

class DirectoryWalker {
 public:
  DirectoryWalker(const fs::path& directory, const VisitFolder& visit) : directory_(directory), visit_(visit) {}

  void walk(const std::string& folder) {
    const fs::path path = folder.empty() ? directory_ : directory_ / folder;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw core::system_error("list", path.string());
    const std::pair identity(status.st_dev, status.st_ino);
    if (std::find(around_.begin(), around_.end(), identity) != around_.end())
      throw core::Error(path.string() + " is a link to a folder that it lies in").hint("remove the link");
    if (around_.size() > kDeepest)
      throw core::Error(path.string() + " lies more than " + std::to_string(kDeepest) + " folders deep in " +
                        directory_.string());
    around_.push_back(identity);
    const FolderEntries entries = list_folder(path);
    visit_(folder, entries);
    for (const std::string& name : entries.folders) walk(folder.empty() ? name : folder + '/' + name);
    around_.pop_back();
  }

 private:
  const fs::path& directory_;
  const VisitFolder& visit_;
  std::vector<std::pair<dev_t, ino_t>> around_;  // the folders around the one that is visited
};

}  // namespace

FolderEntries list_folder(const fs::path& folder) {
  FolderEntries entries;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem); !problem && entry != fs::directory_iterator();
       entry.increment(problem)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code leads_nowhere;
    (entry->is_directory(leads_nowhere) ? entries.folders : entries.files).push_back(std::move(name));
  }
  if (problem) throw core::Error("cannot list " + folder.string() + ": " + problem.message());
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

void walk_folders(const fs::path& directory, const std::string& folder, const VisitFolder& visit) {
  DirectoryWalker(directory, visit).walk(folder);
}

bool has_ending(std::string_view name, std::span<const std::string> endings) {
  const std::string own = lower(name);
  return std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) {
    const std::string wanted = (ending.starts_with('.') ? "" : ".") + lower(ending);
    return own.size() > wanted.size() && own.ends_with(wanted);
  });
}

std::vector<fs::path> files_below(const fs::path& directory, std::span<const std::string> endings) {
  std::vector<fs::path> files;
  walk_folders(directory, "", [&](const std::string& folder, const FolderEntries& entries) {
    for (const std::string& name : entries.files)
      if (endings.empty() || has_ending(name, endings)) files.push_back(directory / folder / name);
  });
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace trainctl::dataset
