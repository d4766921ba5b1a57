#include "model/torch_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <minizip/unzip.h>

#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace trainctl::model {
namespace {

constexpr std::size_t kMostRecords = 500'000;
constexpr unsigned long kEncrypted = 1;  // of a record's flags

/// Goes through an archive's directory. It doesn't tell sizes and places, since minizip 1.1 reads none from 4 GiB on
/// (zip64). LibTorch's reader tells these, and neither how a record is stored nor its sum.
class Directory {
 public:
  explicit Directory(const std::filesystem::path& path)
      : archive_(unzOpen64(path.c_str()), unzClose), name_(std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1) {
    if (archive_ == nullptr)
      throw core::Error("the zip archive has no directory at its end: the file is cut off")
          .hint("copy or download the file again, and compare its size with the original's");
    state_ = unzGoToFirstFile(archive_.get());
    read();
  }

  bool at_end() const { return state_ == UNZ_END_OF_LIST_OF_FILE; }
  void next() {
    state_ = unzGoToNextFile(archive_.get());
    read();
  }

  std::string name() const { return {name_.data(), info_.size_filename}; }
  std::string described() const { return "record `" + name() + "` of the archive"; }
  bool is_stored() const { return info_.compression_method == 0 && (info_.flag & kEncrypted) == 0; }
  std::uint32_t checksum() const { return static_cast<std::uint32_t>(info_.crc); }

  /// Inflates the record for its sum, which minizip compares where all was read.
  void check_compressed() {
    if (info_.compression_method != Z_DEFLATED || (info_.flag & kEncrypted) != 0)
      throw core::Error(described() + " is encrypted, or its compression unknown: method " +
                        std::to_string(info_.compression_method) + "; expected 0 or 8");
    bool is_whole = unzOpenCurrentFile(archive_.get()) == UNZ_OK;
    std::vector<char> buffer(std::size_t{1} << 16);
    int count = is_whole ? 1 : 0;
    while (count > 0) count = unzReadCurrentFile(archive_.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    is_whole &= unzCloseCurrentFile(archive_.get()) == UNZ_OK && count == 0;
    if (!is_whole) throw core::Error(described() + " is damaged");
  }

 private:
  void read() {
    if (at_end()) return;
    if (state_ != UNZ_OK ||
        unzGetCurrentFileInfo64(archive_.get(), &info_, name_.data(), name_.size(), nullptr, 0, nullptr, 0) != UNZ_OK)
      throw core::Error("the archive's directory is damaged");
    const std::string name = this->name();
    if (name.starts_with('/') || name.find("..") != std::string::npos || name.find('\\') != std::string::npos ||
        name.find('\0') != std::string::npos)
      throw core::Error("an entry of the archive has the name `" + name + "`, which leads out of it");
    constexpr ZPOS64_T kLarge = ZPOS64_T{64} << 20;
    constexpr ZPOS64_T kMostInflated = 100;
    if (info_.uncompressed_size > kLarge && info_.uncompressed_size / kMostInflated > info_.compressed_size)
      throw core::Error(described() + " has " + core::format_bytes(static_cast<double>(info_.compressed_size)) +
                        ", which become " + core::format_bytes(static_cast<double>(info_.uncompressed_size)) +
                        "; PyTorch stores tensors as they are");
  }

  std::unique_ptr<std::remove_pointer_t<unzFile>, int (*)(unzFile)> archive_;
  int state_ = UNZ_OK;
  unz_file_info64 info_{};
  std::vector<char> name_;
};

/// Tells where records lie.
class Places {
 public:
  /// `first` is the name of the first record, whose directory all others are in.
  Places(const std::filesystem::path& path, const std::string& first)
      : directory_(first.substr(0, first.find('/') + 1)), file_size_(std::filesystem::file_size(path)) {
    try {
      reader_.emplace(path.string());
    } catch (const std::exception&) {
      throw core::Error("the archive is damaged, or none that PyTorch writes");
    }
  }

  FileRange of(const Directory& record) {
    const std::string name = record.name();
    if (!name.starts_with(directory_))
      throw core::Error(record.described() + " is not in the archive's directory `" + directory_ + "`");
    const std::string inner = name.substr(directory_.size());
    FileRange range{.is_stored = record.is_stored()};
    try {
      range.begin = reader_->getRecordOffset(inner);
      range.size = reader_->getRecordSize(inner);
    } catch (const std::exception&) {
      throw core::Error(record.described() + " is damaged");
    }
    if (range.is_stored && (range.begin > file_size_ || range.size > file_size_ - range.begin))
      throw core::Error(record.described() + " has " + core::format_count(range.size) + " bytes at byte " +
                        std::to_string(range.begin) + ", and overruns the file of " + std::to_string(file_size_) +
                        " bytes");
    return range;
  }

 private:
  std::string directory_;
  std::uint64_t file_size_;
  std::optional<caffe2::serialize::PyTorchStreamReader> reader_;
};

/// Calls `visit(directory, range)` at each record.
template <typename Visit>
void for_each_record(const std::filesystem::path& path, const Visit& visit) {
  for (Directory all(path); !all.at_end(); all.next()) {  // before LibTorch inflates any of them
  }
  Directory record(path);
  if (record.at_end()) throw core::Error("the archive has no records");
  Places places(path, record.name());
  for (; !record.at_end(); record.next()) visit(record, places.of(record));
}

}  // namespace

std::map<std::string, FileRange> list_archive(const std::filesystem::path& path) {
  std::map<std::string, FileRange> records;
  for_each_record(path, [&](const Directory& record, const FileRange& range) {
    if (records.size() == kMostRecords)
      throw core::Error("the archive has over " + core::format_count(kMostRecords) + " records");
    if (!records.emplace(record.name(), range).second)
      throw core::Error("the archive has two records of one name, `" + record.name() + "`");
  });
  return records;
}

void check_archive(const std::filesystem::path& path) {
  const core::MappedFile file(path);
  for_each_record(path, [&](Directory& record, const FileRange& range) {
    if (!record.is_stored()) return record.check_compressed();
    const std::span<const std::byte> bytes = file.bytes().subspan(range.begin, range.size);
    const uLong sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    core::check_mapped_files();
    if (sum != record.checksum())
      throw core::Error(record.described() + " is damaged: another checksum than in the directory");
  });
}

}  // namespace trainctl::model
