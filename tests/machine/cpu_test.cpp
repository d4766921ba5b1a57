#include "machine/cpu.h"

#include <catch2/catch.hpp>

namespace trainctl::machine {
namespace {

constexpr std::uint32_t bit(int number) {
  return 1U << number;
}

/// CPUID of a processor with AVX2 and AVX-512, on a system that saves `xcr0`.
CpuidLeaves avx512_processor(std::uint64_t xcr0) {
  return {.leaf1_ecx = bit(12) | bit(19) | bit(20) | bit(27) | bit(28) | bit(29),
          .leaf7_ebx = bit(5) | bit(16) | bit(17) | bit(30) | bit(31),
          .leaf7_ecx = bit(11),
          .leaf7_edx = bit(22) | bit(24) | bit(25),
          .leaf7_1_eax = bit(5),
          .xcr0 = xcr0};
}

TEST_CASE("an instruction set counts only if the system saves its registers", "[machine]") {
  const CpuFeatures all = decode_features(avx512_processor(0x600e7));
  CHECK(all.avx2);
  CHECK(all.fma);
  CHECK(all.f16c);
  CHECK(all.avx512_core());
  CHECK(all.avx512_vnni);
  CHECK(all.avx512_bf16);
  CHECK(all.amx_bf16);

  const CpuFeatures without_amx = decode_features(avx512_processor(0xe7));
  CHECK(without_amx.avx512_bf16);
  CHECK_FALSE(without_amx.amx_tile);
  CHECK_FALSE(without_amx.amx_bf16);

  const CpuFeatures without_zmm = decode_features(avx512_processor(0x7));
  CHECK(without_zmm.avx2);
  CHECK_FALSE(without_zmm.avx512f);
  CHECK_FALSE(without_zmm.avx512_bf16);

  const CpuFeatures without_ymm = decode_features(avx512_processor(0x3));
  CHECK(without_ymm.sse4_2);
  CHECK_FALSE(without_ymm.avx);
  CHECK_FALSE(without_ymm.fma);
  CHECK_FALSE(without_ymm.avx2);
}

TEST_CASE("a processor without any leaf has no feature", "[machine]") {
  CHECK(decode_features({}) == CpuFeatures{});
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
TEST_CASE("decoded features agree with the compiler's own look at this processor", "[machine]") {
  const CpuFeatures& features = cpu_features();
  CHECK(features.sse4_1 == (__builtin_cpu_supports("sse4.1") != 0));
  CHECK(features.sse4_2 == (__builtin_cpu_supports("sse4.2") != 0));
  CHECK(features.avx == (__builtin_cpu_supports("avx") != 0));
  CHECK(features.fma == (__builtin_cpu_supports("fma") != 0));
  CHECK(features.f16c == (__builtin_cpu_supports("f16c") != 0));
  CHECK(features.avx2 == (__builtin_cpu_supports("avx2") != 0));
  CHECK(features.avx_vnni == (__builtin_cpu_supports("avxvnni") != 0));
  CHECK(features.avx512f == (__builtin_cpu_supports("avx512f") != 0));
  CHECK(features.avx512bw == (__builtin_cpu_supports("avx512bw") != 0));
  CHECK(features.avx512vl == (__builtin_cpu_supports("avx512vl") != 0));
  CHECK(features.avx512dq == (__builtin_cpu_supports("avx512dq") != 0));
  CHECK(features.avx512_vnni == (__builtin_cpu_supports("avx512vnni") != 0));
  CHECK(features.avx512_bf16 == (__builtin_cpu_supports("avx512bf16") != 0));
  CHECK(features.avx512_fp16 == (__builtin_cpu_supports("avx512fp16") != 0));
  CHECK(features.amx_tile == (__builtin_cpu_supports("amx-tile") != 0));
  CHECK(features.amx_int8 == (__builtin_cpu_supports("amx-int8") != 0));
  CHECK(features.amx_bf16 == (__builtin_cpu_supports("amx-bf16") != 0));
}
#endif

TEST_CASE("ONEDNN_MAX_CPU_ISA takes away what lies above its instruction set", "[machine]") {
  const CpuFeatures all = decode_features(avx512_processor(0x600e7));
  CHECK(limit_to_onednn_isa(all, "") == all);
  CHECK(limit_to_onednn_isa(all, "ALL") == all);
  CHECK(limit_to_onednn_isa(all, "no such set") == all);

  const CpuFeatures avx2 = limit_to_onednn_isa(all, "avx2");
  CHECK(avx2.avx2);
  CHECK(avx2.fma);
  CHECK_FALSE(avx2.avx512f);
  CHECK_FALSE(avx2.avx512_vnni);

  const CpuFeatures core = limit_to_onednn_isa(all, "AVX512_CORE");
  CHECK(core.avx512_core());
  CHECK_FALSE(core.avx512_vnni);
  CHECK(limit_to_onednn_isa(all, "AVX512_CORE_VNNI").avx512_vnni);
  CHECK_FALSE(limit_to_onednn_isa(all, "AVX512_CORE_VNNI").avx512_bf16);
  CHECK_FALSE(limit_to_onednn_isa(all, "SSE41").avx);
}

TEST_CASE("the best instruction set of oneDNN is the last whose parts are all there", "[machine]") {
  const CpuFeatures all = decode_features(avx512_processor(0x600e7));
  CHECK(onednn_isa(all) == "AVX512_CORE_BF16");
  CHECK(onednn_isa(limit_to_onednn_isa(all, "AVX2")) == "AVX2");
  CHECK(onednn_isa({.sse4_1 = true}) == "SSE41");
  CHECK(onednn_isa({}) == "none");
}

TEST_CASE("16-bit products are fast only with instructions of their own", "[machine]") {
  CHECK(multiplies_bf16({.avx512_bf16 = true}));
  CHECK(multiplies_bf16({.amx_bf16 = true}));
  CHECK_FALSE(multiplies_bf16({.avx512f = true, .avx512_vnni = true}));
  CHECK(multiplies_fp16({.avx512_fp16 = true}));
  CHECK_FALSE(multiplies_fp16({.avx512_bf16 = true}));
}

TEST_CASE("the processor has a name without blanks around it", "[machine]") {
  const std::string name = cpu_name();
  CHECK_FALSE(name.empty());
  CHECK(name.front() != ' ');
  CHECK(name.back() != ' ');
}

}  // namespace
}  // namespace trainctl::machine
