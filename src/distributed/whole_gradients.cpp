#include "distributed/whole_gradients.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace trainctl::distributed {

bool GatheredGradients::is_wanted(const Unit& unit) const {
  return unit.trained && unit.sum.defined() &&
         std::ranges::any_of(unit.trained->entries(), [&](const auto& entry) { return wanted_.contains(entry.name); });
}

GatheredGradients::Gathering GatheredGradients::start(const Unit& unit, std::optional<at::ScalarType> dtype) const {
  const at::TensorOptions options = unit.sum.options().device(device_).dtype(dtype.value_or(unit.sum.scalar_type()));
  Gathering gathering{.unit = &unit,
                      .mine = unit.sum.to(options),
                      .whole = at::empty({unit.trained->numel()}, options),
                      .work = nullptr};
  gathering.work = shards_.all_gather(gathering.whole, gathering.mine);
  return gathering;
}

void GatheredGradients::change(std::optional<at::ScalarType> dtype,
                               const std::function<void(const std::string& name, at::Tensor& whole)>& change) {
  std::vector<const Unit*> wanted;
  for (const Unit& unit : units_)
    if (is_wanted(unit)) wanted.push_back(&unit);
  Gathering next;
  if (!wanted.empty()) next = start(*wanted.front(), dtype);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Gathering here = std::exchange(next, {});
    here.work->wait();
    if (i + 1 < wanted.size()) next = start(*wanted[i + 1], dtype);  // while this unit's are changed
    const FlatParameters& trained = *here.unit->trained;
    const std::int64_t begin = shards_.rank() * trained.shard_size();
    for (const FlatParameters::Entry& entry : trained.entries()) {
      const std::int64_t first = std::max(entry.offset, begin);
      const std::int64_t last = std::min(entry.offset + entry.numel, begin + trained.shard_size());
      if (first >= last || !wanted_.contains(entry.name)) continue;
      at::Tensor whole = trained.view(here.whole, entry);
      change(entry.name, whole);
      trained.view(here.whole, entry).copy_(whole);
      here.unit->sum.narrow(0, first - begin, last - first).copy_(here.whole.narrow(0, first, last - first));
    }
  }
}

}  // namespace trainctl::distributed
