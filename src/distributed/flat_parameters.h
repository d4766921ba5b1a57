// Parameters of one block laid end to end, so that a rank's share is one stretch of memory
// (ZeRO: https://arxiv.org/abs/1910.02054; flat units: https://arxiv.org/abs/2304.11277).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "distributed/offload.h"
#include "model/model.h"
#include "optimizer/optimizer.h"

namespace trainctl::distributed {

/// Where the whole parameters lie while they aren't needed: kept, or given back to be gathered again.
enum class Whole { kept, gathered };

/// How parameters are laid over ranks; what is named outlives those who are given it.
struct ShardLayout {
  comm::Group& all;     // the values of its first member become everyone's
  comm::Group& shards;  // who share a parameter
  Whole whole = Whole::kept;
  OffloadMemory* parts = nullptr;    // where a rank's part lies; null: on the device
  OffloadMemory* masters = nullptr;  // where a copy of it lies that is updated; null: the part itself is
  const model::FirstValues* first_values = nullptr;  // of parameters that have no memory yet; null: all have
};

class FlatParameters {
 public:
  struct Entry {
    std::string name;
    at::Tensor tensor;  // the model's; from now on a view of the whole
    std::int64_t offset = 0;
    std::int64_t numel = 0;
    std::optional<model::Shard> shard{};
    bool is_copy = false;
  };

  /// Moves the parameters, which have one type and are dense in memory, into one buffer and pads it to a multiple of
  /// the group. With Whole::gathered only this rank's part of them stays.
  FlatParameters(std::vector<model::NamedTensor> parameters, const ShardLayout& layout);

  const std::vector<Entry>& entries() const { return entries_; }
  std::int64_t numel() const { return shard_size_ * layout_.shards.size(); }  // with padding
  std::int64_t shard_size() const { return shard_size_; }
  /// On the device.
  at::TensorOptions options() const { return whole_.options(); }

  /// This rank's part, as it is updated, saved and loaded: [shard_size].
  const at::Tensor& shard() const { return shard_; }
  /// The stretches of the shard that belong to a parameter, flat, each under its parameter's name. `flat` is laid out
  /// as the shard.
  std::vector<model::NamedTensor> pieces(const at::Tensor& flat) const;
  /// Returns the number of dims of the parameter.
  std::int64_t num_dims(const std::string& name) const;
  /// A parameter's shape over a flat tensor of the whole's layout.
  at::Tensor view(const at::Tensor& whole, const Entry& entry) const;

  /// Reads this rank's part ahead, where it isn't in memory.
  void bring();
  /// Begins to gather the whole, unless it is there or on its way.
  void start_gather();
  /// Returns when the whole is there.
  void gather();
  /// Gives the whole back, where it needn't be kept.
  void release();
  /// The shards have changed: the whole, where it is kept, is gathered anew.
  std::unique_ptr<comm::Work> publish();

 private:
  void fill_whole();
  void make_shard();
  void allocate_whole();

  ShardLayout layout_;
  std::vector<Entry> entries_;
  std::int64_t shard_size_ = 0;
  at::Tensor whole_;   // [numel]; without memory while it is given back
  at::Tensor part_;    // [shard_size] on the device: of the whole where that is kept; undefined: in other memory alone
  at::Tensor shard_;   // [shard_size]: the part, or what stands for it in other memory
  at::Tensor staged_;  // what is gathered from
  std::unique_ptr<comm::Work> gathering_;
  bool is_whole_ = true;
};

}  // namespace trainctl::distributed
