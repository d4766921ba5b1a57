#include "cluster/search.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::cluster {
namespace {

constexpr std::int64_t kMostContext = 64;
constexpr std::int64_t kMostMicroBatch = 64;
constexpr std::array<std::int64_t, 6> kStagesPerRank{2, 3, 4, 5, 6, 8};

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

bool splits_layers(const Transformer& model, std::int64_t ranks) {
  return model.num_heads % ranks == 0 && model.num_kv_heads % ranks == 0 && model.intermediate_size % ranks == 0;
}

/// Sequences are cut into two chunks for each rank, so that causal attention is equal work.
bool splits_sequences(const Transformer& model, std::int64_t ranks) {
  return ranks == 1 || (model.causal && model.sequence_length % (2 * ranks) == 0);
}

bool splits_stages(const Transformer& model, std::int64_t stages) {
  return stages <= model.num_layers + 2 && deal_layers(model.num_layers, {.pipeline = stages}).back() > 0;
}

/// Makes the layouts one after the other.
class Layouts {
 public:
  explicit Layouts(const SearchRequest& request) : request_(request) {}

  std::vector<Layout> all() {
    const std::int64_t world = request_.world;
    for (const std::int64_t tensor : divisors(std::min(world, request_.cluster.network.domain))) {
      if (world % tensor != 0 || !splits_layers(request_.model, tensor)) continue;
      for (const std::int64_t context : divisors(world / tensor)) {
        if (context > kMostContext || !splits_sequences(request_.model, context)) continue;
        for (const std::int64_t pipeline : divisors(world / tensor / context))
          if (pipeline == 1 || splits_stages(request_.model, pipeline)) add_axes(tensor, context, pipeline);
      }
    }
    return std::move(layouts_);
  }

 private:
  void add_axes(std::int64_t tensor, std::int64_t context, std::int64_t pipeline) {
    Layout layout{.data = request_.world / tensor / context / pipeline,
                  .context = context,
                  .tensor = tensor,
                  .pipeline = pipeline,
                  .precision = request_.precision};
    layout.sequence_parallel = tensor > 1 && request_.model.sequence_length % (tensor * context) == 0;
    if (request_.global_batch % layout.data != 0) return;
    const std::int64_t batch = request_.global_batch / layout.data;
    for (const std::int64_t micro_batch : divisors(batch)) {
      if (micro_batch > kMostMicroBatch) break;
      layout.micro_batch = micro_batch;
      layout.num_micro_batches = batch / micro_batch;
      add_schedules(layout);
    }
  }

  void add_schedules(Layout layout) {
    add_zero_stages(layout);
    if (layout.pipeline == 1) return;
    if (layout.num_micro_batches % layout.pipeline == 0) {
      layout.schedule = ScheduleKind::interleaved;
      for (const std::int64_t stages : kStagesPerRank) {
        const std::int64_t all = stages * layout.pipeline;
        if (request_.model.num_layers % all != 0 && (request_.model.num_layers + 2) % all != 0) continue;
        layout.stages_per_rank = stages;
        add_zero_stages(layout);
      }
    }
    layout.schedule = ScheduleKind::zero_bubble_v;
    layout.stages_per_rank = 2;
    if (splits_stages(request_.model, 2 * layout.pipeline)) add_zero_stages(layout);
  }

  void add_zero_stages(Layout layout) {
    for (const std::int64_t zero : {0, 1, 3}) {
      if (zero > 0 && layout.num_copies() == 1) continue;
      if (zero == 3 && layout.pipeline > 1) continue;
      layout.zero = zero;
      layout.fully_sharded = zero == 3;
      for (const Recomputation recomputation : {Recomputation::none, Recomputation::per_op, Recomputation::full}) {
        layout.recomputation = recomputation;
        layouts_.push_back(layout);
      }
    }
  }

