#include "distributed/offload.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "runtime/fake_tensor.h"

namespace trainctl::distributed {
namespace {

namespace fs = std::filesystem;

class HostMemoryForOffload final : public OffloadMemory {
 public:
  explicit HostMemoryForOffload(c10::Device device) : pinned_(!device.is_cpu()) {}
  at::Tensor zeros_like(const at::Tensor& like) override {
    return at::zeros(like.sizes(), at::TensorOptions(like.scalar_type()).pinned_memory(pinned_));
  }
  void bring(const at::Tensor&) override {}
  void put_away(const at::Tensor&) override {}

 private:
  bool pinned_;
};

/// The other memory of a dry run, which only counts its bytes.
class ImaginedMemory final : public OffloadMemory {
 public:
  at::Tensor zeros_like(const at::Tensor& like) override { return runtime::hollow_elsewhere(like); }
  void bring(const at::Tensor&) override {}
  void put_away(const at::Tensor&) override {}
};

/// A file without a name: no process can shorten it under the mapping, and none is left behind.
class NamelessFile {
 public:
  explicit NamelessFile(const fs::path& directory) {
    std::error_code failure;
    fs::create_directories(directory, failure);
    descriptor_ = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
      std::string name = (directory / ".offload-XXXXXX").string();
      descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
      if (descriptor_ >= 0) ::unlink(name.c_str());
    }
    if (descriptor_ < 0)
      throw core::system_error("make a file for offloaded state in", directory.string())
          .hint("distributed.offload.path must be a directory that this user may write to");
  }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  ~NamelessFile() { ::close(descriptor_); }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// A mapping of a part of the file into memory; keeps the file open.
class Mapping {
 public:
  Mapping(std::shared_ptr<NamelessFile> file, off_t offset, std::size_t bytes) : file_(std::move(file)), bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_->descriptor(), offset);
    if (data_ == MAP_FAILED) throw core::system_error("map", core::format_bytes(static_cast<double>(bytes)));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(data_, bytes_); }
  void* data() const { return data_; }

 private:
  std::shared_ptr<NamelessFile> file_;
  void* data_ = nullptr;
  std::size_t bytes_;
};

class DiskMemory final : public OffloadMemory {
 public:
  explicit DiskMemory(const fs::path& directory)
      : directory_(directory), file_(std::make_shared<NamelessFile>(directory)) {}

  at::Tensor zeros_like(const at::Tensor& like) override {
    const at::TensorOptions options(like.scalar_type());
    if (like.numel() == 0) return at::zeros(like.sizes(), options);
    const off_t size = round_up(static_cast<off_t>(like.nbytes()));
    reserve(size);
    const auto mapping = std::make_shared<Mapping>(file_, end_, static_cast<std::size_t>(size));
    auto* const data = static_cast<std::byte*>(mapping->data());
    regions_.emplace(data, Region{.offset = end_, .size = size});
    end_ += size;
    return at::from_blob(
        data, like.sizes(), [mapping](void*) {}, options);
  }

  void bring(const at::Tensor& tensor) override {
    if (const std::optional<Place> place = find(tensor)) ::madvise(place->data, place->size, MADV_WILLNEED);
  }

  void put_away(const at::Tensor& tensor) override {
    const std::optional<Place> place = find(tensor);
    if (!place) return;
    // Hints: where the system doesn't heed them, it writes at a time of its own.
    ::sync_file_range(file_->descriptor(), place->offset, static_cast<off_t>(place->size), SYNC_FILE_RANGE_WRITE);
    ::madvise(place->data, place->size, MADV_DONTNEED);
  }

 private:
  struct Region {
    off_t offset = 0;
    off_t size = 0;
  };
  /// The whole pages that a tensor lies on.
  struct Place {
    void* data;
    std::size_t size;
    off_t offset;
  };

  static off_t round_up(off_t size) {
    const off_t page = ::sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
  }

  void reserve(off_t size) {
    struct statvfs space {};
    const bool is_known = ::fstatvfs(file_->descriptor(), &space) == 0;
    const double left = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
    int failure = is_known && left < static_cast<double>(size) ? ENOSPC : 0;
    if (failure == 0) failure = ::posix_fallocate(file_->descriptor(), end_, size);
    if (failure == 0) return;
    errno = failure;
    throw core::system_error("keep " + core::format_bytes(static_cast<double>(end_ + size)) + " of offloaded state in",
                             directory_.string())
        .hint(
            "distributed.offload.path needs room for this rank's part: for adamw 8 bytes a parameter divided by "
            "the ranks that share it, and 4 more with parameters: disk; " +
            core::format_bytes(left) + " are left there");
  }

  std::optional<Place> find(const at::Tensor& tensor) const {
    if (!tensor.is_cpu() || tensor.numel() == 0) return std::nullopt;
    auto* const data = static_cast<std::byte*>(tensor.mutable_data_ptr());
    auto after = regions_.upper_bound(data);
    if (after == regions_.begin()) return std::nullopt;
    const auto& [begin, region] = *--after;
    if (data >= begin + region.size) return std::nullopt;
    const off_t page = ::sysconf(_SC_PAGESIZE);
    const off_t first = (data - begin) / page * page;
    const off_t last = round_up((data - begin) + static_cast<off_t>(tensor.nbytes()));
    return Place{
        .data = begin + first, .size = static_cast<std::size_t>(last - first), .offset = region.offset + first};
  }

  fs::path directory_;
  std::shared_ptr<NamelessFile> file_;
  off_t end_ = 0;
  std::map<std::byte*, Region> regions_;  // by where they are mapped
};

}  // namespace

std::unique_ptr<OffloadMemory> host_offload_memory(c10::Device device) {
  return std::make_unique<HostMemoryForOffload>(device);
}

std::unique_ptr<OffloadMemory> disk_offload_memory(const fs::path& directory) {
  if (runtime::FakeTensorScope::is_active()) return std::make_unique<ImaginedMemory>();
  return std::make_unique<DiskMemory>(directory);
}

}  // namespace trainctl::distributed
