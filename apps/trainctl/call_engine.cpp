#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "engine_call.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEngineFile = "libtrainctl_engine.so";

void* open_library(const fs::path& path, int scope) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | scope);
  if (library == nullptr)
    throw Error("cannot load " + path.string() + ": " + dlerror())
        .hint(
            "scripts/setup.sh installs LibTorch; an installed trainctl finds it by TRAINCTL_LIBTORCH=/path/to/libtorch "
            "(the directory with lib/)");
  return library;
}

/// An installed engine may have been built against a LibTorch that lies elsewhere here: libraries that are loaded
/// already satisfy the engine's needs by name.
void load_libtorch_named_by_environment() {
  const char* root = std::getenv("TRAINCTL_LIBTORCH");
  if (root == nullptr) return;
  const fs::path lib = fs::path(root) / "lib";
  for (const char* name : {"libc10.so", "libtorch_cpu.so"}) open_library(lib / name, RTLD_GLOBAL);
}

/// By default an OpenMP thread that waits at a barrier spins for milliseconds. Where another process wants a core too,
/// that makes a training step several times slower; short spins cost nothing measurable where none does. Read by
/// libgomp when it is loaded, so before the engine is.
void spin_briefly_at_openmp_barriers() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "20000", /*overwrite=*/0);
}

}  // namespace

int call_engine(const EngineCall& call) {
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  spin_briefly_at_openmp_barriers();
  load_libtorch_named_by_environment();
  void* engine = open_library(bin.parent_path() / "lib" / kEngineFile, RTLD_LOCAL);
  const auto engine_main = reinterpret_cast<EngineMain>(dlsym(engine, kEngineMain));
  ensure(engine_main != nullptr, "the engine has no entry point");
  return engine_main(call);
}

}  // namespace trainctl
