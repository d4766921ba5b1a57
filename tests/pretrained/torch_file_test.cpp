#include "pretrained/torch_file.h"

#include <ATen/ops/arange.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "pretrained/weights_source.h"
#include "runtime/random.h"
#include "support/python.h"
#include "support/temporary_directory.h"

namespace trainctl::pretrained {
namespace {

using testing::TemporaryDirectory;
namespace fs = std::filesystem;

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bytes = [](const at::Tensor& tensor) { return tensor.contiguous().reshape({-1}).view(at::kByte); };
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && bytes(a).equal(bytes(b));
}

void check_same(const checkpoint::TensorMap& read, const checkpoint::TensorMap& expected) {
  CHECK(read.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    REQUIRE(read.contains(name));
    CHECK(same_bits(read.at(name), tensor));
  }
}

TEST_CASE("files of torch.save give the tensors that PyTorch's weights_only loader gives", "[pretrained][reference]") {
  const TemporaryDirectory scratch;
  testing::run_reference("torch_files.py", {"good", scratch.path().string()});
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path())) {
    if (entry.path().extension() != ".pth") continue;
    INFO(entry.path());
    REQUIRE(is_torch_file(entry.path()));
    fs::path expected = entry.path();
    check_same(read_torch_file(entry.path()).tensors,
               checkpoint::read_safetensors(expected.replace_extension("safetensors")));
    ++count;
  }
  CHECK(count == 10);
  CHECK(is_torch_weights(scratch / "state_dict.pth"));
  CHECK(is_torch_weights(scratch / "legacy.pth"));
  CHECK_FALSE(is_torch_weights(scratch / "state_dict.safetensors"));
  CHECK(read_torch_file(scratch / "state_dict.pth").note.empty());
  CHECK(read_torch_file(scratch / "model_key.pth").note == "its 'model'");
  CHECK(read_torch_file(scratch / "averaged.pth").note == "its 'state_dict', not 'state_dict_ema'");
  CHECK(read_torch_file(scratch / "data_parallel.pth").note == "its 'state_dict', without the prefix 'module.'");
  CHECK(read_torch_file(scratch / "compiled.pth").note == "without the prefix '_orig_mod.module.'");
}

TEST_CASE("a file of torch.save may have over 4 GiB", "[pretrained][reference]") {
  const TemporaryDirectory scratch;
  testing::run_reference("torch_files.py", {"large", scratch.path().string()});
  CHECK(is_torch_weights(scratch / "large.pth"));
  const checkpoint::TensorMap tensors = read_torch_file(scratch / "large.pth").tensors;
  CHECK(tensors.at("large").numel() == (std::int64_t{1} << 30) + 4);
  CHECK(tensors.at("behind").equal(at::arange(6).reshape({2, 3})));
}

TEST_CASE("hostile files of torch.save are refused, and nothing of them runs", "[pretrained][reference]") {
  const TemporaryDirectory scratch;
  testing::run_reference("torch_files.py", {"bad", scratch.path().string()});
  const auto refused = nlohmann::json::parse(read_bytes(scratch / "refused.json"));
  CHECK(refused.size() > 50);
  for (const auto& [name, problem] : refused.items()) {
    const fs::path path = scratch / (name + ".pth");
    std::string text = "was read";
    try {
      read_torch_file(path);
    } catch (const core::Error& error) {
      text = error.text();
    }
    INFO(name << ": " << text);
    CHECK(text.find(problem.get<std::string>()) != std::string::npos);
    CHECK(text.find("while reading " + path.string()) != std::string::npos);
  }
  CHECK_FALSE(fs::exists(scratch / "ran"));
  CHECK_FALSE(is_torch_weights(scratch / "script.pth"));
  CHECK(is_torch_weights(scratch / "cut_60.pth"));
}

/// Changes, removes or repeats some bytes, mostly near the pickle or the archive's directory.
std::string mutated(std::string bytes, runtime::Random& random) {
  const auto below = [&](std::size_t count) {
    return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(count)));
  };
  constexpr std::size_t kNear = 2000;
  for (std::size_t left = 1 + below(6); left > 0 && bytes.size() > kNear; --left) {
    std::size_t place = below(below(3) == 0 ? bytes.size() : kNear);
    if (below(4) == 0) place = bytes.size() - 1 - below(kNear);
    const std::string piece = bytes.substr(below(bytes.size()), 1 + below(8));
    switch (below(5)) {
      case 0:
        bytes[place] = static_cast<char>(below(256));
        break;
      case 1:
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << below(8)));
        break;
      case 2:
        bytes.insert(place, piece);
        break;
      case 3:
        bytes.replace(place, piece.size(), piece);
        break;
      default:
        if (below(8) == 0) bytes.resize(place);
    }
  }
  return bytes;
}

TEST_CASE("files of torch.save with changed bytes are read or refused", "[pretrained][reference]") {
  const TemporaryDirectory scratch;
  testing::run_reference("torch_files.py", {"good", scratch.path().string()});
  runtime::Random random(1);
  int num_read = 0;
  int num_refused = 0;
  for (const char* name : {"state_dict.pth", "legacy.pth", "data_parallel.pth", "protocol4.pth"}) {
    const std::string bytes = read_bytes(scratch / name);
    for (int i = 0; i < 500; ++i) {
      scratch.write("mutated.pth", mutated(bytes, random));
      if (!is_torch_file(scratch / "mutated.pth")) continue;
      try {
        for (const auto& [key, tensor] : read_torch_file(scratch / "mutated.pth").tensors) tensor.contiguous().clone();
        ++num_read;
      } catch (const core::Error&) {
        ++num_refused;
      }
    }
  }
  CHECK(num_read > 50);
  CHECK(num_refused > 500);
}

TEST_CASE("a directory may have its weights in shards of torch.save, as Hugging Face writes them",
          "[pretrained][reference]") {
  const TemporaryDirectory scratch;
  testing::run_reference("torch_files.py", {"good", scratch.path().string()});
  const fs::path directory = scratch / "model";
  fs::create_directory(directory);
  fs::copy(scratch / "state_dict.pth", directory / "pytorch_model.bin");
  check_same(open_weights(directory).tensors, checkpoint::read_safetensors(scratch / "state_dict.safetensors"));

  fs::rename(directory / "pytorch_model.bin", directory / "pytorch_model-00001-of-00002.bin");
  fs::copy(scratch / "legacy.pth", directory / "pytorch_model-00002-of-00002.bin");
  nlohmann::json index;
  checkpoint::TensorMap expected;
  for (const auto& [file, source] : {std::pair("pytorch_model-00001-of-00002.bin", "state_dict.safetensors"),
                                     std::pair("pytorch_model-00002-of-00002.bin", "legacy.safetensors")})
    for (const auto& [name, tensor] : checkpoint::read_safetensors(scratch / source)) {
      index["weight_map"][name] = file;
      expected[name] = tensor;
    }
  std::ofstream(directory / "pytorch_model.bin.index.json") << index;
  check_same(open_weights(directory).tensors, expected);
}

}  // namespace
}  // namespace trainctl::pretrained
