// The files below directories, as all datasets see them: without hidden ones, through links, in the order of names.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::dataset {

/// What a folder holds, sorted by name.
struct FolderEntries {
  std::vector<std::string> folders;
  std::vector<std::string> files;  // all else; a link that leads nowhere is one, so that whoever reads it names it
};

/// Lists a folder without hidden entries (a dot in front), such as a Mac's ._x and .DS_Store. A link is what it leads
/// to. Throws core::Error if the folder can't be listed.
FolderEntries list_folder(const std::filesystem::path& folder);

/// Called with a folder's path below the directory, "" for the directory itself.
using VisitFolder = std::function<void(const std::string& folder, const FolderEntries& entries)>;

/// Visits a folder of the directory, then those in it. Throws core::Error if a link leads up to a folder around it, or
/// if folders lie too deep.
void walk_folders(const std::filesystem::path& directory, const std::string& folder, const VisitFolder& visit);

/// Whether a file's name has one of these endings ("jpg" or ".jpg"), in upper or lower case.
bool has_ending(std::string_view name, std::span<const std::string> endings);

/// Returns the files below a directory that have one of these endings, sorted; all files if there are no endings.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& directory,
                                               std::span<const std::string> endings);

}  // namespace trainctl::dataset
