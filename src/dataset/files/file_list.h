// Files as people name them: a path, a directory, a glob, braces, or a list of those.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trainctl::dataset {

/// What of a directory is taken (dataset/files/directory_walk.h): the files with these endings (".tar"), at any depth;
/// empty takes all but hidden ones.
struct FileEndings {
  std::vector<std::string> endings{};
};

/// The files that the patterns name, in the order of the patterns; a directory's and a glob's in the order of their
/// names. `train-{000..099}.tar` and `{a,b}/x.tar` must all be there; a pattern or directory that gives nothing, and a
/// file named twice, is an Error. `key` is the config's, for messages: "dataset.train".
std::vector<std::filesystem::path> expand_files(std::span<const std::string> patterns, const FileEndings& endings,
                                                std::string_view key);

/// "a{00..02}.tar" gives a00.tar, a01.tar, a02.tar; "{x,y}" gives both; braces may nest; "\{" is a plain brace.
std::vector<std::string> expand_braces(const std::string& pattern);

}  // namespace trainctl::dataset