  const SearchRequest& request_;
  std::vector<Layout> layouts_;
};

/// A layout that fits, and the time that its step is not below.
struct Fitting {
  const Layout* layout;
  MemoryUse memory;
  double least_time;
};

void keep_best(std::vector<Candidate>& best, Candidate candidate, std::size_t most) {
  const auto place =
      std::ranges::upper_bound(best, candidate.step.total, {}, [](const Candidate& one) { return one.step.total; });
  best.insert(place, std::move(candidate));
  if (best.size() > most) best.pop_back();
}

[[noreturn]] void refuse_nodes(const std::string& message) {
  throw core::ConfigError({{.where = "--nodes-of", .path = "", .message = message}});
}

std::string divisor_text(std::string_view what, std::int64_t size) {
  return std::string(what) + " " + core::format_count(size);
}

}  // namespace

SearchResult search_layouts(const SearchRequest& request) {
  const std::vector<Layout> layouts = Layouts(request).all();
  if (layouts.empty())
    throw core::Error("no layout divides " + core::format_count(request.world) + " devices, " +
                      core::format_count(request.global_batch) + " sequences and a network of " +
                      core::format_count(request.model.num_layers) + " layers")
        .hint("choose a global batch that the number of devices divides, or another number of devices");
  SearchResult result{.num_layouts = static_cast<std::int64_t>(layouts.size())};
  std::vector<Fitting> fitting;
  for (const Layout& layout : layouts) {
    const Setup setup{.model = request.model, .layout = layout, .cluster = request.cluster};
    const MemoryUse memory = peak_memory(setup);
    const double bytes = memory.total();
    if (!result.smallest || bytes < result.smallest_bytes) {
      result.smallest = layout;
      result.smallest_bytes = bytes;
    }
    if (bytes <= request.memory_bytes)
      fitting.push_back({.layout = &layout, .memory = memory, .least_time = least_step_time(setup)});
  }
  result.num_fitting = static_cast<std::int64_t>(fitting.size());
  std::ranges::stable_sort(fitting, {}, &Fitting::least_time);
  for (const Fitting& one : fitting) {
    if (result.best.size() == request.num_best && one.least_time > result.best.back().step.total) break;
    const Setup setup{.model = request.model, .layout = *one.layout, .cluster = request.cluster};
    keep_best(result.best, {.layout = *one.layout, .step = step_time(setup), .memory = one.memory}, request.num_best);
    ++result.num_simulated;
  }
  return result;
}

void check_layout(const Transformer& model, const Layout& layout) {
  const auto refuse = [](const std::string& key, std::int64_t got, const std::string& expected) {
    throw core::Error("distributed." + key + ": " + core::format_count(got) + " ranks do not divide " + expected)
        .hint("choose another number of ranks for distributed." + key);
  };
  if (!splits_layers(model, layout.tensor))
    refuse("tensor", layout.tensor,
           divisor_text("heads", model.num_heads) + ", " + divisor_text("key and value heads", model.num_kv_heads) +
               " and " + divisor_text("inner features", model.intermediate_size));
  if (!splits_sequences(model, layout.context))
    refuse("context", layout.context, divisor_text("sequences of", model.sequence_length) + " tokens in two chunks");
  const std::int64_t stages = layout.pipeline * layout.stages_per_rank;
  if (stages > 1 && !splits_stages(model, stages)) refuse("pipeline", stages, divisor_text("layers", model.num_layers));
}

void check_topology(const Network& network, std::int64_t world, std::int64_t node_size) {
  if (node_size > network.domain)
    refuse_nodes("network " + network.name + " joins " + core::format_count(network.domain) +
                 " devices, got nodes of " + core::format_count(node_size) +
                 "; expected a network with a larger domain (--network FILE)");
  if (world > node_size && world % node_size != 0)
    refuse_nodes(core::format_count(world) + " devices are not whole nodes of " + core::format_count(node_size) +
                 "; expected a multiple of it for --world");
  if (network.port_gbs > network.link_gbs && world > node_size)
    throw core::ConfigError({{.where = "network " + network.name,
                              .path = "port_gbs",
                              .message = core::format_number(network.port_gbs) + " is above link_gbs, " +
                                         core::format_number(network.link_gbs) +
                                         "; expected devices of a node to be joined faster than nodes, in GB/s of one "
                                         "device"}});
}

double scaling_efficiency(const Setup& setup, const StepTime& step) {
  Layout alone = setup.layout;
  alone.data = 1;
  const Setup one{.model = setup.model, .layout = alone, .cluster = setup.cluster};
  return step_time(one).total / step.total;
}

}  // namespace trainctl::cluster
