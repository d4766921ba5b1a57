// What benchmarks/tokenize_compare.py times: a tokenizer over a corpus of pieces, each with its size in four bytes
// before it. Prints the seconds of a second pass, the first one warms.
//   tokenize_speed TOKENIZER CORPUS encode|ids
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "tokenizer/tokenizer.h"

using namespace trainctl;

namespace {

std::vector<std::string_view> pieces_of(std::string_view corpus) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < corpus.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, corpus.data() + at, sizeof size);
    pieces.push_back(corpus.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return pieces;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto tokenizer = tokenizer::load_tokenizer(argv[1]);
  const std::string corpus = core::read_file(argv[2]);
  const std::vector<std::string_view> pieces = pieces_of(corpus);
  const bool only_ids = std::string_view(argv[3]) == "ids";
  std::vector<std::int32_t> ids;
  std::chrono::duration<double> seconds{};
  for (int pass = 0; pass < 2; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string_view piece : pieces) {
      ids.clear();
      if (only_ids)
        tokenizer->append_ids(piece, ids);
      else
        ids = tokenizer->encode(piece, {tokenizer::SpecialTokens::add, std::nullopt}).ids;
    }
    seconds = std::chrono::steady_clock::now() - begin;
  }
  std::printf("%.9f\n", seconds.count());
}
