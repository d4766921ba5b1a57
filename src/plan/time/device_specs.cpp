#include <algorithm>
#include <cctype>
#include <map>

#include "plan/time/device_rates.h"

namespace trainctl::plan {
namespace {

// Vendors' data sheets: NVIDIA B200 (DGX B200), H200, H100, A100, L40S, L4, A10 tensor core GPU data sheets, RTX 4090
// (Ada architecture whitepaper, appendix A), AMD Instinct MI300X and MI250X data sheets. Tensor-core figures without
// sparsity. A link is NVLink or Infinity Fabric, else PCIe; sheets give both directions together.
const std::vector<NamedDevice> kDevices{
    {"B200", 178, 75, 1100, 2250, 8000, 900},
    {"H200", 139, 67, 494.5, 989.5, 4800, 450},
    {"H100 SXM", 79, 67, 494.5, 989.5, 3350, 450},
    {"H100 PCIe", 79, 51, 378, 756, 2000, 64},
    {"A100 80GB", 79, 19.5, 156, 312, 2039, 300},
    {"A100 40GB", 39, 19.5, 156, 312, 1555, 300},
    {"L40S", 44, 91.6, 183, 362, 864, 32},
    {"L4", 22, 30.3, 60, 121, 300, 32},
    {"A10", 22, 31.2, 62.5, 125, 600, 32},
    {"RTX 4090", 23, 82.6, 82.6, 165.2, 1008, 32},
    {"MI300X", 191, 163.4, 653.7, 1307.4, 5300, 448},
    {"MI250X", 63, 47.9, 47.9, 191.5, 1638, 200},  // one of its two dies, which is what a process sees
};

std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Returns the share of the peak that large operators reach. Products: cuBLAS and hipBLASLt at sizes of transformers;
/// attention: FlashAttention-2's own figures; convolutions: ResNet-50 in cuDNN's channels-last kernels, of MLPerf-like
/// runs.
double reached(roofline::WorkKind kind) {
  using enum roofline::WorkKind;
  static const std::map<roofline::WorkKind, double> shares{{product, 0.65},
                                                           {batched_product, 0.45},
                                                           {attention, 0.5},
                                                           {attention_backward, 0.4},
                                                           {convolution, 0.45},
                                                           {pointwise, 0.45},
                                                           {convolution_backward, 0.35},
                                                           {pointwise_backward, 0.35},
                                                           {stem, 0.12},
                                                           {stem_backward, 0.12},
                                                           {depthwise, 0.02},
                                                           {depthwise_backward, 0.02},
                                                           {recurrence, 0.15},
                                                           {recurrence_backward, 0.15},
                                                           {transposition, 0.6},
                                                           {batch_norm, 0.6},
                                                           {batch_norm_backward, 0.6},
                                                           {normalization_backward, 0.6},
                                                           {scatter, 0.3}};
  const auto found = shares.find(kind);
  return found == shares.end() ? 0.8 : found->second;
}

constexpr double kLaunch = 4e-6;       // seconds from one small kernel to the next
constexpr double kLargestWork = 1e18;  // where the line ends, which goes on
constexpr double kSaturation = 3e-6;   // seconds' worth of peak work below which a kernel takes no less

/// Whether the first words of a name are those that are wanted: "a100" of "A100 80GB", but not "a1".
bool begins_with_words(std::string_view name, std::string_view wanted) {
  for (std::size_t end = 1; end <= name.size(); ++end) {
    const bool ends_word = end == name.size() || std::isalnum(static_cast<unsigned char>(name[end])) == 0;
    if (ends_word && plain(name.substr(0, end)) == wanted) return true;
  }
  return false;
}

}  // namespace

const std::vector<NamedDevice>& named_devices() {
  return kDevices;
}

const NamedDevice* find_device(std::string_view name) {
  const std::string wanted = plain(name);
  const NamedDevice* found = nullptr;
  for (const NamedDevice& device : kDevices) {
    if (plain(device.name) == wanted) return &device;
    // "a100" is the larger of those that begin so: the first in the list.
    if (found == nullptr && !wanted.empty() && begins_with_words(device.name, wanted)) found = &device;
  }
  return found;
}

DeviceRates rates_of(const NamedDevice& device, FloatProducts products) {
  DeviceRates rates;
  rates.device = std::string(device.name);
  rates.link_bytes_per_s = device.link_gb_per_s * 1e9 * 0.75;
  rates.seconds_per_call = 0;
  const double floats = products == FloatProducts::tf32 ? device.tf32_tflops : device.fp32_tflops;
  for (std::size_t i = 0; i < roofline::kNumWorkKinds; ++i) {
    const auto kind = static_cast<roofline::WorkKind>(i);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const double peak = is_computation(kind) ? (dtype == at::kFloat ? floats : device.half_tflops) * 1e12
                                               : device.memory_gb_per_s * 1e9;
      const double rate = peak * reached(kind);
      for (const roofline::PixelOrder order :
           {roofline::PixelOrder::channels_first, roofline::PixelOrder::channels_last}) {
        RateCurve& curve = rates.curves[{.kind = kind, .dtype = dtype, .order = order, .is_narrow = false}];
        curve.add(rate * kSaturation, kSaturation + kLaunch);
        curve.add(kLargestWork, kLargestWork / rate);
      }
    }
  }
  return rates;
}

}  // namespace trainctl::plan
