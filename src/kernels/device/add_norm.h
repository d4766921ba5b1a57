// A residual connection with the layer or RMS norm behind it, in one pass each way.
#pragma once

#include <cmath>

#include "kernels/device/block.h"
#include "kernels/device/element.h"

namespace trainctl::kernels::device {

/// https://arxiv.org/abs/1607.06450 and https://arxiv.org/abs/1910.07467.
enum class Norm { layer, rms };

/// Rows are normalized: sum = residual + branch, normed = norm(sum) · weight + bias.
struct AddNormForwardArguments {
  Norm norm = Norm::layer;
  Element branch_type = Element::fp32;
  Element normed_type = Element::fp32;  // the branch's, or fp32
  std::int64_t rows = 0;
  std::int64_t size = 0;  // of a row: a multiple of `width`
  int width = 1;          // neighbours that a thread reads at once, 1 or 4: what the alignment allows
  float epsilon = 0;
  const float* residual = nullptr;  // [rows, size]; null: the sum is the branch, which is fp32 then
  const void* branch = nullptr;     // [rows, size]
  const float* weight = nullptr;    // [size]
  const float* bias = nullptr;      // [size]; null for rms
  float* sum = nullptr;             // [rows, size]; null without a residual
  void* normed = nullptr;           // [rows, size]
  float* means = nullptr;           // [rows]; null for rms
  float* scales = nullptr;          // [rows]: 1 / standard deviation, or 1 / root mean square

  Launch launch(std::int64_t most_blocks) const {
    return {.blocks = std::min(rows, most_blocks), .threads = threads_for(size / width)};
  }
};

/// A block takes a row at a time.
template <class Branch, class Normed, Norm kNorm, int kWidth>
struct AddNormForward {
  AddNormForwardArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    for (std::int64_t row = block.index(); row < given.rows; row += block.count()) normalize(block, row);
  }

 private:
  TRAINCTL_DEVICE void normalize(const Block& block, std::int64_t row) const {
    const std::int64_t chunks = given.size / kWidth;
    const std::int64_t first = row * chunks;
    const float* summed = given.residual != nullptr ? given.sum : static_cast<const float*>(given.branch);
    Block::PerThread<Sums<1>> part(block);
    block.each([&](int thread) {
      for (std::int64_t at = thread; at < chunks; at += block.threads()) {
        float values[kWidth];
        read<kWidth>(static_cast<const Branch*>(given.branch), first + at, values);
        if (given.residual != nullptr) {
          float more[kWidth];
          read<kWidth>(given.residual, first + at, more);
          for (int i = 0; i < kWidth; ++i) values[i] += more[i];
          write<kWidth>(given.sum, first + at, values);
        }
        for (int i = 0; i < kWidth; ++i)
          part[thread].values[0] += kNorm == Norm::layer ? values[i] : values[i] * values[i];
      }
    });
    float mean = 0;
    float square = block.sum(part).values[0] / static_cast<float>(given.size);
    if constexpr (kNorm == Norm::layer) {
      mean = square;
      // Each thread reads what it wrote itself, which its cache has.
      Block::PerThread<Sums<1>> squares(block);
      block.each([&](int thread) {
        for (std::int64_t at = thread; at < chunks; at += block.threads()) {
          float values[kWidth];
          read<kWidth>(summed, first + at, values);
          for (int i = 0; i < kWidth; ++i) squares[thread].values[0] += (values[i] - mean) * (values[i] - mean);
        }
      });
      square = block.sum(squares).values[0] / static_cast<float>(given.size);
    }
    const float scale = 1.0F / std::sqrt(square + given.epsilon);
    block.each([&](int thread) {
      for (std::int64_t at = thread; at < chunks; at += block.threads()) {
        float values[kWidth];
        float factors[kWidth];
        read<kWidth>(summed, first + at, values);
        read<kWidth>(given.weight, at, factors);
        for (int i = 0; i < kWidth; ++i) values[i] = (values[i] - mean) * scale * factors[i];
        if constexpr (kNorm == Norm::layer) {
          float shifts[kWidth];
          read<kWidth>(given.bias, at, shifts);
          for (int i = 0; i < kWidth; ++i) values[i] += shifts[i];
        }
        write<kWidth>(static_cast<Normed*>(given.normed), first + at, values);
      }
      if (thread == 0) {
        if constexpr (kNorm == Norm::layer) given.means[row] = mean;
        given.scales[row] = scale;
      }
    });
  }
};

