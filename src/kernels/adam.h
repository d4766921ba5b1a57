// Adam and AdamW over all parameters, in one pass over each: the gradient's factor, the update, and a moving average.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::kernels {

/// https://arxiv.org/abs/1412.6980, and with decoupled decay https://arxiv.org/abs/1711.05101. As torch.optim.
struct AdamRule {
  double lr = 0;
  at::Tensor device_lr{};  // double [], on the device: lr is multiplied by it; undefined: 1
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  bool is_decoupled = false;
};

/// Parameters of one device, with what belongs to each. All are fp32, and dense in one memory layout.
struct AdamLists {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> largest;   // AMSGrad's; empty: none
  std::vector<at::Tensor> smoothed;  // moving averages of the parameters; empty: none
  std::vector<at::Tensor> steps;     // float []: updates with this one
  double smoothing = 0;              // smoothed += smoothing · (parameter - smoothed), after the update
};

/// Whether update_by_adam() takes them.
bool has_adam_kernel(const AdamLists& lists);

/// Updates with factor · gradient. `factor` (floating-point [], on the device) may be undefined: 1. With a `found_inf`
/// (float [], there) that isn't 0 nothing but the moving averages changes. The gradients are left as they are.
void update_by_adam(const AdamLists& lists, const AdamRule& rule, const at::Tensor& factor,
                    const at::Tensor& found_inf);

}  // namespace trainctl::kernels
