// Memory that processes of one node share under a name, and that goes with the last of them.
#pragma once

#include <cstddef>
#include <string>

namespace trainctl::dataset {

/// A file in a memory file system, mapped by all processes that open the same name and size; at first all zero. Each
/// process holds a lock on it that ends with the process, so a killed process needs no clean-up. The name is removed
/// once all `participants` have opened it, or else by the last process that leaves. If all processes were killed, the
/// next program of this user removes the name.
class SharedMemory {
 public:
  struct Options {
    std::string name;  // letters, digits and hyphens
    std::size_t bytes = 0;
    std::size_t participants = 1;
    std::string directory = "/dev/shm";
  };
  explicit SharedMemory(const Options& options);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Gets pages for this stretch. False where there are none left; touching it without would be a bus error.
  bool reserve(std::size_t offset, std::size_t bytes) const;

 private:
  void open();
  void map();
  void remove_name() const;
  bool is_named() const;

  std::string path_;
  std::size_t size_;
  int descriptor_ = -1;
  std::byte* mapped_ = nullptr;
  std::byte* data_ = nullptr;
};

/// Bytes that the directory's file system has left.
std::size_t free_bytes(const std::string& directory);

}  // namespace trainctl::dataset
