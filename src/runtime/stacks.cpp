#include "runtime/stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/mapped_file.h"

namespace trainctl::runtime {
namespace {

using namespace std::chrono_literals;
constexpr int kMaxFrames = 64;
constexpr auto kAnswerTimeout = 200ms;

/// Buffer for the stack of the requested thread. It is never freed, since a thread may answer late.
struct Answer {
  std::atomic<int> thread = 0;  // requested thread; 0: none
  std::atomic<int> num_frames = -1;
  std::array<void*, kMaxFrames> frames{};
};

/// Returns the global answer, since a signal handler is a plain function.
Answer& answer() {
  static Answer* const kept = new Answer;
  return *kept;
}

void write_stack(int) {
  const int error = errno;
  Answer& to = answer();
  int self = static_cast<int>(::syscall(SYS_gettid));
  if (to.thread.compare_exchange_strong(self, -self)) to.num_frames = ::backtrace(to.frames.data(), kMaxFrames);
  errno = error;
}

std::vector<void*> stack_of(int thread, int signal) {
  Answer& from = answer();
  from.num_frames = -1;
  from.thread = thread;
  if (::syscall(SYS_tgkill, ::getpid(), thread, signal) != 0) return {};
  const auto deadline = std::chrono::steady_clock::now() + kAnswerTimeout;
  while (from.num_frames < 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  const int expected = thread;
  int asked = expected;
  // A late thread finds that its request is withdrawn.
  if (from.num_frames < 0 && from.thread.compare_exchange_strong(asked, 0)) return {};
  while (from.num_frames < 0) std::this_thread::sleep_for(1ms);
  return std::vector<void*>(from.frames.begin(), from.frames.begin() + from.num_frames);
}

/// Functions of one file by address, including those that it does not export.
class Symbols {
 public:
  explicit Symbols(const std::string& path) : file_(map(path)), bytes_(file_.bytes()) {
    if (bytes_.size() < sizeof(Elf64_Ehdr)) return;
    const auto header = at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return;
    for (int i = 0; i < header.e_shnum; ++i) {
      const std::uint64_t place = header.e_shoff + static_cast<std::uint64_t>(i) * header.e_shentsize;
      if (!holds(place, sizeof(Elf64_Shdr))) return;
      const auto section = at<Elf64_Shdr>(place);
      if (section.sh_type == SHT_SYMTAB && section.sh_link < header.e_shnum)
        read(section, at<Elf64_Shdr>(header.e_shoff + std::uint64_t{section.sh_link} * header.e_shentsize));
    }
    std::sort(functions_.begin(), functions_.end(),
              [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  /// Returns the function's name, or "" if none covers the offset.
  std::string name_at(std::uint64_t offset) const {
    const auto after = std::upper_bound(functions_.begin(), functions_.end(), offset,
                                        [](std::uint64_t value, const Function& f) { return value < f.begin; });
    if (after == functions_.begin()) return "";
    const Function& found = *std::prev(after);
    return offset < found.begin + found.size ? found.name : "";
  }

 private:
  struct Function {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    const char* name = "";  // points into the mapping
  };

  static core::MappedFile map(const std::string& path) {
    try {
      return core::MappedFile(path);
    } catch (const std::exception&) {  // [vdso], or a replaced file
      return {};
    }
  }
  bool holds(std::uint64_t place, std::uint64_t size) const {
    return place <= bytes_.size() && size <= bytes_.size() - place;
  }
  template <class T>
  T at(std::uint64_t place) const {
    T value{};
    if (holds(place, sizeof value)) std::memcpy(&value, bytes_.data() + place, sizeof value);
    return value;
  }
  void read(const Elf64_Shdr& symbols, const Elf64_Shdr& names) {
    if (!holds(symbols.sh_offset, symbols.sh_size) || !holds(names.sh_offset, names.sh_size)) return;
    for (std::uint64_t i = 0; i + sizeof(Elf64_Sym) <= symbols.sh_size; i += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(symbols.sh_offset + i);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0 || symbol.st_name >= names.sh_size) continue;
      functions_.push_back({symbol.st_value, symbol.st_size,
                            reinterpret_cast<const char*>(bytes_.data()) + names.sh_offset + symbol.st_name});
    }
  }

  core::MappedFile file_;
  std::span<const std::byte> bytes_;
  std::vector<Function> functions_;
};

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result.substr(0, 200);
}

class Names {
 public:
  std::string of(const void* address) {
    Dl_info info{};
    if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "?";
    const std::string file = std::filesystem::path(info.dli_fname).filename().string();
    if (info.dli_sname != nullptr) return demangled(info.dli_sname) + "  (" + file + ")";
    const auto offset = reinterpret_cast<std::uint64_t>(address) - reinterpret_cast<std::uint64_t>(info.dli_fbase);
    auto symbols = files_.find(info.dli_fname);
    if (symbols == files_.end()) symbols = files_.emplace(info.dli_fname, Symbols(info.dli_fname)).first;
    const std::string name = symbols->second.name_at(offset);
    return (name.empty() ? "?" : demangled(name)) + "  (" + file + ")";
  }

 private:
  std::map<std::string, Symbols> files_;
};

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Returns the thread's state from the letter after the name: R, S, D, ….
std::string state_of(const std::filesystem::path& task) {
  const std::string line = first_line(task / "stat");
  const std::size_t bracket = line.rfind(')');
  const char letter = bracket == std::string::npos || bracket + 2 >= line.size() ? '?' : line[bracket + 2];
  switch (letter) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for a disk or the like";
    default:
      return std::string("in state ") + letter;
  }
}

std::string text_of(const std::vector<void*>& frames, Names& names, std::size_t skipped) {
  if (frames.empty()) return "  no answer\n";
  std::string text;
  for (std::size_t i = std::min(skipped, frames.size()); i < frames.size(); ++i) {
    // A return address may be one past the end of its function.
    text += "  " + names.of(static_cast<const char*>(frames[i]) - 1) + "\n";
  }
  return text;
}

}  // namespace

std::string stacks_of_all_threads() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const int signal = SIGRTMIN + 7;
  struct sigaction action {};
  struct sigaction former {};
  action.sa_handler = &write_stack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  std::array<void*, kMaxFrames> own{};
  // This call also loads the unwinder, which a signal handler must not do.
  const int num_own = ::backtrace(own.data(), kMaxFrames);
  if (::sigaction(signal, &action, &former) != 0) return "";
  Names names;
  std::string text;
  const int self = static_cast<int>(::syscall(SYS_gettid));
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const int thread = std::atoi(task.path().filename().c_str());
    if (thread == self) continue;
    const std::string title = "thread " + std::to_string(thread) + " " + first_line(task.path() / "comm") + ", " +
                              state_of(task.path()) + "\n";
    text += title + text_of(stack_of(thread, signal), names, 2) + "\n";
  }
  // The handler stays installed: a thread that has not answered may still receive the signal.
  return text + "thread " + std::to_string(self) + ", which writes this\n" +
         text_of(std::vector<void*>(own.begin(), own.begin() + num_own), names, 1);
}

}  // namespace trainctl::runtime
