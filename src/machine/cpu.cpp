#include "machine/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "core/text.h"
#include "machine/kernel_files.h"

namespace trainctl::machine {
namespace {

constexpr std::uint64_t kAvxState = 0x6;           // XMM and YMM registers
constexpr std::uint64_t kAvx512State = 0xe6;       // with the mask and ZMM registers
constexpr std::uint64_t kAmxState = 0x60000;       // tile configuration and data
constexpr std::uint32_t kOsSavesState = 1U << 27;  // OSXSAVE, in leaf 1 ECX

bool has_bit(std::uint32_t word, int bit) {
  return ((word >> bit) & 1U) != 0;
}

#if defined(__x86_64__)
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// Returns zeros for a leaf beyond the processor's last.
Registers cpuid(unsigned leaf, unsigned sub_leaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, sub_leaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

std::uint64_t read_xcr0() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

CpuidLeaves read_leaves() {
  const Registers leaf1 = cpuid(1);
  const Registers leaf7 = cpuid(7);
  const Registers leaf7_1 = leaf7.eax >= 1 ? cpuid(7, 1) : Registers{};
  return {.leaf1_ecx = leaf1.ecx,
          .leaf7_ebx = leaf7.ebx,
          .leaf7_ecx = leaf7.ecx,
          .leaf7_edx = leaf7.edx,
          .leaf7_1_eax = leaf7_1.eax,
          .leaf7_1_edx = leaf7_1.edx,
          .xcr0 = (leaf1.ecx & kOsSavesState) != 0 ? read_xcr0() : 0};
}

/// Returns the 48 characters of leaves 0x80000002 to 0x80000004, or "" if the processor lacks them.
std::string brand_string() {
  constexpr unsigned kFirst = 0x80000002;
  if (cpuid(0x80000000).eax < kFirst + 2) return "";
  std::array<Registers, 3> leaves;
  for (unsigned i = 0; i < leaves.size(); ++i) leaves[i] = cpuid(kFirst + i);
  std::array<char, sizeof leaves + 1> text{};
  std::memcpy(text.data(), leaves.data(), sizeof leaves);
  return text.data();
}
#else
CpuidLeaves read_leaves() {
  return {};
}
std::string brand_string() {
  return "";
}
#endif

/// Instruction set by oneDNN's name, with the CPU features that it uses.
struct OneDnnIsa {
  const char* name;
  CpuFeatures features;
};

/// Returns the instruction sets in ascending order. Each contains those before it, except that the AVX2 sets with VNNI
/// are not part of AVX512_CORE.
std::array<OneDnnIsa, 10> onednn_isas() {
  const CpuFeatures sse{.sse4_1 = true};
  CpuFeatures avx = sse;
  avx.sse4_2 = avx.avx = true;
  CpuFeatures avx2 = avx;
  avx2.f16c = avx2.fma = avx2.avx2 = true;
  CpuFeatures avx2_vnni = avx2;
  avx2_vnni.avx_vnni = true;
  CpuFeatures avx2_vnni_2 = avx2_vnni;
  avx2_vnni_2.avx_ne_convert = true;
  CpuFeatures core = avx2;
  core.avx512f = core.avx512bw = core.avx512vl = core.avx512dq = true;
  CpuFeatures vnni = core;
  vnni.avx512_vnni = true;
  CpuFeatures bf16 = vnni;
  bf16.avx512_bf16 = true;
  CpuFeatures fp16 = bf16;
  fp16.avx512_fp16 = fp16.avx_vnni = true;
  CpuFeatures amx = fp16;
  amx.amx_tile = amx.amx_int8 = amx.amx_bf16 = true;
  return {{{"SSE41", sse},
           {"AVX", avx},
           {"AVX2", avx2},
           {"AVX2_VNNI", avx2_vnni},
           {"AVX2_VNNI_2", avx2_vnni_2},
           {"AVX512_CORE", core},
           {"AVX512_CORE_VNNI", vnni},
           {"AVX512_CORE_BF16", bf16},
           {"AVX512_CORE_FP16", fp16},
           {"AVX512_CORE_AMX", amx}}};
}

constexpr std::array<NamedFeature, sizeof(CpuFeatures)> kFeatures{{
    {"sse4_1", "SSE4.1", &CpuFeatures::sse4_1},
    {"sse4_2", "SSE4.2", &CpuFeatures::sse4_2},
    {"avx", "AVX", &CpuFeatures::avx},
    {"f16c", "F16C", &CpuFeatures::f16c},
    {"fma", "FMA", &CpuFeatures::fma},
    {"avx2", "AVX2", &CpuFeatures::avx2},
    {"avx_vnni", "AVX-VNNI", &CpuFeatures::avx_vnni},
    {"avx_ne_convert", "AVX-NE-CONVERT", &CpuFeatures::avx_ne_convert},
    {"avx512f", "AVX-512F", &CpuFeatures::avx512f},
    {"avx512bw", "AVX-512BW", &CpuFeatures::avx512bw},
    {"avx512vl", "AVX-512VL", &CpuFeatures::avx512vl},
    {"avx512dq", "AVX-512DQ", &CpuFeatures::avx512dq},
    {"avx512_vnni", "AVX-512 VNNI", &CpuFeatures::avx512_vnni},
    {"avx512_bf16", "AVX-512 BF16", &CpuFeatures::avx512_bf16},
    {"avx512_fp16", "AVX-512 FP16", &CpuFeatures::avx512_fp16},
    {"amx_tile", "AMX-TILE", &CpuFeatures::amx_tile},
    {"amx_int8", "AMX-INT8", &CpuFeatures::amx_int8},
    {"amx_bf16", "AMX-BF16", &CpuFeatures::amx_bf16},
    {"amx_fp16", "AMX-FP16", &CpuFeatures::amx_fp16},
}};
static_assert(kFeatures.back().member != nullptr, "a member of CpuFeatures is missing here");

CpuFeatures intersect(CpuFeatures features, const CpuFeatures& allowed) {
  for (const NamedFeature& feature : kFeatures)
    features.*feature.member = features.*feature.member && allowed.*feature.member;
  return features;
}

bool contains(const CpuFeatures& features, const CpuFeatures& needed) {
  return intersect(needed, features) == needed;
}

}  // namespace

std::span<const NamedFeature> named_features() {
  return kFeatures;
}

CpuFeatures decode_features(const CpuidLeaves& leaves) {
  const auto saves = [&](std::uint64_t state) {
    return (leaves.leaf1_ecx & kOsSavesState) != 0 && (leaves.xcr0 & state) == state;
  };
  const bool avx = saves(kAvxState) && has_bit(leaves.leaf1_ecx, 28);
  const bool avx2 = avx && has_bit(leaves.leaf7_ebx, 5);
  const bool avx512f = saves(kAvx512State) && has_bit(leaves.leaf7_ebx, 16);
  const bool amx = saves(kAmxState) && has_bit(leaves.leaf7_edx, 24);
  return {.sse4_1 = has_bit(leaves.leaf1_ecx, 19),
          .sse4_2 = has_bit(leaves.leaf1_ecx, 20),
          .avx = avx,
          .f16c = avx && has_bit(leaves.leaf1_ecx, 29),
          .fma = avx && has_bit(leaves.leaf1_ecx, 12),
          .avx2 = avx2,
          .avx_vnni = avx2 && has_bit(leaves.leaf7_1_eax, 4),
          .avx_ne_convert = avx2 && has_bit(leaves.leaf7_1_edx, 5),
          .avx512f = avx512f,
          .avx512bw = avx512f && has_bit(leaves.leaf7_ebx, 30),
          .avx512vl = avx512f && has_bit(leaves.leaf7_ebx, 31),
          .avx512dq = avx512f && has_bit(leaves.leaf7_ebx, 17),
          .avx512_vnni = avx512f && has_bit(leaves.leaf7_ecx, 11),
          .avx512_bf16 = avx512f && has_bit(leaves.leaf7_1_eax, 5),
          .avx512_fp16 = avx512f && has_bit(leaves.leaf7_edx, 23),
          .amx_tile = amx,
          .amx_int8 = amx && has_bit(leaves.leaf7_edx, 25),
          .amx_bf16 = amx && has_bit(leaves.leaf7_edx, 22),
          .amx_fp16 = amx && has_bit(leaves.leaf7_1_eax, 21)};
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = decode_features(read_leaves());
  return features;
}

CpuFeatures limit_to_onednn_isa(CpuFeatures features, const std::string& max_isa) {
  std::string name = max_isa;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const OneDnnIsa& isa : onednn_isas())
    if (name == isa.name) return intersect(features, isa.features);
  return features;
}

const CpuFeatures& onednn_features() {
  static const CpuFeatures features = [] {
    const char* max_isa = std::getenv("ONEDNN_MAX_CPU_ISA");
    if (max_isa == nullptr) max_isa = std::getenv("DNNL_MAX_CPU_ISA");  // the older name, which oneDNN still reads
    return limit_to_onednn_isa(cpu_features(), max_isa == nullptr ? "" : max_isa);
  }();
  return features;
}

std::string onednn_isa(const CpuFeatures& features) {
  std::string best = "none";
  for (const OneDnnIsa& isa : onednn_isas())
    if (contains(features, isa.features)) best = isa.name;
  return best;
}

bool multiplies_bf16(const CpuFeatures& features) {
  return features.avx512_bf16 || features.amx_bf16;
}

bool multiplies_fp16(const CpuFeatures& features) {
  return features.avx512_fp16 || features.amx_fp16;
}

bool is_intel() {
#if defined(__x86_64__)
  static const bool is_intel = __builtin_cpu_is("intel") != 0;
  return is_intel;
#else
  return false;
#endif
}

std::string cpu_name() {
  std::string name(core::trimmed(brand_string()));
  if (name.empty()) name = value_of_key(text_or_empty("/proc/cpuinfo"), "model name");
  return name.empty() ? "unknown CPU" : name;
}

}  // namespace trainctl::machine
