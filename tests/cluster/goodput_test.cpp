#include "cluster/goodput.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "cases.h"

namespace trainctl::cluster {
namespace {

TEST_CASE("the best interval is that of Young and Daly where checkpoints are short", "[cluster]") {
  for (const double mean : {3600.0, 36e3, 360e3})
    for (const double checkpoint : {1e-4 * mean, 1e-3 * mean}) {
      const Interruptions interruptions{.mean_time_between = mean, .checkpoint = checkpoint, .restart = 300};
      CHECK(best_goodput(interruptions).interval == Approx(young_daly_interval(interruptions)).epsilon(0.04));
    }
}

TEST_CASE("no other interval trains more, and the shares add up to one", "[cluster]") {
  const Interruptions interruptions{.mean_time_between = 11'000, .checkpoint = 60, .restart = 600};
  const Goodput best = best_goodput(interruptions);
  for (const double factor : {0.25, 0.5, 0.9, 1.1, 2.0, 4.0}) {
    const Goodput other = goodput_at(interruptions, best.interval * factor);
    CHECK(other.training < best.training);
    CHECK(other.training + other.checkpointing + other.lost == Approx(1));
  }
}

TEST_CASE("the expected share is that of simulated interruptions", "[cluster]") {
  const Interruptions interruptions{.mean_time_between = 2'000, .checkpoint = 50, .restart = 200};
  std::mt19937_64 random(7);
  std::exponential_distribution<double> until_next(1 / interruptions.mean_time_between);
  const double interval = 400;
  double time = 0;
  double trained = 0;
  double next = until_next(random);
  while (time < 2e8) {
    if (time + interval + interruptions.checkpoint <= next) {
      time += interval + interruptions.checkpoint;
      trained += interval;
      continue;
    }
    time = next;
    next = time + until_next(random);
    while (time + interruptions.restart > next) {
      time = next;
      next = time + until_next(random);
    }
    time += interruptions.restart;
  }
  CHECK(goodput_at(interruptions, interval).training == Approx(trained / time).epsilon(0.01));
}

TEST_CASE("more devices fail more often, and need more spares", "[cluster]") {
  const Transformer model = llama3(126, 16384, 128, 53248);
  const Interruptions llama = interruptions_of(builtin_tables(), model, 16384, 8);
  CHECK(llama.mean_time_between == Approx(54 * 24 * 3600.0 / 419).epsilon(0.01));  // arXiv 2407.21783, table 5
  CHECK(interruptions_of(builtin_tables(), model, 256, 8).mean_time_between == Approx(64 * llama.mean_time_between));
  CHECK(spare_nodes(1e9, 3600) == 0);
  CHECK(spare_nodes(3600, 24 * 3600) > 24);
  CHECK(spare_nodes(3600, 24 * 3600) < 48);
  CHECK_THROWS(find_failures(builtin_tables(), "llama"));
}

}  // namespace
}  // namespace trainctl::cluster
