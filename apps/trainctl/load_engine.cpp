#include "load_engine.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "machine/cpu.h"
#include "machine/installation.h"
#include "machine/libraries.h"
#include "machine/libtorch.h"
#include "machine/limits.h"
#include "plugin/abi.h"
#include "tokenize_call.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

std::string hint_for(const std::string& loader_error) {
  if (loader_error.find("failed to map segment") != std::string::npos)
    return "more address space: 'ulimit -v unlimited' lifts the shell's limit";
  return machine::line_that_gets(machine::missing_library(loader_error));
}

void refuse_unfit_cpu() {
  const std::string missing = machine::missing_instruction_set(machine::cpu_features());
  if (missing.empty()) return;
  throw core::Error("this CPU (" + machine::cpu_name() + ") lacks " + missing + ", which LibTorch needs")
      .hint("another machine; in a virtual machine, the host's CPU model (QEMU's '-cpu host')");
}

void refuse_other_libtorch() {
  const auto libtorch = machine::find_libtorch(library_directory());
  if (!libtorch) return;  // the loader names the missing file
  const std::string problem = machine::version_problem(*libtorch);
  if (problem.empty()) return;
  throw core::Error(problem).hint(machine::line_that_gets_release(*libtorch));
}

/// Refuses a working directory that is gone: oneMKL asks for it, and otherwise ends the program in its own words.
void require_working_directory() {
  std::error_code problem;
  if (const fs::path directory = fs::current_path(problem); problem)
    throw core::Error("cannot find the working directory, which may have been removed: " + problem.message())
        .hint("change to a directory that is there, such as 'cd ~', and run the command again");
}

/// Makes OpenMP threads spin only briefly at barriers; by default they spin for milliseconds. If other processes need
/// the cores, long spins make a step several times slower. libgomp reads this when it is loaded, so it must precede the
/// engine.
void spin_briefly_at_openmp_barriers() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "20000", /*overwrite=*/0);
}

/// Loads SentencePiece before LibTorch, in a scope of its own. Both export FLAGS_minloglevel: libc10 an integer,
/// SentencePiece an object. In one scope, the object would take the place of the integer, and overwrite the mutex
/// behind it. TorchScript would then wait forever.
void keep_flags_of_sentencepiece_apart() {
  open_library(library_directory() / kTokenizeFile, RTLD_LOCAL);
}

}  // namespace

void* open_library(const fs::path& path, int scope) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | scope);
  if (library != nullptr) return library;
  const std::string problem = dlerror();
  throw core::Error("cannot load " + path.string() + ": " + problem).hint(hint_for(problem));
}

fs::path library_directory() {
  return machine::library_directory(fs::read_symlink("/proc/self/exe"));
}

void load_libtorch_named_by_environment() {
  const char* root = std::getenv("TRAINCTL_LIBTORCH");
  if (root == nullptr) return;
  const fs::path lib = fs::path(root) / "lib";
  for (const char* name : {"libc10.so", "libtorch_cpu.so"}) open_library(lib / name, RTLD_GLOBAL);
}

void* load_engine() {
  refuse_unfit_cpu();
  require_working_directory();
  refuse_other_libtorch();
  machine::require_address_space();
  spin_briefly_at_openmp_barriers();
  keep_flags_of_sentencepiece_apart();
  load_libtorch_named_by_environment();
  const fs::path file = library_directory() / machine::kEngineFile;
  void* const engine = open_library(file, RTLD_LOCAL);
  const auto* const build = static_cast<const char*>(dlsym(engine, plugin::kAbiSymbol));
  if (build == nullptr || std::string_view(build) != trainctl_plugin_abi)
    throw core::Error(file.string() + " is of another build than this program").hint("build or install both again");
  return engine;
}

}  // namespace trainctl::cli
