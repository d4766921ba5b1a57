#include "checkpoint/safetensors_dtype.h"

#include <utility>

namespace trainctl::checkpoint {
namespace {

constexpr std::pair<std::string_view, at::ScalarType> kNames[] = {
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U64", at::kUInt64},
    {"U32", at::kUInt32},
    {"U16", at::kUInt16},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"F8_E8M0", at::kFloat8_e8m0fnu},
};

}  // namespace

std::string_view safetensors_name(at::ScalarType dtype) {
  for (const auto& [name, known] : kNames)
    if (known == dtype) return name;
  return "";
}

std::optional<at::ScalarType> safetensors_dtype(std::string_view name) {
  for (const auto& [known, dtype] : kNames)
    if (known == name) return dtype;
  return std::nullopt;
}

}  // namespace trainctl::checkpoint
