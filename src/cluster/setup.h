// What a step is predicted of: a network, its layout and the cluster.
#pragma once

#include "cluster/collectives.h"
#include "cluster/layout.h"
#include "cluster/tables.h"
#include "cluster/transformer.h"

namespace trainctl::cluster {

/// What a step is predicted of. The referred values must outlive it.
struct Setup {
  const Transformer& model;
  const Layout& layout;
  const Cluster& cluster;

  /// Tokens that a rank computes on in one micro-batch.
  double tokens() const;
  /// Tensor ranks that share the tokens between layers; 1: each has all of them.
  double token_ranks() const { return layout.sequence_parallel ? static_cast<double>(layout.tensor) : 1; }
  RankGroup tensor_group() const;
  /// Ranks that share each sequence.
  RankGroup context_group() const;
  /// Ranks that hold the same parameters.
  RankGroup copies_group() const;
  /// Parameters of one layer on one rank.
  double layer_parameters() const;
  /// Parameters of the embedding on one rank.
  double embedding_parameters() const;
};

}  // namespace trainctl::cluster
