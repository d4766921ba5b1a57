#include <ATen/Context.h>

#include <mutex>

#include "amp/amp.h"
#include "core/error.h"
#include "machine/cpu.h"

namespace trainctl::amp {

std::string precision_warning(const AmpConfig& config, c10::Device device) {
  if (!device.is_cpu()) return "";
  const std::string slow =
      " matrix instructions: it is emulated, 50-100 times slower than fp32; 'amp.mode: fp32' is the fastest here";
  switch (config.mode) {
    case Precision::fp32:
      return "";
    case Precision::tf32:
      throw core::Error("cannot compute in tf32 on a CPU: only NVIDIA GPUs have it").hint("amp.mode: fp32");
    case Precision::bf16:
      return machine::multiplies_bf16(machine::onednn_features()) ? "" : "this CPU has no bf16" + slow;
    case Precision::fp16:
      return machine::multiplies_fp16(machine::onednn_features()) ? "" : "this CPU has no fp16" + slow;
  }
  return "";
}

void apply_precision(const AmpConfig& config, c10::Device device) {
  precision_warning(config, device);
  const bool tf32 = config.mode == Precision::tf32;
  // These settings are process-wide, and replicas call this on their own threads: a thread that finds them set writes
  // nothing.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto wanted = tf32 ? at::Float32MatmulPrecision::HIGH : at::Float32MatmulPrecision::HIGHEST;
  if (at::globalContext().float32MatmulPrecision() != wanted)
    at::globalContext().setFloat32MatmulPrecision(tf32 ? "high" : "highest");
  if (at::globalContext().allowTF32CuDNN() != tf32) at::globalContext().setAllowTF32CuDNN(tf32);
}

}  // namespace trainctl::amp
