#include "checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <fstream>
#include <random>

#include "core/error.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

using Catch::Matchers::Contains;
using testing::TemporaryDirectory;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

TensorMap samples() {
  TensorMap tensors;
  for (const at::ScalarType dtype :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte,
        at::kBool, at::kUInt16, at::kUInt32, at::kUInt64, at::kFloat8_e4m3fn, at::kFloat8_e5m2})
    tensors[std::string("of ") + c10::toString(dtype)] = at::randn({3, 5}).mul(3).to(dtype);
  tensors["scalar"] = at::ones({});
  tensors["empty"] = at::zeros({0, 4});
  tensors["channels last"] = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  tensors["transposed"] = at::randn({4, 6}).t();
  tensors["sliced"] = at::arange(20).slice(0, 1, 20, 3);
  tensors["expanded"] = at::randn({1, 4}).expand({3, 4});
  tensors["needs grad"] = at::randn({2}).requires_grad_();
  tensors["naïve \"quoted\" \\ name"] = at::ones({1}, at::kByte);
  return tensors;
}

void write_raw(const std::filesystem::path& path, const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size) << header << data;
}

TEST_CASE("every dtype and layout comes back bit for bit", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const TensorMap tensors = samples();
  const std::string sum =
      write_safetensors(scratch / "a.safetensors", tensors, {{"format", "pt"}}, core::Durability::process);
  CHECK(sum == core::checksum_file(scratch / "a.safetensors"));
  const TensorMap back = read_safetensors(scratch / "a.safetensors");
  REQUIRE(back.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    INFO(name);
    REQUIRE(back.contains(name));
    CHECK(same_bits(back.at(name), tensor));
    CHECK(back.at(name).is_contiguous());
    CHECK(reinterpret_cast<std::uintptr_t>(back.at(name).const_data_ptr()) % tensor.element_size() == 0);
  }
}

TEST_CASE("an empty set of tensors is a valid file", "[checkpoint]") {
  const TemporaryDirectory scratch;
  write_safetensors(scratch / "a", {}, {}, core::Durability::disk);
  CHECK(read_safetensors(scratch / "a").empty());
}

TEST_CASE("tensors outlive the file, and writing to them leaves it alone", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const at::Tensor original = at::randn({1000});
  const std::string sum = write_safetensors(scratch / "a", {{"x", original}}, {}, core::Durability::process);
  at::Tensor mapped = read_safetensors(scratch / "a").at("x");
  mapped.mul_(2);
  CHECK(core::checksum_file(scratch / "a") == sum);
  std::filesystem::remove(scratch / "a");
  CHECK(mapped.equal(original.mul(2)));
}

TEST_CASE("tensors that a file doesn't align are read all the same", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const double value = 1.5;
  std::string data = "\x01";
  data.append(reinterpret_cast<const char*>(&value), sizeof value);
  write_raw(
      scratch / "a",
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
      data);
  CHECK(read_safetensors(scratch / "a").at("x").item<double>() == 1.5);
}

