#include "core/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::core {
namespace {

/// Record of a mapping for the signal handler. Records are reused and never freed, since the handler takes no lock.
struct Place {
  std::atomic<std::uintptr_t> begin = 0;  // 0: unused
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<int> protection = PROT_READ;
  std::atomic<bool> is_lost = false;  // stays set until the loss is reported, even after the mapping has ended
  std::string path;                   // guarded by places_mutex
  Place* next = nullptr;
};

// A signal handler can reach only globals.
std::atomic<Place*> first_place = nullptr;
std::atomic<int> num_lost = 0;
std::mutex places_mutex;
struct sigaction former_action;

std::uintptr_t page_of(std::uintptr_t address) {
  return address & ~(static_cast<std::uintptr_t>(::getpagesize()) - 1);
}

/// Replaces lost pages of a file by zeros, so that readers continue and detect the loss afterwards.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Place* place = first_place; place != nullptr; place = place->next) {
    const std::uintptr_t end = place->end;
    if (address < place->begin || address >= end) continue;
    const std::uintptr_t page = page_of(address);
    void* const zeros = ::mmap(reinterpret_cast<void*>(page), end - page, place->protection,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    if (!place->is_lost.exchange(true)) ++num_lost;
    return;
  }
  // Not our mapping: the former handler takes the signal, or the system does when it recurs.
  if ((former_action.sa_flags & SA_SIGINFO) != 0)
    former_action.sa_sigaction(signal, info, context);
  else
    ::sigaction(SIGBUS, &former_action, nullptr);
}

void watch_for_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, &former_action);
}

Place& free_place() {
  for (Place* place = first_place; place != nullptr; place = place->next)
    if (place->begin == 0 && !place->is_lost) return *place;
  auto* const place = new Place;
  place->next = first_place;
  first_place = place;
  return *place;
}

}  // namespace

/// Registration with the handler for the lifetime of the object.
struct MappedFile::Registered {
  Registered(const std::filesystem::path& path, std::span<const std::byte> bytes, int protection) {
    static const bool watching = (watch_for_bus_errors(), true);
    static_cast<void>(watching);
    const std::lock_guard lock(places_mutex);
    place = &free_place();
    place->path = path.string();
    place->protection = protection;
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    place->end = begin + bytes.size();
    place->begin = begin;
  }
  ~Registered() {
    const std::lock_guard lock(places_mutex);
    place->begin = 0;
    place->end = 0;
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  Place* place;
};

MappedFile::MappedFile() = default;

MappedFile::MappedFile(const std::filesystem::path& path, MapAccess access) {
  const RegularFile file(path);
  size_ = file.size();
  if (size_ == 0) return;
  const bool writable = access == MapAccess::copy_on_write;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const data =
      ::mmap(nullptr, size_, protection, writable ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED, file.descriptor(), 0);
  if (data == MAP_FAILED) throw system_error("map", path.string());
  data_ = static_cast<std::byte*>(data);
  registered_ = std::make_unique<Registered>(path, bytes(), protection);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : registered_(std::move(other.registered_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(registered_, other.registered_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  registered_.reset();
  if (data_ != nullptr) ::munmap(data_, size_);
}

void check_mapped_files() {
  if (num_lost == 0) return;
  const std::lock_guard lock(places_mutex);
  for (Place* place = first_place; place != nullptr; place = place->next) {
    if (!place->is_lost) continue;
    if (place->begin == 0 && place->is_lost.exchange(false)) --num_lost;
    throw Error("cannot read " + place->path + ": it has become shorter since it was opened, or its disk has failed")
        .hint("let no other process write to the file while it is read; then start again");
  }
}

}  // namespace trainctl::core
