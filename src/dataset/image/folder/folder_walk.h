// Finds the images below a directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::dataset {

struct FolderRequest;

struct FolderWalk {
  struct Folder {
    std::string path;  // below the directory; "" is the directory itself
    std::int64_t changed_ns = 0;
    std::int32_t label = -1;  // of its images
  };
  std::vector<std::string> classes;  // sorted
  std::vector<Folder> folders;       // all, those without images too
  // Of the files, one after another.
  std::string file_names;
  std::vector<std::uint64_t> file_ends;  // in file_names
  std::vector<std::uint32_t> file_folders;
  std::int64_t num_others = 0;  // files with other endings, which are passed over; hidden ones aren't counted

  /// Returns the path of a file below the directory.
  std::string path(std::size_t file) const;
};

FolderWalk walk_folder(const FolderRequest& request);

/// When the entries of a folder changed last; -1 where it can't be read.
std::int64_t changed_ns(const std::filesystem::path& folder);

}  // namespace trainctl::dataset
