// What a Span costs when nobody records, but for the log that tells what a hung run was doing, which `train` always
// has: nanoseconds, the best of a few rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "runtime/span.h"
#include "runtime/span_log.h"

int main() {
  const trainctl::runtime::SpanLog log;
  constexpr int kSpans = 1'000'000;
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 7; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kSpans; ++i) const trainctl::runtime::Span span("idle");
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / kSpans);
  }
  std::printf("%.1f\n", best);
}
