// The list of the images below a directory, kept in a file that the next run maps into memory: ten million names take
// what their characters take, and no time to read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"
#include "dataset/config.h"
#include "dataset/image/folder/folder_change_detector.h"

namespace trainctl::dataset {

/// Images in the order of their class's name, then of their paths. Immutable; any thread may ask.
class FolderIndex {
 public:
  std::int64_t size() const { return header().num_files; }
  /// Files in the folders of classes whose endings are others, so that they aren't images of this dataset.
  std::int64_t num_others() const { return header().num_others; }
  /// Names of the classes, sorted; a label is a place in here.
  std::vector<std::string> classes() const;
  std::int64_t label(std::int64_t image) const;
  /// Below the directory: "cat/7.jpg".
  std::string path(std::int64_t image) const;
  /// Returns a checksum of all paths and classes, the sizes of the watched files, and the content of some of them
  /// (folder_change_detector.h).
  std::string_view fingerprint() const { return {header().fingerprint, sizeof header().fingerprint}; }

  /// The layout of the file; all numbers are those of this machine, which the magic number tells.
  struct Header {
    char magic[24];
    std::uint64_t key;  // of what was asked for
    std::int64_t num_files;
    std::int64_t num_folders;
    std::int64_t num_classes;
    std::int64_t num_watched;
    std::int64_t text_bytes;
    std::int64_t num_others;
    char fingerprint[16];
  };

  explicit FolderIndex(const std::filesystem::path& file);
  /// Returns whether the file is whole and made for `key`, and the directory is unchanged. The check covers all folders
  /// and some of the watched files.
  bool is_current(std::uint64_t key, const std::filesystem::path& directory) const;

 private:
  struct Folder {
    std::uint64_t name_end;  // in the text of folders
    std::int64_t changed_ns;
    std::int32_t label;  // -1: has no images of its own
    std::int32_t unused;
  };
  friend class FolderIndexWriter;

  bool is_whole(std::uint64_t key) const;
  bool is_unchanged(const std::filesystem::path& directory) const;
  const Header& header() const { return *reinterpret_cast<const Header*>(file_.bytes().data()); }
  const Folder* folders() const;
  const WatchedFile* watched() const;
  const std::uint64_t* name_ends() const;  // of files, in the text
  const std::uint32_t* folder_of_file() const;
  const std::uint64_t* class_ends() const;
  const char* text() const;  // classes, then folders, then files
  std::string_view folder_name(std::int64_t folder) const;

  core::MappedFile file_;
};

struct FolderRequest {
  std::filesystem::path directory;
  ClassFrom classes = ClassFrom::top_folder;
  std::vector<std::string> extensions;
  std::filesystem::path cache_dir;
};

/// From the cache, or by looking through the directory. No images, and a class without any, are Errors. `tell` hears of
/// a long search, and of files that are passed over.
FolderIndex open_folder(const FolderRequest& request, const std::function<void(const std::string&)>& tell);

}  // namespace trainctl::dataset
