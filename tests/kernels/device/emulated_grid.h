// A grid whose blocks and threads run one after another, on a CPU's tensors.
#pragma once

#include "kernels/device/activation.h"
#include "kernels/device/adam.h"
#include "kernels/device/add_norm.h"
#include "kernels/device/dropout.h"
#include "kernels/device/float8.h"
#include "kernels/device/grid.h"

namespace trainctl::kernels::device {

class EmulatedGrid final : public Grid {
 public:
  explicit EmulatedGrid(std::int64_t most_blocks) : most_blocks_(most_blocks) {}
  std::int64_t most_blocks() const override { return most_blocks_; }
  void run(const AddNormForwardArguments& given) const override { emulate(given); }
  void run(const AddNormBackwardArguments& given) const override { emulate(given); }
  void run(const BiasGeluArguments& given) const override { emulate(given); }
  void run(const SwigluArguments& given) const override { emulate(given); }
  void run(const DropoutArguments& given) const override { emulate(given); }
  void run(const AdamArguments& given) const override { emulate(given); }
  void run(const QuantizeArguments& given) const override { emulate(given); }

 private:
  template <class Arguments>
  void emulate(const Arguments& given) const {
    const Launch launch = given.launch(most_blocks_);
    with_kernel(given, [&](const auto& kernel) {
      for (std::int64_t block = 0; block < launch.blocks; ++block) kernel(Block(block, launch));
    });
  }

  std::int64_t most_blocks_;
};

}  // namespace trainctl::kernels::device
