// What the processor offers. Read from CPUID, never from /proc/cpuinfo: under an emulator, and in some containers, that
// file describes another processor.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace trainctl::machine {

/// Instruction sets that the processor has and the operating system enables.
struct CpuFeatures {
  bool sse4_1 = false;
  bool sse4_2 = false;
  bool avx = false;
  bool f16c = false;
  bool fma = false;
  bool avx2 = false;
  bool avx_vnni = false;
  bool avx_ne_convert = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
  bool avx512dq = false;
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  bool amx_tile = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;
  bool amx_fp16 = false;

  /// The four sets of AVX-512 that matrix libraries ask for together.
  bool avx512_core() const { return avx512f && avx512bw && avx512vl && avx512dq; }
  bool operator==(const CpuFeatures&) const = default;
};

/// A feature's key in JSON, its name for a person, and its member.
struct NamedFeature {
  const char* key;
  const char* name;
  bool CpuFeatures::*member;
};

/// Returns every feature, in the order of the struct.
std::span<const NamedFeature> named_features();

/// Register values that CPUID and XGETBV return; a leaf that the processor lacks is zero.
struct CpuidLeaves {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0;
  std::uint32_t leaf7_ecx = 0;
  std::uint32_t leaf7_edx = 0;
  std::uint32_t leaf7_1_eax = 0;
  std::uint32_t leaf7_1_edx = 0;
  std::uint64_t xcr0 = 0;
};

/// Decodes CPUID. An instruction set whose registers the operating system does not save counts as missing.
CpuFeatures decode_features(const CpuidLeaves& leaves);

/// Returns the features of this processor; all false on another architecture than x86-64. Read once per process.
const CpuFeatures& cpu_features();

/// Removes from `features` what `max_isa`, a value of ONEDNN_MAX_CPU_ISA, forbids. Like oneDNN, ignores letter case and
/// takes an unknown value for no limit: https://uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html
CpuFeatures limit_to_onednn_isa(CpuFeatures features, const std::string& max_isa);

/// Returns the features that oneDNN may use in this process: cpu_features() less what ONEDNN_MAX_CPU_ISA forbids.
const CpuFeatures& onednn_features();

/// Returns the name of the best oneDNN instruction set within `features`, spelt as ONEDNN_MAX_CPU_ISA spells it.
std::string onednn_isa(const CpuFeatures& features);

/// Whether the processor multiplies matrices of this 16-bit type by instructions of its own. Otherwise the type is
/// emulated, 50-100 times slower.
bool multiplies_bf16(const CpuFeatures& features);
bool multiplies_fp16(const CpuFeatures& features);

/// Whether Intel made the processor. Its libraries and its instructions' speeds differ from others'.
bool is_intel();

/// Returns the processor's name, for instance "AMD EPYC", or "unknown CPU".
std::string cpu_name();

}  // namespace trainctl::machine
