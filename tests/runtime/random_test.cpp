#include "runtime/random.h"

#include <array>
#include <catch2/catch.hpp>
#include <set>

namespace trainctl::runtime {
namespace {

TEST_CASE("mix is SplitMix64", "[runtime]") {
  // The first outputs of the reference implementation (https://prng.di.unimi.it/splitmix64.c) for the seed 1234567:
  // its state grows by the golden gamma before each.
  constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15ULL;
  constexpr std::array<std::uint64_t, 5> expected{6457827717110365317ULL, 3203168211198807973ULL,
                                                  9817491932198370423ULL, 4593380528125082431ULL,
                                                  16408922859458223821ULL};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(mix(1234567 + i * kGamma) == expected[i]);
  CHECK(mix(0) == 0xe220a8397b1dcdafULL);
}

TEST_CASE("keys differ by every part and by order", "[runtime]") {
  const std::set<std::uint64_t> keys{mix(1, 2), mix(2, 1), mix(1, 2, 0), mix(1, 2, 3), mix(1, 3, 2), mix(0, 0), mix(0)};
  CHECK(keys.size() == 7);
}

TEST_CASE("names hash as FNV-1a", "[runtime]") {
  CHECK(key_of("") == 0xcbf29ce484222325ULL);
  CHECK(key_of("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(key_of("foobar") == 0x85944171f73967e8ULL);
}

TEST_CASE("a stream is a function of its key alone", "[runtime]") {
  Random a(42);
  Random b(42);
  Random other(43);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = a.next();
    CHECK(value == b.next());
    CHECK(value != other.next());
  }
}

TEST_CASE("below is uniform and stays below", "[runtime]") {
  constexpr std::int64_t kBins = 10;
  constexpr int kDraws = 100'000;
  Random random(mix(1, key_of("below")));
  std::array<int, kBins> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(random.below(kBins)));
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - kDraws / kBins, 2) / (kDraws / kBins);
  CHECK(chi_square < 27.9);  // 9 degrees of freedom: p = 0.001
  CHECK(random.below(1) == 0);
}

TEST_CASE("uniform and normal numbers have their distribution's moments", "[runtime]") {
  constexpr int kDraws = 200'000;
  Random random(mix(2, key_of("moments")));
  double uniform_sum = 0;
  double sum = 0;
  double squares = 0;
  double cubes = 0;
  double fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double uniform = random.uniform();
    REQUIRE((uniform >= 0 && uniform < 1));
    uniform_sum += uniform;
    const double x = random.normal();
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
  }
  CHECK(uniform_sum / kDraws == Approx(0.5).margin(0.003));
  CHECK(sum / kDraws == Approx(0).margin(0.01));
  CHECK(squares / kDraws == Approx(1).margin(0.015));
  CHECK(cubes / kDraws == Approx(0).margin(0.04));
  CHECK(fourths / kDraws == Approx(3).margin(0.1));
}

}  // namespace
}  // namespace trainctl::runtime
