#include <set>

#include "dataset/dataset.h"
#include "support/small_files.h"

namespace trainctl::dataset::token_shards_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

template <class Id>
std::string ids(std::int64_t first, std::int64_t count) {
  std::string bytes;
  for (std::int64_t i = first; i < first + count; ++i) {
    const auto id = static_cast<Id>(i);
    bytes.append(reinterpret_cast<const char*>(&id), sizeof id);
  }
  return bytes;
}

std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + tokens;
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + data;
}

DatasetConfig config_of(TokenizedConfig source) {
  DatasetConfig config;
  if (source.vocab_size == 50257) source.vocab_size = 60000;
  config.source = source;
  config.batch_size = 2;
  config.num_workers = 1;
  config.shuffle = false;
  return config;
}

/// Inputs and targets of all batches, row by row.
std::vector<std::vector<std::int64_t>> rows(Loader& loader) {
  std::vector<std::vector<std::int64_t>> all;
  while (std::optional<Batch> batch = loader.next())
    for (std::int64_t i = 0; i < batch->size(); ++i)
      for (const at::Tensor& tensor : {batch->inputs, batch->targets}) {
        const at::Tensor row = tensor.select(0, i).contiguous();
        all.emplace_back(row.const_data_ptr<std::int64_t>(), row.const_data_ptr<std::int64_t>() + row.numel());
      }
  return all;
}

using Rows = std::vector<std::vector<std::int64_t>>;

}  // namespace

TEST_CASE("token files of every kind give next-token sequences, none across files", "[dataset]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> first = {
      directory.write("raw.bin", ids<std::uint16_t>(100, 8)),
      directory.write("gpt2.bin", llmc(20240520, 1, 8, ids<std::uint16_t>(100, 8))),
      directory.write("llama.bin", llmc(20240801, 7, 8, ids<std::uint32_t>(100, 8))),
      directory.write("u2.npy", npy("<u2", "(8,)", ids<std::uint16_t>(100, 8))),
      directory.write("i4.npy", npy("<i4", "(8,)", ids<std::int32_t>(100, 8))),
      directory.write("i8.npy", npy("<i8", "(8,)", ids<std::int64_t>(100, 8)))};
  const std::string second = directory.write("second.bin", ids<std::uint16_t>(200, 4));
  for (const std::string& file : first) {
    INFO(file);
    const Datasets data = build(config_of({.train = {file, second}, .seq_len = 3}), {});
    CHECK(data.train->spec().vocab_size == 60000);
    CHECK(data.train->spec().targets == Targets::next_tokens);
    CHECK(rows(*data.train) ==
          Rows{{100, 101, 102}, {101, 102, 103}, {103, 104, 105}, {104, 105, 106}, {200, 201, 202}, {201, 202, 203}});
  }
  const std::string wide = directory.write("wide.bin", ids<std::uint32_t>(59000, 4));
  CHECK(rows(*build(config_of({.train = {wide}, .token_dtype = TokenDtype::uint32, .seq_len = 3}), {}).train)
            .front()
            .front() == 59000);
}

TEST_CASE("the end of each token file is kept for evaluation", "[dataset]") {
  const TemporaryDirectory directory;
  directory.write("a.bin", ids<std::uint16_t>(0, 101));
  directory.write("b.bin", ids<std::uint16_t>(1000, 101));
  const Datasets data =
      build(config_of({.train = {directory.path().string()}, .eval_fraction = 0.2, .seq_len = 10}), {});
  CHECK(data.train->num_samples() == 16);
  REQUIRE(data.eval->num_samples() == 4);
  const Rows eval = rows(*data.eval);
  CHECK(eval[0].front() == 80);
  CHECK(eval[4].front() == 1080);
}

TEST_CASE("wrong token files are refused with file and place", "[dataset]") {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& name, const std::string& bytes, std::int64_t vocab = 60000) {
    const std::string file = directory.write(name, bytes);
    return error_of([&] { rows(*build(config_of({.train = {file}, .vocab_size = vocab, .seq_len = 3}), {}).train); });
  };
  CHECK_THAT(error("odd.bin", "12345"), Contains("odd.bin has 5 bytes of ids"));
  CHECK_THAT(error("empty.bin", ""), Contains("has no tokens"));
  CHECK_THAT(error("short.bin", ids<std::uint16_t>(0, 3)), Contains("no sequence of 3 tokens"));
  CHECK_THAT(error("big.bin", ids<std::uint16_t>(10, 8), 15), Contains("token 5 (at byte 10) is 15"));
  const std::string good = llmc(20240520, 1, 8, ids<std::uint16_t>(0, 8));
  CHECK_THAT(error("cut.bin", good.substr(0, 1030)), Contains("promises 8 tokens"));
  CHECK_THAT(error("head.bin", good.substr(0, 500)), Contains("ends inside the header"));
  CHECK_THAT(error("version.bin", llmc(20240520, 3, 8, ids<std::uint16_t>(0, 8))), Contains("version 3"));
  const std::string array = npy("<u2", "(8,)", ids<std::uint16_t>(0, 8));
  CHECK_THAT(error("cut.npy", array.substr(0, array.size() - 4)), Contains("promises 8 tokens, but 6 follow"));
  CHECK_THAT(error("float.npy", npy("<f4", "(8,)", ids<std::uint32_t>(0, 8))), Contains("'<f4'"));
  CHECK_THAT(error("flat.npy", npy("<u2", "(4, 2)", ids<std::uint16_t>(0, 8))), Contains("one dim"));
  CHECK_THAT(error("none.npy", "no numpy"), Contains("is no .npy file"));
  for (std::size_t size = 0; size < array.size(); ++size) CHECK(error("x.npy", array.substr(0, size)) != "no error");
}

}  // namespace trainctl::dataset::token_shards_test
