// The dtypes of safetensors by their names in the header.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace trainctl::checkpoint {

/// "BF16"; "" for a dtype that the format has no name for.
std::string_view safetensors_name(at::ScalarType dtype);

std::optional<at::ScalarType> safetensors_dtype(std::string_view name);

}  // namespace trainctl::checkpoint
