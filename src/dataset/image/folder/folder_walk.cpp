#include "dataset/image/folder/folder_walk.h"

#include <sys/stat.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "dataset/files/directory_walk.h"
#include "dataset/image/folder/folder_index.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

class Walker {
 public:
  explicit Walker(const FolderRequest& request) : request_(request) {}

  FolderWalk walk() {
    const FolderEntries top = list_top();
    add_folder("", -1);
    for (const std::string& name : top.folders) {
      const std::size_t before = walk_.file_ends.size();
      if (request_.classes == ClassFrom::top_folder) walk_.classes.push_back(name);
      walk_folders(request_.directory, name,
                   [&](const std::string& folder, const FolderEntries& entries) { visit(folder, entries); });
      if (request_.classes == ClassFrom::top_folder && walk_.file_ends.size() == before)
        throw core::Error("class folder " + (request_.directory / name).string() + " has no images (" + endings() + ")")
            .hint("remove it, or name its files' endings in dataset.extensions");
    }
    if (!walk_.file_ends.empty()) return std::move(walk_);
    core::Error error("no images (" + endings() + ") in folders of " + request_.directory.string());
    if (std::any_of(top.files.begin(), top.files.end(), [&](const std::string& name) { return is_image(name); }))
      error.hint("images lie in the directory itself; put each class into a folder of its own");
    throw error;
  }

 private:
  std::string endings() const {
    std::vector<std::string> shown;
    for (const std::string& extension : request_.extensions)
      shown.push_back((extension.starts_with('.') ? "" : ".") + extension);
    return core::list_words(shown, "or");
  }

  bool is_image(const std::string& name) const { return has_ending(name, request_.extensions); }

  FolderEntries list_top() const {
    try {
      return list_folder(request_.directory);
    } catch (core::Error& error) {
      throw std::move(error.hint("dataset.train and dataset.eval name directories with a folder for each class"));
    }
  }

  void add_folder(const std::string& path, std::int32_t label) {
    walk_.folders.push_back({path, changed_ns(request_.directory / path), label});
  }

  void visit(const std::string& folder, const FolderEntries& entries) {
    std::vector<std::string> images;
    for (const std::string& name : entries.files)
      if (is_image(name)) images.push_back(name);
    if (request_.classes == ClassFrom::full_path && !images.empty()) walk_.classes.push_back(folder);
    add_folder(folder, images.empty() ? -1 : static_cast<std::int32_t>(walk_.classes.size() - 1));
    const auto number = static_cast<std::uint32_t>(walk_.folders.size() - 1);
    for (const std::string& name : images) {
      walk_.file_names += name;
      walk_.file_ends.push_back(walk_.file_names.size());
      walk_.file_folders.push_back(number);
    }
    walk_.num_others += std::ssize(entries.files) - std::ssize(images);
  }

  const FolderRequest& request_;
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
