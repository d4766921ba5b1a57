#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "checkpoint/safetensors.h"
#include "support/corpus.h"
#include "support/python.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

using testing::TemporaryDirectory;

/// The same as tests/reference/safetensors_files.py makes.
TensorMap tensors() {
  TensorMap made;
  const std::pair<const char*, at::ScalarType> dtypes[] = {{"float64", at::kDouble},
                                                           {"float32", at::kFloat},
                                                           {"float16", at::kHalf},
                                                           {"bfloat16", at::kBFloat16},
                                                           {"int64", at::kLong},
                                                           {"int32", at::kInt},
                                                           {"int16", at::kShort},
                                                           {"int8", at::kChar},
                                                           {"uint8", at::kByte},
                                                           {"uint16", at::kUInt16},
                                                           {"uint32", at::kUInt32},
                                                           {"uint64", at::kUInt64},
                                                           {"float8_e4m3fn", at::kFloat8_e4m3fn},
                                                           {"float8_e5m2", at::kFloat8_e5m2}};
  const at::Tensor values = at::arange(12).reshape({3, 4});
  for (const auto& [name, dtype] : dtypes) made[name] = values.to(dtype);
  made["bool"] = values.remainder(2).to(at::kBool);
  made["image"] = at::arange(120).reshape({2, 3, 4, 5}).to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  made["scalar"] = at::full({}, 1.5);
  made["empty"] = at::zeros({0, 4});
  return made;
}

void run_official(const std::string& action, const std::filesystem::path& file) {
  testing::run_reference("safetensors_files.py", {action, file.string()});
}

TEST_CASE("the official package reads what we write", "[checkpoint]") {
  const TemporaryDirectory scratch;
  write_safetensors(scratch / "ours", tensors(), {{"format", "pt"}}, core::Durability::process);
  run_official("check", scratch / "ours");
}

TEST_CASE("we read what the official package writes", "[checkpoint]") {
  const TemporaryDirectory scratch;
  run_official("write", scratch / "theirs");
  const TensorMap expected = tensors();
  const TensorMap read = read_safetensors(scratch / "theirs");
  REQUIRE(read.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    REQUIRE(read.contains(name));
    CHECK(read.at(name).scalar_type() == tensor.scalar_type());
    CHECK(read.at(name).sizes() == tensor.sizes());
    CHECK(read.at(name).to(at::kDouble).equal(tensor.to(at::kDouble)));
  }
}

TEST_CASE("odd and damaged files have the tensors that the official package reads, or are refused",
          "[checkpoint][reference]") {
  testing::compare_corpus("safetensors", [](const std::string&, const std::string& path) {
    std::vector<nlohmann::json> tensors;
    for (const auto& [name, tensor] : read_safetensors(path)) {
      std::string bytes;
      for (std::size_t i = 0; i < tensor.nbytes(); ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<const std::uint8_t*>(tensor.const_data_ptr())[i]);
        bytes += digits;
      }
      tensors.push_back(
          nlohmann::json::array({name, safetensors_name(tensor.scalar_type()), tensor.sizes().vec(), bytes}));
    }
    return nlohmann::json(tensors);
  });
}

}  // namespace
}  // namespace trainctl::checkpoint
