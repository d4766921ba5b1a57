#include "dataset/table/spilling_vector.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "core/error.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kBytesPerWrite = std::size_t{4} << 20;

/// Returns the directory for large temporary files: /tmp may itself be memory.
std::string directory_of_spills() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
}

core::Error write_error() {
  return core::system_error("write", "a temporary file in " + directory_of_spills())
      .hint("the table is kept there while it is larger than memory; TMPDIR names another directory");
}

/// Opens a file that has no name, so that it ends with the process.
int open_spill() {
  std::string path = directory_of_spills() + "/trainctl-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) throw write_error();
  ::unlink(path.c_str());
  return descriptor;
}

}  // namespace

SpillingBytes::SpillingBytes(SpillingBytes&& other) noexcept
    : most_in_memory_(other.most_in_memory_),
      memory_(std::move(other.memory_)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      mapped_(std::exchange(other.mapped_, nullptr)) {}

SpillingBytes& SpillingBytes::operator=(SpillingBytes&& other) noexcept {
  std::swap(most_in_memory_, other.most_in_memory_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

SpillingBytes::~SpillingBytes() {
  if (mapped_ != nullptr) ::munmap(const_cast<std::byte*>(mapped_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SpillingBytes::append(std::span<const std::byte> bytes) {
  core::ensure(mapped_ == nullptr, "bytes come before finish()");
  memory_.insert(memory_.end(), bytes.begin(), bytes.end());
  size_ += bytes.size();
  if (descriptor_ < 0 && memory_.size() > most_in_memory_) descriptor_ = open_spill();
  if (descriptor_ >= 0 && memory_.size() >= kBytesPerWrite) write_memory();
}

void SpillingBytes::write_memory() {
  for (std::size_t done = 0; done < memory_.size();) {
    const ssize_t put = ::write(descriptor_, memory_.data() + done, memory_.size() - done);
    if (put < 0 && errno != EINTR) throw write_error();
    if (put > 0) done += static_cast<std::size_t>(put);
  }
  memory_.clear();
}

void SpillingBytes::expect_random_reads() const {
  if (mapped_ != nullptr) ::madvise(const_cast<std::byte*>(mapped_), size_, MADV_RANDOM);
}

void SpillingBytes::finish() {
  if (descriptor_ < 0 || mapped_ != nullptr) return;
  write_memory();
  memory_.shrink_to_fit();
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) throw core::system_error("map", "a temporary file of " + std::to_string(size_) + " bytes");
  mapped_ = static_cast<const std::byte*>(mapped);
}

}  // namespace trainctl::dataset
