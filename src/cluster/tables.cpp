#include "cluster/tables.h"

#include <algorithm>
#include <cctype>

#include "cluster/devices.yaml.h"
#include "cluster/failures.yaml.h"
#include "cluster/kernels.yaml.h"
#include "cluster/networks.yaml.h"
#include "cluster/software.yaml.h"
#include "config/parse.h"
#include "config/read.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl::cluster {
namespace {

/// Returns the letters and digits of a name, in lower case, without a unit that some write.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text.ends_with("gb")) text.resize(text.size() - 2);
  return text;
}

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

template <class Entry>
const Entry* find_entry(const std::vector<Entry>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& one) { return one.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_name(std::string_view where, std::string_view what, std::string_view name,
                              const std::vector<std::string>& names) {
  const std::string nearest = core::nearest_word(name, names);
  throw core::ConfigError({{.where = std::string(where),
                            .path = "",
                            .message = "unknown " + std::string(what) + " '" + std::string(name) + "'" +
                                       (nearest.empty() ? "" : ", did you mean '" + nearest + "'?") + "; known are " +
                                       core::list_words(names)}});
}

template <class Entry>
const Entry& find_or_refuse(const std::vector<Entry>& entries, std::string_view where, std::string_view what,
                            std::string_view name) {
  if (const Entry* entry = find_entry(entries, name)) return *entry;
  refuse_name(where, what, name, names_of(entries));
}

template <class Entry>
void merge(std::vector<Entry>& into, const std::vector<Entry>& from) {
  for (const Entry& entry : from) {
    const auto same = std::find_if(into.begin(), into.end(), [&](const Entry& one) { return one.name == entry.name; });
    if (same == into.end())
      into.push_back(entry);
    else
      *same = entry;
  }
}

/// Reports, at its place, an attention table whose columns have different lengths.
template <class Table>
void check_columns_of(const Table& table, const config::Node& node, const std::string& path,
                      config::Problems& problems) {
  const config::Node* place = config::find_path(node, path);
  for (const auto& [key, column] :
       {std::pair("forward_128", &table.forward_128), std::pair("backward_128", &table.backward_128),
        std::pair("forward_64", &table.forward_64), std::pair("backward_64", &table.backward_64)})
    if (column->size() != table.lengths.size() && place != nullptr)
      problems.add(place->origin, config::join_path(path, key),
                   "expected a rate for each of the " + std::to_string(table.lengths.size()) + " lengths, got " +
                       std::to_string(column->size()));
}

void check_columns(const Tables& tables, const config::Node& node, config::Problems& problems) {
  for (std::size_t i = 0; i < tables.attention.size(); ++i) {
    const AttentionKernel& kernel = tables.attention[i];
    const std::string path = config::join_path("attention", i);
    check_columns_of(kernel, node, path, problems);
    for (std::size_t j = 0; j < kernel.measured.size(); ++j)
      check_columns_of(kernel.measured[j], node, config::join_path(config::join_path(path, "measured"), j), problems);
  }
}

void add_node(Tables& tables, const config::Node& node, config::Problems& problems) {
  Tables read{.latencies = tables.latencies, .quantization = tables.quantization, .recovery = tables.recovery};
  config::read_into(config::shape_of<Tables>(), node, &read, problems);
  check_columns(read, node, problems);
  merge(tables.devices, read.devices);
  merge(tables.networks, read.networks);
  tables.latencies = read.latencies;
  merge(tables.surfaces, read.surfaces);
  merge(tables.attention, read.attention);
  tables.quantization = read.quantization;
  merge(tables.software, read.software);
  merge(tables.failures, read.failures);
  tables.recovery = read.recovery;
}

/// A device of the same design takes the energy of one operation to be equal.
Rates scaled(const Rates& rates, double factor, const Rates& most) {
  const auto least = [&](double rate, double limit) { return std::min(rate * factor, limit); };
  Rates result{.bf16 = least(rates.bf16, most.bf16)};
  if (rates.fp8) result.fp8 = least(*rates.fp8, most.at(Precision::fp8));
  if (rates.mxfp8) result.mxfp8 = least(*rates.mxfp8, most.at(Precision::fp8, Quantization::mx));
  if (rates.nvfp4) result.nvfp4 = least(*rates.nvfp4, most.at(Precision::nvfp4));
  return result;
}

/// `depth`: devices whose rates lead to this one's.
Device with_sustained(const Tables& tables, Device device, std::size_t depth = 0) {
  if (depth > tables.devices.size())
    throw core::Error("device " + device.name + ": sustained_of leads back to itself")
        .hint("give one of these devices `sustained` rates of its own");
  if (device.sustained) return device;
  if (device.sustained_of.empty()) {
    device.sustained = device.clock;
    return device;
  }
  const Device other = with_sustained(
      tables, find_or_refuse(tables.devices, "device " + device.name, "device", device.sustained_of), depth + 1);
  device.sustained = scaled(*other.sustained, device.power_watts / other.power_watts, device.clock);
  return device;
}

/// Returns the kernel with this device's own rates if it has some.
AttentionKernel kernel_of(AttentionKernel kernel, const Device& device) {
  for (const MeasuredAttention& table : kernel.measured) {
    if (std::ranges::find(table.devices, device.name) == table.devices.end()) continue;
    kernel.device = device.name;
    kernel.lengths = table.lengths;
    kernel.forward_128 = table.forward_128;
    kernel.backward_128 = table.backward_128;
    kernel.forward_64 = table.forward_64;
    kernel.backward_64 = table.backward_64;
    break;
  }
  return kernel;
}

double scale_of(const Tables& tables, const AttentionKernel& kernel, const Device& device) {
  if (kernel.device == device.name) return 1;
  for (const AttentionKernel::Scale& scale : kernel.scales)
    if (scale.device == device.name) return scale.factor;
  const Device other = with_sustained(tables, find_device(tables, kernel.device));
  return device.sustained->bf16 / other.sustained->bf16;
}

}  // namespace