/// With x̂ = (sum - mean) · scale and h = normed_gradient · weight:
/// gradient = scale · (h - mean(h) - x̂ · mean(h · x̂)) + sum_gradient, without mean(h) for rms.
struct AddNormBackwardArguments {
  Norm norm = Norm::layer;
  Element branch_type = Element::fp32;
  Element normed_type = Element::fp32;
  std::int64_t rows = 0;
  std::int64_t size = 0;  // a multiple of `width`, at most kMostChunks times that
  int width = 1;
  const void* normed_gradient = nullptr;  // [rows, size]
  const float* sum_gradient = nullptr;    // [rows, size]; null: none
  const float* sum = nullptr;             // [rows, size]
  const float* weight = nullptr;          // [size]
  const float* means = nullptr;           // [rows]; null for rms
  const float* scales = nullptr;          // [rows]
  float* gradient = nullptr;              // [rows, size]: the residual's
  void* branch_gradient = nullptr;        // [rows, size]: the same in the branch's type; null where that is fp32
  float* weight_sums = nullptr;           // [blocks, size], whose sum over blocks is the weight's gradient
  float* bias_sums = nullptr;             // [blocks, size]; null for rms

  static constexpr int kMostItems = 8;
  static constexpr std::int64_t kMostChunks = static_cast<std::int64_t>(kMostItems) * kMostThreads;

  /// Chunks of a row that a thread has: a kernel is compiled for 1, 2 and kMostItems. Rows that are read one by one are
  /// rare, and have one kernel.
  int items() const {
    const std::int64_t least = (size / width + kMostThreads - 1) / kMostThreads;
    return least <= 2 && width > 1 ? static_cast<int>(least) : kMostItems;
  }
  Launch launch(std::int64_t most_blocks) const {
    return {.blocks = std::min(rows, most_blocks), .threads = threads_for((size / width + items() - 1) / items())};
  }
};

