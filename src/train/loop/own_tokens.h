// The tokens of a batch that a rank computes on, where ranks share sequences.
#pragma once

#include "comm/device_mesh.h"
#include "dataset/dataset.h"

namespace trainctl::train {

/// Returns this rank's tokens of a batch, which all ranks of the context axis have read; the batch itself where
/// sequences are whole. Sequences that can't be cut evenly grow by tokens without targets. `key_mask` and `documents`
/// stay whole: attention sees the others' keys.
dataset::Batch own_tokens(dataset::Batch batch, comm::DeviceMesh& mesh);

}  // namespace trainctl::train
