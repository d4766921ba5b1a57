// Dropout whose mask is a function of an element's place (kernels/dropout.h).
#pragma once

#include "kernels/device/block.h"
#include "kernels/device/element.h"
#include "kernels/device/philox.h"

namespace trainctl::kernels::device {

/// Rows of samples, one behind the other, and the random words of their elements.
struct DropRows {
  /// Place of a row among the elements that words are drawn for.
  struct Place {
    std::uint64_t sample = 0;
    std::uint32_t row = 0;
    std::int64_t element = 0;  // of the row's first
  };

  std::int64_t count = 0;  // of all samples
  std::int64_t per_sample = 1;
  std::int64_t size = 0;
  std::uint64_t key = 0;
  std::int64_t first_sample = 0;
  std::uint32_t threshold = 0;  // words below it zero an element
  std::int64_t heads = 0;       // for attention weights: row h T + t is drawn as number
                                // (first_query + t) all_heads + first_head + h, from element first_key on
  std::int64_t first_head = 0;
  std::int64_t all_heads = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::int64_t run_distance = 0;  // for others: a row is a run of elements
  std::int64_t first_run = 0;

  TRAINCTL_DEVICE Place place(std::int64_t index) const {
    const std::int64_t in_sample = index % per_sample;
    Place place;
    place.sample = static_cast<std::uint64_t>(first_sample + index / per_sample);
    place.element = heads > 0 ? first_key : first_run + in_sample * run_distance;
    if (heads > 0) {
      const std::int64_t length = per_sample / heads;
      place.row =
          static_cast<std::uint32_t>((first_query + in_sample % length) * all_heads + first_head + in_sample / length);
    }
    return place;
  }
  /// Whether all rows begin with the first word of a block.
  bool are_aligned() const { return heads > 0 ? first_key == 0 : run_distance == 0 && first_run == 0; }
  /// Blocks of words that any row's elements take.
  std::int64_t blocks() const { return (size + kWordsPerBlock - 1) / kWordsPerBlock + (are_aligned() ? 0 : 1); }
};

/// output = input · scale, or 0 times it.
struct DropoutArguments {
  DropRows rows;
  Element type = Element::fp32;
  float scale = 1;
  const void* input = nullptr;  // [rows.count, rows.size]
  void* output = nullptr;

  Launch launch(std::int64_t most_blocks) const {
    const std::int64_t counters = rows.count * rows.blocks() * kCountersPerBlock;
    const int threads = std::min(threads_for(counters), 256);
    return {.blocks = std::min((counters + threads - 1) / threads, most_blocks), .threads = threads};
  }
};

/// A thread has one of Philox's counters at a time, and so four elements.
template <class T>
struct Dropout {
  DropoutArguments given;
  std::int64_t counters_per_row;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    block.each([&](int thread) {
      const std::int64_t step = block.count() * block.threads();
      for (std::int64_t at = block.index() * block.threads() + thread; at < given.rows.count * counters_per_row;
           at += step)
        drop(at / counters_per_row, at % counters_per_row);
    });
  }

 private:
  TRAINCTL_DEVICE void drop(std::int64_t row, std::int64_t counter) const {
    const DropRows& rows = given.rows;
    const auto place = rows.place(row);
    const std::int64_t number = place.element / kWordsPerBlock * kCountersPerBlock + counter;
    std::uint32_t words[4][1] = {{static_cast<std::uint32_t>(number)},
                                 {place.row},
                                 {static_cast<std::uint32_t>(place.sample)},
                                 {static_cast<std::uint32_t>(place.sample >> 32)}};
    philox(words, rows.key);
    const std::int64_t first = number / kCountersPerBlock * kWordsPerBlock + number % kCountersPerBlock - place.element;
    for (int word = 0; word < 4; ++word) {
      const std::int64_t element = first + word * kCountersPerBlock;
      if (element < 0 || element >= rows.size) continue;
      const std::int64_t at = row * rows.size + element;
      const float factor = words[word][0] < rows.threshold ? 0.0F : given.scale;
      static_cast<T*>(given.output)[at] =
          static_cast<T>(static_cast<float>(static_cast<const T*>(given.input)[at]) * factor);
    }
  }
};

template <class Run>
void with_kernel(const DropoutArguments& given, const Run& run) {
  with_element(given.type, [&](auto zero) {
    run(Dropout<decltype(zero)>{given, given.rows.blocks() * kCountersPerBlock});
  });
}

}  // namespace trainctl::kernels::device
