// Times of one layer, of the embedding and of the output layer, for one micro-batch on one rank.
#pragma once

#include "cluster/kernels.h"
#include "cluster/setup.h"

namespace trainctl::cluster {

/// Seconds by what takes them; `forward` and `backward` are what they make together.
struct LayerTimes {
  ForwardBackward products;  // backward: gradients of inputs
  double weight_products = 0;
  double accumulation = 0;
  ForwardBackward quantization;
  ForwardBackward attention;
  ForwardBackward streams;
  ForwardBackward tensor_communication;   // exposed
  ForwardBackward context_communication;  // exposed
  double recomputation = 0;
  ForwardBackward launches;  // of the host, which the device waits for if it is faster
  double forward = 0;
  double backward = 0;

  /// What of `backward` is for the weights' gradients alone.
  double weight_share() const { return weight_products + accumulation; }
};

LayerTimes layer_times(const Setup& setup);

/// Times of the output layer with the loss.
ForwardBackward head_times(const Setup& setup);

/// Times of the embedding.
ForwardBackward embedding_times(const Setup& setup);

}  // namespace trainctl::cluster
