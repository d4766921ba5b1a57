#include "machine/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace trainctl::machine {
namespace {

constexpr std::string_view kOwner("GNU\0", 4);  // with the zero at its end, as in the file

struct NoteSearch {
  std::uintptr_t address;  // of code in the object that is looked for
  std::string id;
};

std::string hex_digits(const unsigned char* bytes, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

constexpr std::size_t padded(std::size_t size) {
  return (size + 3) / 4 * 4;
}

/// Reads the notes of an object: each is a header, a name and a description, padded to four bytes.
std::string read_notes(const char* notes, std::size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header{};
    std::memcpy(&header, notes, sizeof header);
    const std::size_t length = sizeof header + padded(header.n_namesz) + padded(header.n_descsz);
    if (length > size) return "";
    const char* const name = notes + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && std::string_view(name, header.n_namesz) == kOwner)
      return hex_digits(reinterpret_cast<const unsigned char*>(name + padded(header.n_namesz)), header.n_descsz);
    notes += length;
    size -= length;
  }
  return "";
}

int look_into(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<NoteSearch*>(data);
  bool is_here = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && search.address >= begin && search.address < begin + part.p_memsz) is_here = true;
  }
  if (!is_here) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.id.empty(); ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type == PT_NOTE)
      search.id = read_notes(reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr), part.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  NoteSearch search{.address = reinterpret_cast<std::uintptr_t>(&build_id), .id = ""};
  dl_iterate_phdr(look_into, &search);
  return search.id;
}

}  // namespace trainctl::machine