double QuantizationBytes::at(Quantization kind) const {
  switch (kind) {
    case Quantization::none:
      return 0;
    case Quantization::current:
      return current;
    case Quantization::delayed:
      return delayed;
    case Quantization::tensorwise:
      return tensorwise;
    case Quantization::rowwise:
      return rowwise;
    case Quantization::mx:
      return mx;
    case Quantization::nvfp4:
      return nvfp4;
  }
  return 0;
}

void add_text(Tables& tables, std::string_view text, const std::string& name, config::Problems& problems) {
  const config::Origin origin{.kind = config::OriginKind::file, .source = name, .line = 1, .column = 1};
  if (const std::optional<config::Node> node = config::parse(text, origin, problems)) add_node(tables, *node, problems);
}

const Tables& builtin_tables() {
  static const Tables tables = [] {
    Tables read;
    config::Problems problems;
    add_text(read, kDevicesYaml, "devices.yaml", problems);
    add_text(read, kNetworksYaml, "networks.yaml", problems);
    add_text(read, kKernelsYaml, "kernels.yaml", problems);
    add_text(read, kSoftwareYaml, "software.yaml", problems);
    add_text(read, kFailuresYaml, "failures.yaml", problems);
    problems.throw_if_any();
    return read;
  }();
  return tables;
}

std::vector<std::string> add_file(Tables& tables, const std::filesystem::path& path) {
  config::Problems problems;
  Tables own;
  if (const std::optional<config::Node> node = config::parse_file(path, problems)) {
    add_node(own, *node, problems);
    if (problems.empty()) add_node(tables, *node, problems);
  }
  problems.throw_if_any();
  return names_of(own.networks);
}

const Device& find_device(const Tables& tables, std::string_view name) {
  const std::string wanted = plain(name);
  for (const Device& device : tables.devices)
    if (plain(device.name) == wanted) return device;
  // "a100" is the first of its variants.
  for (const Device& device : tables.devices)
    if (plain(device.name.substr(0, device.name.find('_'))) == wanted) return device;
  refuse_name("--device", "device", name, names_of(tables.devices));
}

const Network& find_network(const Tables& tables, std::string_view name) {
  return find_or_refuse(tables.networks, "--network", "network", name);
}

const Software& find_software(const Tables& tables, std::string_view name) {
  return find_or_refuse(tables.software, "software", "framework", name);
}

const FailureRate& find_failures(const Tables& tables, std::string_view name) {
  return find_or_refuse(tables.failures, "recovery.failures", "failure rate", name);
}

Cluster cluster_of(const Tables& tables, const ClusterNames& names) {
  return cluster_of(tables, names, find_software(tables, names.software));
}

Cluster cluster_of(const Tables& tables, const ClusterNames& names, const Software& software) {
  const Device device = with_sustained(tables, find_device(tables, names.device));
  Cluster cluster{.device = device,
                  .network = find_network(tables, names.network.empty() ? device.network : names.network),
                  .latencies = tables.latencies,
                  .surface = find_or_refuse(tables.surfaces, "device " + device.name, "surface", device.surface),
                  .software = software,
                  .attention = {},
                  .quantization = tables.quantization};
  if (software.has_fused_attention()) {
    cluster.attention = kernel_of(
        find_or_refuse(tables.attention, "software " + software.name, "attention kernel", software.kernels.attention),
        device);
    cluster.attention_scale = scale_of(tables, cluster.attention, device);
  }
  return cluster;
}

}  // namespace trainctl::cluster
