#include "cluster/setup.h"

#include <algorithm>
#include <cmath>

namespace trainctl::cluster {

double Setup::tokens() const {
  return std::floor(static_cast<double>(layout.micro_batch * model.sequence_length) /
                    static_cast<double>(layout.context));
}

RankGroup Setup::tensor_group() const {
  return {.num_ranks = static_cast<double>(layout.tensor),
          .ranks_within_node = static_cast<double>(std::min(layout.tensor, cluster.network.domain))};
}

RankGroup Setup::context_group() const {
  const std::int64_t within = std::min(layout.context * layout.tensor, cluster.network.domain) / layout.tensor;
  return {.num_ranks = static_cast<double>(layout.context),
          .ranks_within_node = static_cast<double>(std::max<std::int64_t>(1, within))};
}

RankGroup Setup::copies_group() const {
  const std::int64_t domain = cluster.network.domain;
  const std::int64_t within =
      layout.tensor > domain ? 1 : std::clamp<std::int64_t>(domain / layout.tensor, 1, layout.num_copies());
  return {.num_ranks = static_cast<double>(layout.num_copies()), .ranks_within_node = static_cast<double>(within)};
}

double Setup::layer_parameters() const {
  return static_cast<double>(model.layer_parameters()) / static_cast<double>(layout.tensor);
}

double Setup::embedding_parameters() const {
  return static_cast<double>(model.embedding_parameters()) / static_cast<double>(layout.tensor);
}

}  // namespace trainctl::cluster
