// Activations of a transformer's feed-forward layer, with the bias before them: GELU's two forms and SwiGLU's gate.
#pragma once

#include <cmath>

#include "kernels/device/block.h"
#include "kernels/device/element.h"
#include "kernels/gelu_form.h"

namespace trainctl::kernels::device {

struct ValueAndSlope {
  float value;
  float slope;
};

template <Gelu kForm>
TRAINCTL_DEVICE ValueAndSlope gelu(float x) {
  if constexpr (kForm == Gelu::erf) {
    constexpr float kRootHalf = 0.70710678F;
    constexpr float kDensity = 0.39894228F;  // 1 / √(2π)
    const float share = 0.5F * (1.0F + std::erf(x * kRootHalf));
    return {x * share, share + x * kDensity * std::exp(-0.5F * x * x)};
  } else {
    constexpr float kSlope = 0.79788456F;  // √(2/π)
    constexpr float kCubic = 0.044715F;
    const float square = kCubic * x * x;
    const float bent = std::tanh(kSlope * x * (1.0F + square));
    const float share = 0.5F * (1.0F + bent);
    return {x * share, share + 0.5F * x * (1.0F - bent * bent) * kSlope * (1.0F + 3.0F * square)};
  }
}

/// Which columns and rows a block has, where each thread keeps to a chunk of columns.
class ColumnTiles {
 public:
  TRAINCTL_DEVICE ColumnTiles(const Block& block, std::int64_t chunks)
      : tiles_((chunks + block.threads() - 1) / block.threads()),
        first_chunk_(block.index() % tiles_ * block.threads()),
        chunks_(chunks),
        first_row_(block.index() / tiles_),
        row_blocks_(block.count() / tiles_) {}

  TRAINCTL_DEVICE bool has(int thread) const { return chunk(thread) < chunks_; }
  TRAINCTL_DEVICE std::int64_t chunk(int thread) const { return first_chunk_ + thread; }
  /// The first of the block's rows, which is the block's own number among those with its columns.
  TRAINCTL_DEVICE std::int64_t first_row() const { return first_row_; }
  TRAINCTL_DEVICE std::int64_t row_step() const { return row_blocks_; }

  static Launch launch(std::int64_t rows, std::int64_t chunks, std::int64_t most_blocks) {
    const int threads = std::min(threads_for(chunks), 256);
    const std::int64_t tiles = (chunks + threads - 1) / threads;
    return {.blocks = tiles * std::clamp<std::int64_t>(most_blocks / tiles, 1, rows), .threads = threads};
  }
  /// Blocks that share the columns.
  static std::int64_t row_blocks(const Launch& launch, std::int64_t chunks) {
    return launch.blocks / ((chunks + launch.threads - 1) / launch.threads);
  }

 private:
  std::int64_t tiles_;
  std::int64_t first_chunk_;
  std::int64_t chunks_;
  std::int64_t first_row_;
  std::int64_t row_blocks_;
};

/// output = gelu(input + bias), and in the backward pass input_gradient = output_gradient · gelu'(input + bias). The
/// bias's gradient is the sum of its rows.
struct BiasGeluArguments {
  Gelu form = Gelu::erf;
  Element type = Element::fp32;  // of all but the bias
  std::int64_t rows = 0;
  std::int64_t size = 0;  // of a row: a multiple of `width`
  int width = 1;
  const void* input = nullptr;            // [rows, size]
  const float* bias = nullptr;            // [size]; null: none
  void* output = nullptr;                 // [rows, size]; forward alone
  const void* output_gradient = nullptr;  // [rows, size]; backward alone, as are the others
  void* input_gradient = nullptr;         // [rows, size]
  float* bias_sums = nullptr;             // [row_blocks(), size]; null without a bias

  Launch launch(std::int64_t most_blocks) const { return ColumnTiles::launch(rows, size / width, most_blocks); }
  std::int64_t row_blocks(std::int64_t most_blocks) const {
    return ColumnTiles::row_blocks(launch(most_blocks), size / width);
  }
};

template <class T, Gelu kForm, int kWidth>
struct BiasGeluForward {
  BiasGeluArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    const std::int64_t chunks = given.size / kWidth;
    const ColumnTiles tiles(block, chunks);
    block.each([&](int thread) {
      if (!tiles.has(thread)) return;
      float shifts[kWidth] = {};
      if (given.bias != nullptr) read<kWidth>(given.bias, tiles.chunk(thread), shifts);
      for (std::int64_t row = tiles.first_row(); row < given.rows; row += tiles.row_step()) {
        const std::int64_t at = row * chunks + tiles.chunk(thread);
        float values[kWidth];
        read<kWidth>(static_cast<const T*>(given.input), at, values);
        for (int i = 0; i < kWidth; ++i) values[i] = gelu<kForm>(values[i] + shifts[i]).value;
        write<kWidth>(static_cast<T*>(given.output), at, values);
      }
    });
  }
};

