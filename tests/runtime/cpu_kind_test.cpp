#include "runtime/cpu_kind.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "machine/cpu.h"

namespace trainctl::runtime {

TEST_CASE("the kind of a CPU has its model, and changes with what oneDNN is held to", "[runtime]") {
  const char* before = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string restored = before == nullptr ? "" : before;
  const std::string kind = cpu_kind();
  CHECK_THAT(kind, Catch::StartsWith(machine::cpu_name()));
  CHECK(cpu_kind() == kind);
  ::setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  CHECK(cpu_kind() != kind);
  if (before == nullptr)
    ::unsetenv("ONEDNN_MAX_CPU_ISA");
  else
    ::setenv("ONEDNN_MAX_CPU_ISA", restored.c_str(), 1);
  CHECK(cpu_kind() == kind);
}

}  // namespace trainctl::runtime
