// Where the kernels of this folder run: a stream of a GPU, or a CPU that takes turns.
#pragma once

#include <cstdint>

namespace trainctl::kernels::device {

struct AdamArguments;
struct QuantizeArguments;
struct AddNormForwardArguments;
struct AddNormBackwardArguments;
struct BiasGeluArguments;
struct SwigluArguments;
struct DropoutArguments;

class Grid {
 public:
  virtual ~Grid() = default;
  /// Blocks that are worth starting: enough to keep all processors busy.
  virtual std::int64_t most_blocks() const = 0;

  virtual void run(const AddNormForwardArguments& given) const = 0;
  virtual void run(const AddNormBackwardArguments& given) const = 0;
  virtual void run(const BiasGeluArguments& given) const = 0;
  virtual void run(const SwigluArguments& given) const = 0;
  virtual void run(const DropoutArguments& given) const = 0;
  virtual void run(const AdamArguments& given) const = 0;
  virtual void run(const QuantizeArguments& given) const = 0;
};

}  // namespace trainctl::kernels::device