template <class T, Gelu kForm, int kWidth>
struct BiasGeluBackward {
  BiasGeluArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    const std::int64_t chunks = given.size / kWidth;
    const ColumnTiles tiles(block, chunks);
    block.each([&](int thread) {
      if (!tiles.has(thread)) return;
      float shifts[kWidth] = {};
      float sums[kWidth] = {};
      if (given.bias != nullptr) read<kWidth>(given.bias, tiles.chunk(thread), shifts);
      for (std::int64_t row = tiles.first_row(); row < given.rows; row += tiles.row_step()) {
        const std::int64_t at = row * chunks + tiles.chunk(thread);
        float values[kWidth];
        float incoming[kWidth];
        read<kWidth>(static_cast<const T*>(given.input), at, values);
        read<kWidth>(static_cast<const T*>(given.output_gradient), at, incoming);
        for (int i = 0; i < kWidth; ++i) {
          incoming[i] *= gelu<kForm>(values[i] + shifts[i]).slope;
          sums[i] += incoming[i];
        }
        write<kWidth>(static_cast<T*>(given.input_gradient), at, incoming);
      }
      if (given.bias_sums == nullptr) return;
      write<kWidth>(given.bias_sums, tiles.first_row() * chunks + tiles.chunk(thread), sums);
    });
  }
};

/// output = silu(gate) · up (https://arxiv.org/abs/2002.05202), elementwise. With s = sigmoid(gate), the gradients are
/// output_gradient · up · s · (1 + gate · (1 - s)) and output_gradient · gate · s.
struct SwigluArguments {
  Element type = Element::fp32;
  std::int64_t size = 0;  // of each tensor: a multiple of `width`
  int width = 1;
  const void* gate = nullptr;
  const void* up = nullptr;
  void* output = nullptr;                 // forward alone
  const void* output_gradient = nullptr;  // backward alone, as are the others
  void* gate_gradient = nullptr;
  void* up_gradient = nullptr;

  Launch launch(std::int64_t most_blocks) const {
    const int threads = std::min(threads_for(size / width), 256);
    return {.blocks = std::min((size / width + threads - 1) / threads, most_blocks), .threads = threads};
  }
};

/// Calls work(chunk) for the chunks of this block's threads.
template <class Work>
TRAINCTL_DEVICE void each_of_chunks(const Block& block, std::int64_t chunks, const Work& work) {
  block.each([&](int thread) {
    const std::int64_t step = block.count() * block.threads();
    for (std::int64_t at = block.index() * block.threads() + thread; at < chunks; at += step) work(at);
  });
}

template <class T, int kWidth>
struct SwigluForward {
  SwigluArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    each_of_chunks(block, given.size / kWidth, [&](std::int64_t at) {
      float gates[kWidth];
      float values[kWidth];
      read<kWidth>(static_cast<const T*>(given.gate), at, gates);
      read<kWidth>(static_cast<const T*>(given.up), at, values);
      for (int i = 0; i < kWidth; ++i) values[i] *= gates[i] / (1.0F + std::exp(-gates[i]));
      write<kWidth>(static_cast<T*>(given.output), at, values);
    });
  }
};

template <class T, int kWidth>
struct SwigluBackward {
  SwigluArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    each_of_chunks(block, given.size / kWidth, [&](std::int64_t at) {
      float incoming[kWidth];
      float gates[kWidth];
      float ups[kWidth];
      float of_gate[kWidth];
      read<kWidth>(static_cast<const T*>(given.output_gradient), at, incoming);
      read<kWidth>(static_cast<const T*>(given.gate), at, gates);
      read<kWidth>(static_cast<const T*>(given.up), at, ups);
      for (int i = 0; i < kWidth; ++i) {
        const float share = 1.0F / (1.0F + std::exp(-gates[i]));
        of_gate[i] = incoming[i] * ups[i] * share * (1.0F + gates[i] * (1.0F - share));
        incoming[i] *= gates[i] * share;
      }
      write<kWidth>(static_cast<T*>(given.gate_gradient), at, of_gate);
      write<kWidth>(static_cast<T*>(given.up_gradient), at, incoming);
    });
  }
};

/// Calls run(kernel) with the kernel for the arguments: backward where they have a gradient.
template <class Run>
void with_kernel(const BiasGeluArguments& given, const Run& run) {
  with_element(given.type, [&](auto zero) {
    using T = decltype(zero);
    with_constant<Gelu::erf, Gelu::tanh>(given.form, [&](auto form) {
      with_constant<1, 4>(given.width, [&](auto width) {
        given.output_gradient == nullptr ? run(BiasGeluForward<T, form(), width()>{given})
                                         : run(BiasGeluBackward<T, form(), width()>{given});
      });
    });
  });
}
template <class Run>
void with_kernel(const SwigluArguments& given, const Run& run) {
  with_element(given.type, [&](auto zero) {
    using T = decltype(zero);
    with_constant<1, 4>(given.width, [&](auto width) {
      given.output_gradient == nullptr ? run(SwigluForward<T, width()>{given}) : run(SwigluBackward<T, width()>{given});
    });
  });
}

}  // namespace trainctl::kernels::device
