#include "cluster/explain.h"

#include <cmath>

#include "core/text.h"

namespace trainctl::cluster {
namespace {

constexpr std::size_t kName = 24;
constexpr std::size_t kValue = 12;

std::string scaled(double value, double unit, const std::string& name) {
  return core::format_digits(value / unit, 4) + " " + name;
}

std::string value_text(const Term& term) {
  if (term.unit == "s") {
    if (term.value != 0 && std::abs(term.value) < 1e-3) return scaled(term.value, 1e-6, "us");
    return std::abs(term.value) < 1 ? scaled(term.value, 1e-3, "ms") : scaled(term.value, 1, "s");
  }
  if (term.unit == "B") return core::format_bytes(term.value);
  if (term.unit == "FLOP/s") return scaled(term.value, 1e12, "TFLOP/s");
  if (term.unit == "B/s") return scaled(term.value, 1e9, "GB/s");
  if (term.unit == "parameters") return scaled(term.value, 1e9, "G");
  return core::format_digits(term.value, 4);
}

/// Collects the terms of one prediction.
class Terms {
 public:
  Terms(const Setup& setup, const Candidate& candidate) : setup_(setup), candidate_(candidate) {}

  std::vector<Term> all() {
    add_hardware();
    add_layer();
    add_ends();
    add_step();
    add_memory();
    return std::move(terms_);
  }

 private:
  void add(const std::string& section, const std::string& name, double value, const std::string& unit,
           const std::string& formula, const std::string& source) {
    terms_.push_back(
        {.section = section, .name = name, .value = value, .unit = unit, .formula = formula, .source = source});
  }

  std::string device() const { return "devices.yaml, " + setup_.cluster.device.name; }
  std::string surface() const { return "kernels.yaml, surface " + setup_.cluster.surface.name; }
  std::string software() const { return "software.yaml, " + setup_.cluster.software.name; }
  std::string network() const { return "network " + setup_.cluster.network.name + ", latencies of networks.yaml"; }

  void add_hardware() {
    const Cluster& cluster = setup_.cluster;
    const Precision precision = setup_.layout.precision;
    const RankGroup copies = setup_.copies_group();
    add("hardware", "short products", cluster.device.clock.at(precision) * 1e12 * cluster.surface.clock_share, "FLOP/s",
        "clock x clock_share", device() + "; " + surface());
    add("hardware", "long products", cluster.device.sustained->at(precision) * 1e12, "FLOP/s", "sustained", device());
    add("hardware", "memory", cluster.device.memory_gbs * 1e9 * cluster.surface.memory_efficiency, "B/s",
        "memory_gbs x memory_efficiency", device() + "; " + surface());
    add("hardware", "link within a node", cluster.network.link_gbs * 1e9, "B/s", "link_gbs", network());
    add("hardware", "port between nodes", cluster.network.port_gbs * 1e9 * cluster.network.port_efficiency, "B/s",
        "port_gbs x port_efficiency", network());
    add("hardware", "copies of a parameter", copies.num_ranks, "1",
        "data x context; " + core::format_number(copies.ranks_within_node) + " of them in one node", "layout");
  }

  void add_layer() {
    const LayerTimes& layer = candidate_.step.layer;
    const std::string tiles = "tiles in waves, at least FLOPs / sustained and bytes / memory";
    const std::string passes = "passes x tokens x 2 B / memory + kernels x kernel_us";
    const std::string ring = "ring of the tensor ranks, what no product hides";
    add("layer, forward", "products", layer.products.forward, "s", tiles, device() + "; " + surface());
    add("layer, forward", "attention", layer.attention.forward, "s", "FLOPs / the table's rate at this length",
        "kernels.yaml, attention " + setup_.cluster.software.kernels.attention);
    add("layer, forward", "streams", layer.streams.forward, "s", passes, software());
    add("layer, forward", "quantization", layer.quantization.forward, "s", "values x bytes each / memory",
        "kernels.yaml, quantization");
    add("layer, forward", "tensor ranks", layer.tensor_communication.forward, "s", ring, network());
    add("layer, forward", "context ranks", layer.context_communication.forward, "s",
        "gather of keys and values, what attention does not hide", network());
    add("layer, forward", "together", layer.forward, "s",
        "sum, at least " + core::format_digits(layer.launches.forward * 1e6, 3) + " us of kernel launches", surface());
    add("layer, backward", "products of inputs", layer.products.backward, "s", tiles, device() + "; " + surface());
    add("layer, backward", "products of weights", layer.weight_products, "s", tiles + ", / weight_gradient_efficiency",
        device() + "; " + surface());
    add("layer, backward", "accumulation", layer.accumulation, "s", "weights x accumulation_bytes / memory",
        software());
    add("layer, backward", "attention", layer.attention.backward, "s", "2.5 x FLOPs / the table's rate",
        "kernels.yaml, attention " + setup_.cluster.software.kernels.attention);
    add("layer, backward", "streams", layer.streams.backward, "s", passes, software());
    add("layer, backward", "quantization", layer.quantization.backward, "s", "values x bytes each / memory",
        "kernels.yaml, quantization");
    add("layer, backward", "recomputation", layer.recomputation, "s", "what the layout computes again", "layout");
    add("layer, backward", "tensor ranks", layer.tensor_communication.backward, "s", ring, network());
    add("layer, backward", "context ranks", layer.context_communication.backward, "s",
        "two gathers, what attention does not hide", network());
    add("layer, backward", "together", layer.backward, "s",
        "sum, at least " + core::format_digits(layer.launches.backward * 1e6, 3) + " us of kernel launches", surface());
  }

