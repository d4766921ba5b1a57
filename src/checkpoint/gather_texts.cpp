#include "checkpoint/gather_texts.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace trainctl::checkpoint {

std::vector<std::string> gather_texts(comm::Group& group, const std::string& mine) {
  const at::Tensor sizes = at::zeros({group.size()}, at::kLong);
  group.all_gather(sizes, at::full({1}, static_cast<std::int64_t>(mine.size()), at::kLong))->wait();
  const auto* const size = sizes.const_data_ptr<std::int64_t>();
  const std::int64_t longest = *std::max_element(size, size + group.size());
  std::vector<std::string> texts(static_cast<std::size_t>(group.size()));
  if (longest == 0) return texts;
  const at::Tensor padded = at::zeros({longest}, at::kByte);
  std::copy(mine.begin(), mine.end(), padded.mutable_data_ptr<std::uint8_t>());
  const at::Tensor all = at::zeros({group.size() * longest}, at::kByte);
  group.all_gather(all, padded)->wait();
  const auto* const bytes = reinterpret_cast<const char*>(all.const_data_ptr<std::uint8_t>());
  for (std::int64_t rank = 0; rank < group.size(); ++rank)
    texts[static_cast<std::size_t>(rank)].assign(bytes + rank * longest, static_cast<std::size_t>(size[rank]));
  return texts;
}

}  // namespace trainctl::checkpoint
