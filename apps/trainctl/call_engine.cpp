#include <dlfcn.h>

#include "core/error.h"
#include "engine_call.h"
#include "load_engine.h"

namespace trainctl::cli {

int call_engine(const EngineCall& call) {
  const auto engine_main = reinterpret_cast<EngineMain>(dlsym(load_engine(), kEngineMain));
  core::ensure(engine_main != nullptr, "the engine has no entry point");
  return engine_main(call);
}

}  // namespace trainctl::cli