  void add_ends() {
    const StepTime& step = candidate_.step;
    add("first and last stage", "embedding, forward", step.embedding.forward, "s", "bytes / memory", software());
    add("first and last stage", "embedding, backward", step.embedding.backward, "s", "bytes / memory", software());
    add("first and last stage", "head, forward", step.head.forward, "s", "product + logits x loss_bytes / memory",
        software());
    add("first and last stage", "head, backward", step.head.backward, "s",
        "two products + logits x loss_bytes / memory", software());
  }

  void add_step() {
    const StepTime& step = candidate_.step;
    const std::string straggler = "x straggler " + core::format_digits(step.straggler, 4);
    add("step", "computation", step.computed, "s", "micro-batches x the busiest stage, " + straggler, network());
    add("step", "bubble", step.bubble, "s",
        "timeline of the schedule - computation, transfers of " + core::format_digits(step.transfer * 1e6, 4) +
            " us included, " + straggler,
        "src/pipeline; " + network());
    add("step", "sharded parameters", step.exposed_shards, "s",
        "gathers and reductions that no layer hides, " + straggler, network());
    add("step", "sums between copies", step.exposed_copies, "s",
        "gradients x bytes over the ring, what the last passes do not hide", software() + "; " + network());
    add("step", "tied embedding", step.exposed_tied, "s", "sum between the first and the last stage", network());
    add("step", "optimizer", step.optimizer, "s", "parameters of a rank x optimizer_bytes / memory + optimizer_us",
        software() + "; " + surface());
    add("step", "together", step.total, "s", "sum", "");
  }

  void add_memory() {
    const MemoryUse& memory = candidate_.memory;
    add("memory of the fullest rank", "states", memory.states, "B", "parameters x (resident + shared / copies)",
        software());
    add("memory of the fullest rank", "activations", memory.activations, "B",
        "live layers x bytes of a layer (arXiv 2205.05198, equation 2)", "layout");
    add("memory of the fullest rank", "workspace", memory.workspace, "B", "one layer's temporaries, logits",
        software());
    add("memory of the fullest rank", "overhead", memory.overhead, "B", "allocator_share, buffers, context_mib",
        software());
    add("memory of the fullest rank", "together", memory.total(), "B", "sum", "");
  }

  const Setup& setup_;
  const Candidate& candidate_;
  std::vector<Term> terms_;
};

}  // namespace

std::vector<Term> explain(const Setup& setup, const Candidate& candidate) {
  return Terms(setup, candidate).all();
}

std::string format_terms(const std::vector<Term>& terms) {
  std::string text;
  std::string section;
  for (const Term& term : terms) {
    if (term.value == 0) continue;
    if (term.section != section) text += term.section + "\n";
    section = term.section;
    const std::string value = value_text(term);
    text += "  " + term.name + std::string(term.name.size() < kName ? kName - term.name.size() : 1, ' ') +
            std::string(value.size() < kValue ? kValue - value.size() : 0, ' ') + value + "  " + term.formula +
            (term.source.empty() ? "" : "  [" + term.source + "]") + "\n";
  }
  return text;
}

}  // namespace trainctl::cluster
