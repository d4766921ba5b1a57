#include "runtime/cpu_kind.h"

#include <ATen/Version.h>

#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/text.h"
#include "machine/cpu.h"

namespace trainctl::runtime {
namespace {

#if defined(__x86_64__)
/// Returns the features that the processor itself reports. Under emulation, /proc/cpuinfo shows the host's features.
std::string features() {
  std::string text;
  const auto add = [&](unsigned leaf, unsigned subleaf, bool has_model) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx) == 0) return;
    // EAX has the model in leaf 1 and features in 7.1. EBX of leaf 1 differs between cores.
    for (const unsigned value : {has_model || subleaf == 1 ? eax : 0U, leaf == 1 ? 0U : ebx, ecx, edx})
      text += "," + std::to_string(value);
  };
  add(1, 0, true);
  add(7, 0, false);
  add(7, 1, false);
  return text;
}
#else
std::string features() {
  return "";
}
#endif

}  // namespace

std::string cpu_kind() {
  std::string kind = machine::cpu_name() + features() + "|" + at::get_cpu_capability();
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"}) {
    const char* value = std::getenv(name);
    kind += "|" + std::string(value == nullptr ? "" : value);
  }
  return kind;
}

}  // namespace trainctl::runtime
