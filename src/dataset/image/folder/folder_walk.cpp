#include "dataset/image/folder/folder_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/text.h"
#include "dataset/image/folder/folder_index.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 64;  // a link that leads upwards ends here

struct Entries {
  std::vector<std::string> folders;  // sorted
  std::vector<std::string> images;   // sorted
  std::int64_t num_others = 0;
};

class Walker {
 public:
  explicit Walker(const FolderRequest& request) : request_(request) {
    for (const std::string& extension : request.extensions)
      extensions_.push_back((extension.starts_with('.') ? "" : ".") + lower(extension));
  }

  FolderWalk walk() {
    const Entries top = list("");
    add_folder("", -1);
    for (const std::string& name : top.folders) {
      const std::size_t before = walk_.file_ends.size();
      if (request_.classes == ClassFrom::top_folder) walk_.classes.push_back(name);
      descend(name, 1);
      if (request_.classes == ClassFrom::top_folder && walk_.file_ends.size() == before)
        throw core::Error("class folder " + (request_.directory / name).string() + " has no images (" + endings() + ")")
            .hint("remove it, or name its files' endings in dataset.extensions");
    }
    if (!walk_.file_ends.empty()) return std::move(walk_);
    core::Error error("no images (" + endings() + ") in folders of " + request_.directory.string());
    if (!top.images.empty()) error.hint("images lie in the directory itself; put each class into a folder of its own");
    throw error;
  }

 private:
  static std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  }

  std::string endings() const { return core::list_words(extensions_, "or"); }

  bool is_image(const std::string& name) const {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    return std::find(extensions_.begin(), extensions_.end(), lower(name.substr(dot))) != extensions_.end();
  }

  /// Lists a folder, without hidden entries (a dot in front).
  Entries list(const std::string& folder) const {
    const fs::path path = request_.directory / folder;
    Entries entries;
    try {
      for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
        std::string name = entry.path().filename().string();
        if (name.starts_with('.')) continue;
        if (entry.is_directory())
          entries.folders.push_back(std::move(name));
        else if (is_image(name))
          entries.images.push_back(std::move(name));
        else
          ++entries.num_others;
      }
    } catch (const fs::filesystem_error& error) {
      throw core::Error("cannot list " + path.string() + ": " + error.code().message())
          .hint("dataset.train and dataset.eval name directories with a folder for each class");
    }
    std::sort(entries.folders.begin(), entries.folders.end());
    std::sort(entries.images.begin(), entries.images.end());
    return entries;
  }

  void add_folder(const std::string& path, std::int32_t label) {
    walk_.folders.push_back({path, changed_ns(request_.directory / path), label});
  }

  void descend(const std::string& folder, int depth) {
    if (depth > kDeepest)
      throw core::Error("folders in " + request_.directory.string() + " lie more than " + std::to_string(kDeepest) +
                        " deep; does a link lead upwards? " + folder);
    const Entries entries = list(folder);
    if (request_.classes == ClassFrom::full_path && !entries.images.empty()) walk_.classes.push_back(folder);
    add_folder(folder, entries.images.empty() ? -1 : static_cast<std::int32_t>(walk_.classes.size() - 1));
    const auto number = static_cast<std::uint32_t>(walk_.folders.size() - 1);
    for (const std::string& name : entries.images) {
      walk_.file_names += name;
      walk_.file_ends.push_back(walk_.file_names.size());
      walk_.file_folders.push_back(number);
    }
    walk_.num_others += entries.num_others;
    for (const std::string& name : entries.folders) descend(folder + '/' + name, depth + 1);
  }

  const FolderRequest& request_;
  std::vector<std::string> extensions_;
  FolderWalk walk_;
};

}  // namespace

std::string FolderWalk::path(std::size_t file) const {
  const std::uint64_t begin = file == 0 ? 0 : file_ends[file - 1];
  const std::string& folder = folders[file_folders[file]].path;
  return (folder.empty() ? "" : folder + '/') + file_names.substr(begin, file_ends[file] - begin);
}

FolderWalk walk_folder(const FolderRequest& request) {
  return Walker(request).walk();
}

std::int64_t changed_ns(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return -1;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace trainctl::dataset
