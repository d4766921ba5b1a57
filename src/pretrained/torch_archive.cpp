#include "pretrained/torch_archive.h"

#include <minizip/unzip.h>

#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "pretrained/pickle.h"

namespace trainctl::pretrained {
namespace {

constexpr std::size_t kMostRecords = 500'000;
constexpr unsigned long kEncrypted = 1;  // of a record's flags

using Archive = std::unique_ptr<std::remove_pointer_t<unzFile>, int (*)(unzFile)>;

/// Returns where the current record lies.
FileRange range_of(unzFile archive, const unz_file_info64& info, const std::string& name, std::uint64_t file_size) {
  int method = 0;
  int level = 0;
  if (unzOpenCurrentFile2(archive, &method, &level, /*raw=*/1) != UNZ_OK)
    throw core::Error("record `" + shown(name) + "` of the archive is damaged");
  const FileRange range{.begin = unzGetCurrentFileZStreamPos64(archive),
                        .size = info.compressed_size,
                        .is_stored = info.compression_method == 0 && info.compressed_size == info.uncompressed_size &&
                                     (info.flag & kEncrypted) == 0};
  unzCloseCurrentFile(archive);
  if (range.begin > file_size || range.size > file_size - range.begin)
    throw core::Error("record `" + shown(name) + "` of the archive has " + core::format_count(range.size) +
                      " bytes at byte " + std::to_string(range.begin) + ", and overruns the file of " +
                      std::to_string(file_size) + " bytes");
  return range;
}

}  // namespace

std::map<std::string, FileRange> list_archive(const std::filesystem::path& path, std::uint64_t file_size) {
  const Archive archive(unzOpen64(path.c_str()), unzClose);
  if (archive == nullptr)
    throw core::Error("the zip archive has no directory at its end: the file is cut off")
        .hint("copy or download the file again, and compare its size with the original's");
  std::map<std::string, FileRange> records;
  std::vector<char> buffer(std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1);  // for any name
  int state = unzGoToFirstFile(archive.get());
  for (; state == UNZ_OK; state = unzGoToNextFile(archive.get())) {
    unz_file_info64 info{};
    if (unzGetCurrentFileInfo64(archive.get(), &info, buffer.data(), buffer.size(), nullptr, 0, nullptr, 0) != UNZ_OK)
      throw core::Error("the archive's directory is damaged");
    std::string name(buffer.data(), info.size_filename);
    const FileRange range = range_of(archive.get(), info, name, file_size);
    if (records.size() == kMostRecords)
      throw core::Error("the archive has over " + core::format_count(kMostRecords) + " records");
    if (!records.emplace(std::move(name), range).second)
      throw core::Error("the archive has two records of one name, `" + shown(buffer.data()) + "`");
  }
  if (state != UNZ_END_OF_LIST_OF_FILE) throw core::Error("the archive's directory is damaged");
  return records;
}

}  // namespace trainctl::pretrained
