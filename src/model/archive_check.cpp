#include "model/archive_check.h"

#include <minizip/unzip.h>

#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"

namespace trainctl::model {
namespace {

using Archive = std::unique_ptr<std::remove_pointer_t<unzFile>, int (*)(unzFile)>;

void check_name(const std::string& name) {
  const bool leads_out = name.starts_with('/') || name.find("..") != std::string::npos ||
                         name.find('\\') != std::string::npos || name.find('\0') != std::string::npos;
  if (leads_out) throw core::Error("an entry of the archive has the name `" + name + "`, which leads out of it");
}

/// Reads the archive's current entry to its end, and throws if it is damaged.
void check_entry(unzFile archive, std::vector<char>& buffer) {
  unz_file_info64 info{};
  if (unzGetCurrentFileInfo64(archive, &info, buffer.data(), buffer.size(), nullptr, 0, nullptr, 0) != UNZ_OK)
    throw core::Error("the archive's directory is damaged");
  const std::string name(buffer.data(), info.size_filename);
  check_name(name);
  if (info.compression_method != 0 && info.compression_method != Z_DEFLATED)
    throw core::Error("entry `" + name + "` of the archive: unknown compression, got method " +
                      std::to_string(info.compression_method) + "; expected 0 or 8");
  if (unzOpenCurrentFile(archive) != UNZ_OK) throw core::Error("entry `" + name + "` of the archive is damaged");
  ZPOS64_T done = 0;
  int count = 0;
  while ((count = unzReadCurrentFile(archive, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0)
    done += static_cast<ZPOS64_T>(count);
  // The sum is compared where all was read.
  const int closed = unzCloseCurrentFile(archive);
  if (count < 0 || done != info.uncompressed_size) throw core::Error("entry `" + name + "` of the archive is damaged");
  if (closed != UNZ_OK)
    throw core::Error("entry `" + name + "` of the archive is damaged: another checksum than in the directory");
}

}  // namespace

void check_archive(const std::filesystem::path& path) {
  const Archive archive(unzOpen64(path.c_str()), unzClose);
  if (archive == nullptr) throw core::Error("the file is cut off, or no archive");
  std::vector<char> buffer(std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1);  // for any name
  int state = unzGoToFirstFile(archive.get());
  for (; state == UNZ_OK; state = unzGoToNextFile(archive.get())) check_entry(archive.get(), buffer);
  if (state != UNZ_END_OF_LIST_OF_FILE) throw core::Error("the archive's directory is damaged");
}

}  // namespace trainctl::model