/// A thread has kItems chunks of each row, the same ones in all rows of its block. So it sums the gradients of the
/// weight in registers.
template <class Branch, class Normed, Norm kNorm, int kWidth, int kItems>
struct AddNormBackward {
  AddNormBackwardArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    Block::PerThread<Columns> of_weight(block);
    Block::PerThread<Columns> of_bias(block);
    for (std::int64_t row = block.index(); row < given.rows; row += block.count())
      differentiate(block, row, of_weight, of_bias);
    const std::int64_t first = block.index() * (given.size / kWidth);
    block.each([&](int thread) {
      each_chunk(block, thread, [&](int item, std::int64_t at) {
        write<kWidth>(given.weight_sums, first + at, of_weight[thread].values[item]);
        if constexpr (kNorm == Norm::layer) write<kWidth>(given.bias_sums, first + at, of_bias[thread].values[item]);
      });
    });
  }

 private:
  struct Columns {
    float values[kItems][kWidth];
  };

  template <class Work>
  TRAINCTL_DEVICE void each_chunk(const Block& block, int thread, const Work& work) const {
    TRAINCTL_UNROLL
    for (int item = 0; item < kItems; ++item) {
      const std::int64_t at = thread + static_cast<std::int64_t>(item) * block.threads();
      if (at < given.size / kWidth) work(item, at);
    }
  }

  TRAINCTL_DEVICE void differentiate(const Block& block, std::int64_t row, Block::PerThread<Columns>& of_weight,
                                     Block::PerThread<Columns>& of_bias) const {
    const std::int64_t first = row * (given.size / kWidth);
    const float mean = kNorm == Norm::layer ? given.means[row] : 0.0F;
    const float scale = given.scales[row];
    Block::PerThread<Sums<2>> part(block);
    block.each([&](int thread) {
      each_chunk(block, thread, [&](int item, std::int64_t at) {
        float incoming[kWidth];
        float values[kWidth];
        float factors[kWidth];
        read<kWidth>(static_cast<const Normed*>(given.normed_gradient), first + at, incoming);
        read<kWidth>(given.sum, first + at, values);
        read<kWidth>(given.weight, at, factors);
        for (int i = 0; i < kWidth; ++i) {
          const float normal = (values[i] - mean) * scale;
          of_weight[thread].values[item][i] += incoming[i] * normal;
          of_bias[thread].values[item][i] += incoming[i];
          part[thread].values[0] += incoming[i] * factors[i] * normal;
          part[thread].values[1] += incoming[i] * factors[i];
        }
      });
    });
    const Sums<2> total = block.sum(part);
    const float along = total.values[0] / static_cast<float>(given.size);
    const float shift = kNorm == Norm::layer ? total.values[1] / static_cast<float>(given.size) : 0.0F;
    block.each([&](int thread) {
      each_chunk(block, thread, [&](int, std::int64_t at) {
        float incoming[kWidth];
        float values[kWidth];
        float factors[kWidth];
        float result[kWidth] = {};
        read<kWidth>(static_cast<const Normed*>(given.normed_gradient), first + at, incoming);
        read<kWidth>(given.sum, first + at, values);
        read<kWidth>(given.weight, at, factors);
        if (given.sum_gradient != nullptr) read<kWidth>(given.sum_gradient, first + at, result);
        for (int i = 0; i < kWidth; ++i) {
          const float normal = (values[i] - mean) * scale;
          result[i] += scale * (incoming[i] * factors[i] - shift - normal * along);
        }
        write<kWidth>(given.gradient, first + at, result);
        if (given.branch_gradient != nullptr)
          write<kWidth>(static_cast<Branch*>(given.branch_gradient), first + at, result);
      });
    });
  }
};

/// Calls use(Branch(), Normed(), norm, width) with the types and constants of the arguments.
template <class Arguments, class Use>
void with_types(const Arguments& given, const Use& use) {
  with_element(given.branch_type, [&](auto branch) {
    const auto with_normed = [&](auto normed) {
      with_constant<Norm::layer, Norm::rms>(given.norm, [&](auto norm) {
        with_constant<1, 4>(given.width, [&](auto width) { use(branch, normed, norm, width); });
      });
    };
    if (given.normed_type == Element::fp32)
      with_normed(0.0F);
    else if constexpr (!std::is_same_v<decltype(branch), float>)
      with_normed(branch);
  });
}

/// Calls run(kernel) with the kernel for the arguments.
template <class Run>
void with_kernel(const AddNormForwardArguments& given, const Run& run) {
  with_types(given, [&](auto branch, auto normed, auto norm, auto width) {
    run(AddNormForward<decltype(branch), decltype(normed), norm(), width()>{given});
  });
}
template <class Run>
void with_kernel(const AddNormBackwardArguments& given, const Run& run) {
  with_types(given, [&](auto branch, auto normed, auto norm, auto width) {
    constexpr int kMost = AddNormBackwardArguments::kMostItems;
    const auto with_items = [&](auto items) {
      run(AddNormBackward<decltype(branch), decltype(normed), norm(), width(), items()>{given});
    };
    if constexpr (width() == 1)
      with_constant<kMost>(given.items(), with_items);
    else
      with_constant<1, 2, kMost>(given.items(), with_items);
  });
}

}  // namespace trainctl::kernels::device