TEST_CASE("what a broken header says wrong is told with the tensor and the offset", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const auto message = [&](const std::string& header, const std::string& data = std::string(8, '\0')) -> std::string {
    write_raw(scratch / "a", header, data);
    try {
      read_safetensors(scratch / "a");
    } catch (const core::Error& error) {
      CHECK_THAT(error.what(), Contains((scratch / "a").string()));
      return error.what();
    }
    return "no error";
  };
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  CHECK(message(one("\"F32\"", "[2]", "[0,8]")) == "no error");
  CHECK_THAT(message("[]"), Contains("not a JSON object"));
  CHECK_THAT(message("{"), Contains("not JSON"));
  CHECK_THAT(message(std::string(1000, '[')), Contains("nests too deep"));
  CHECK_THAT(message(R"({"x":1})"), Contains("tensor x: the entry is not an object"));
  CHECK_THAT(message(one("\"F33\"", "[2]", "[0,8]")), Contains("unknown dtype F33"));
  CHECK_THAT(message(one("7", "[2]", "[0,8]")), Contains("no dtype"));
  CHECK_THAT(message(one("\"F32\"", "[3]", "[0,8]")), Contains("the shape takes 12 bytes") && Contains("has 8"));
  CHECK_THAT(message(one("\"F32\"", "[-2]", "[0,8]")), Contains("shape holds a value that is not a count"));
  CHECK_THAT(message(one("\"F32\"", "[2.0]", "[0,8]")), Contains("not a count"));
  CHECK_THAT(message(one("\"F32\"", "2", "[0,8]")), Contains("no list of numbers as shape"));
  CHECK_THAT(message(one("\"F32\"", "[4294967296,4294967296]", "[0,0]")), Contains("too large"));
  CHECK_THAT(message(one("\"F32\"", "[0,9223372036854775807,9]", "[0,0]"), ""), Contains("too large"));
  CHECK_THAT(message(one("\"F32\"", "[2]", "[0,9]")), Contains("overrun the data, which has 8 bytes"));
  CHECK_THAT(message(one("\"F32\"", "[2]", "[8,0]")), Contains("overrun"));
  CHECK_THAT(message(one("\"F32\"", "[2]", "[0]")), Contains("not two numbers"));
  CHECK_THAT(message(one("\"F32\"", "[1]", "[4,8]")), Contains("leaves a hole before it at byte"));
  CHECK_THAT(message(one("\"F32\"", "[1]", "[0,4]")), Contains("the tensors end at byte"));
  CHECK_THAT(message(R"({"x":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                     R"("y":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
             Contains("tensor y: overlaps another at byte"));
  CHECK_THAT(
      message(
          R"({"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})"),
      Contains("tensor x: listed twice"));
  const std::string right = one("\"F32\"", "[2]", "[0,8]");
  CHECK_THAT(message("\xef\xbb\xbf" + right), Contains("byte order mark"));
  CHECK_THAT(message(right + std::string(2, '\0')), Contains("zero byte"));
  CHECK(message(right + "  ") == "no error");
  CHECK_THAT(message(R"({"x":{"dtype":"I32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
             Contains("tensor x: has dtype twice"));
  for (const std::string metadata : {R"({"a":1})", R"(["a"])", R"("a")", R"({"a":{"b":"c"}})", "7"})
    CHECK_THAT(message("{\"__metadata__\":" + metadata + "," + right.substr(1)), Contains("__metadata__"));
  CHECK(message(R"({"__metadata__":{"a":"b"},)" + right.substr(1)) == "no error");
  CHECK_THAT(message(one("\"BOOL\"", "[8]", "[0,8]"), std::string("\0\1\0\7\0\0\0\0", 8)),
             Contains("neither true nor false at byte"));
}

TEST_CASE("files too short for their header, directories and missing files are told apart", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const auto write = [&](const std::string& bytes) { std::ofstream(scratch / "a", std::ios::binary) << bytes; };
  write("");
  CHECK_THROWS_WITH(read_safetensors(scratch / "a"), Contains("got 0 bytes"));
  write("\x02\0\0");
  CHECK_THROWS_WITH(read_safetensors(scratch / "a"), Contains("the header's length alone takes 8"));
  write(std::string("\x09\0\0\0\0\0\0\0{}", 10));
  CHECK_THROWS_WITH(read_safetensors(scratch / "a"),
                    Contains("header length 9 at byte 0 overruns the file of 10 bytes"));
  write(std::string(8, '\xff'));
  CHECK_THROWS_WITH(read_safetensors(scratch / "a"), Contains("is over 100000000"));
  CHECK_THROWS_WITH(read_safetensors(scratch.path()), Contains("it is a directory"));
  CHECK_THROWS_WITH(read_safetensors(scratch / "none"), Contains("No such file"));
}

TEST_CASE("mutated files are read or refused, never more", "[checkpoint]") {
  const TemporaryDirectory scratch;
  write_safetensors(scratch / "a", samples(), {{"format", "pt"}}, core::Durability::process);
  const std::string good = core::read_file(scratch / "a");
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::size_t refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = good;
    for (std::size_t change = 0; change <= below(4); ++change) {
      const std::size_t at = below(2) == 0 ? below(bytes.size()) : below(std::min<std::size_t>(bytes.size(), 1500));
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes[at] = "0123456789[]{},:\"-e."[below(20)];
          break;
        case 2:
          bytes.resize(at + 1);
          break;
        case 3:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
          break;
        default:
          bytes.erase(at, below(40));
          break;
      }
      if (bytes.empty()) bytes = "x";
    }
    std::ofstream(scratch / "b", std::ios::binary) << bytes;
    try {
      for (const auto& [name, tensor] : read_safetensors(scratch / "b")) tensor.clone();
    } catch (const core::Error&) {
      ++refused;
    }
  }
  CHECK(refused > 500);
}

}  // namespace
}  // namespace trainctl::checkpoint
