#include "cluster/transformer.h"

#include <catch2/catch.hpp>

#include "cases.h"

namespace trainctl::cluster {
namespace {

TEST_CASE("parameters are counted exactly as published models have them", "[cluster]") {
  Transformer gpt3 = gpt(96, 12288, 96);
  gpt3.vocab_size = 50257;
  CHECK(gpt3.num_parameters() == 174'604'259'328);
  CHECK(llama3(32, 4096, 32, 14336).num_parameters() == 8'030'261'248);
  CHECK(llama3(80, 8192, 64, 28672).num_parameters() == 70'553'706'496);
  CHECK(llama3(126, 16384, 128, 53248).num_parameters() == 405'853'388'800);
  Transformer gpt2 = gpt(12, 768, 12);
  gpt2.vocab_size = 50257;
  gpt2.sequence_length = 1024;
  CHECK(gpt2.num_parameters() == 124'439'808);
}

}  // namespace
}  // namespace trainctl::cluster
