// The files of an older export that programs would obey beside those of a new one in the same directory.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "exporters/model_card.h"

namespace trainctl::exporters {

/// Returns the names of the directory's files that programs obey when they load an export of this format. Files that
/// every such export replaces are left out. Empty if there is no such directory.
std::vector<std::string> obeyed_files(const std::filesystem::path& directory, ArtefactFormat format);

/// Returns the names of the obeyed files that the coming export does not write (`written` names those it does), and
/// that an older export left. A file that model.json doesn't list, or that was changed since, is an Error.
std::vector<std::string> stale_files(const std::filesystem::path& directory, ArtefactFormat format,
                                     const std::set<std::string>& written);

/// Returns the checksums, by name, of the files that programs obey when they load an export of any format. The files
/// are those that were written now, or that model.json lists.
std::map<std::string, std::string> checksums_of_side_files(const std::filesystem::path& directory,
                                                           const std::vector<std::filesystem::path>& written);

}  // namespace trainctl::exporters
