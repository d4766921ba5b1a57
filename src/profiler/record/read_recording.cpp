#include "profiler/record/read_recording.h"

#include <c10/core/ScalarType.h>
#include <torch/csrc/profiler/collection.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/record/backward_modules.h"
#include "roofline/op_cost.h"

namespace trainctl::profiler {
namespace {

namespace impl = torch::profiler::impl;
using Event = torch::autograd::profiler::experimental_event_t;
using KinetoFields = impl::ExtraFields<impl::EventType::Kineto>;
using AllocationFields = impl::ExtraFields<impl::EventType::Allocation>;

using OperatorFields = torch::profiler::impl::ExtraFields<torch::profiler::impl::EventType::TorchOp>;

/// Our own convolution (kernels/winograd.cpp): stride 1 and padding 1.
constexpr std::string_view kWinograd = "trainctl::winograd_convolution";

using Lists = std::vector<std::vector<std::int64_t>>;

/// The positions among a convolution's lists of integers.
struct Geometry {
  std::string_view name;
  std::size_t stride, padding, dilation;
};
constexpr Geometry kGeometries[] = {
    {"aten::convolution", 0, 1, 2}, {"aten::mkldnn_convolution", 1, 0, 2},   {"aten::cudnn_convolution", 1, 0, 2},
    {"aten::thnn_conv2d", 1, 2, 3}, {"aten::_slow_conv2d_forward", 1, 2, 3}, {"aten::slow_conv_dilated2d", 1, 2, 3},
};

/// Returns element `dim` of list `which`; a missing element is equal to the last.
std::int64_t number_of(const Lists& lists, std::size_t which, std::size_t dim, std::int64_t otherwise) {
  if (which >= lists.size() || lists[which].empty()) return otherwise;
  return lists[which][std::min(dim, lists[which].size() - 1)];
}

roofline::Operation::Shape convolved_shape(const roofline::DispatchedOperator& call, const Lists& lists) {
  if (call.inputs.size() < 2) return {};
  const roofline::Operation::Shape& input = call.inputs[0].shape;
  const roofline::Operation::Shape& weight = call.inputs[1].shape;
  if (input.size() < 3 || weight.size() != input.size()) return {};
  if (call.name == kWinograd) return {input[0], weight[0], input[2], input[3]};
  const auto* geometry = std::ranges::find(kGeometries, call.name, &Geometry::name);
  if (geometry == std::end(kGeometries)) return {};
  roofline::Operation::Shape output{input[0], weight[0]};
  for (std::size_t dim = 2; dim < input.size(); ++dim) {
    const std::int64_t stride = std::max<std::int64_t>(1, number_of(lists, geometry->stride, dim - 2, 1));
    const std::int64_t reach = number_of(lists, geometry->dilation, dim - 2, 1) * (weight[dim] - 1) + 1;
    const std::int64_t room = input[dim] + 2 * number_of(lists, geometry->padding, dim - 2, 0) - reach;
    output.push_back(std::max<std::int64_t>(0, room) / stride + 1);
  }
  return output;
}

roofline::TensorUse describe(const impl::TensorMetadata& tensor) {
  roofline::TensorUse use;
  use.shape.assign(tensor.sizes_.begin(), tensor.sizes_.end());
  use.strides.assign(tensor.strides_.begin(), tensor.strides_.end());
  use.dtype = tensor.dtype_;
  use.bytes = static_cast<double>(c10::elementSize(tensor.dtype_));
  for (std::size_t dim = 0; dim < tensor.sizes_.size(); ++dim)
    if (dim >= tensor.strides_.size() || tensor.strides_[dim] != 0)
      use.bytes *= static_cast<double>(tensor.sizes_[dim]);
  return use;
}

void add(const impl::TensorMetadata& tensor, roofline::DispatchedOperator& call) {
  roofline::TensorUse use = describe(tensor);
  call.input_bytes += use.bytes;
  if (call.inputs.size() < 4) call.inputs.push_back(std::move(use));
}

/// Integer lists among an operator's arguments, such as a convolution's stride, padding and dilation.
Lists integer_lists(const OperatorFields& fields) {
  Lists lists;
  for (const impl::op_input_t& input : fields.concrete_inputs_)
    if (const auto* value = std::get_if<c10::IValue>(&input); value && value->isIntList())
      lists.push_back(value->toIntVector());
  return lists;
}

/// Returns the call that `fields` describe. The profiler records no outputs: `allocated` bytes stand for them, or the
/// first input if the operator works in place. The shape of a convolution's output follows from its other arguments.
roofline::DispatchedOperator recorded_call(const OperatorFields& fields, double allocated) {
  roofline::DispatchedOperator call{.name = fields.name_};
  for (const impl::op_input_t& input : fields.inputs_) {
    if (const auto* tensor = std::get_if<impl::TensorMetadata>(&input)) add(*tensor, call);
    if (const auto* list = std::get_if<std::vector<impl::TensorMetadata>>(&input))
      for (const impl::TensorMetadata& tensor : *list) add(tensor, call);
  }
  for (std::size_t place = 0; place < fields.concrete_inputs_.size(); ++place)
    if (const auto* value = std::get_if<c10::IValue>(&fields.concrete_inputs_[place]))
      roofline::read_flags(*value, place, call);
  const bool works_in_place = call.name.ends_with('_') && !call.inputs.empty();
  call.allocated_bytes = allocated > 0 || !works_in_place ? std::max(0.0, allocated) : call.inputs[0].bytes;
  call.convolved = convolved_shape(call, integer_lists(fields));
  return call;
}

constexpr std::string_view kEvaluate = "autograd::engine::evaluate_function: ";

std::string dtype_name(c10::ScalarType type) {
  if (type == c10::ScalarType::Float) return "fp32";
  if (type == c10::ScalarType::Double) return "fp64";
  if (type == c10::ScalarType::Half) return "fp16";
  if (type == c10::ScalarType::BFloat16) return "bf16";
  std::string name = c10::toString(type);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

/// Returns the shapes of the inputs that are tensors: "[128,1,28,28] [32,1,3,3]". A list of tensors gives its length.
std::string shapes_of(const OperatorFields& fields) {
  std::string text;
  for (const impl::op_input_t& input : fields.inputs_) {
    const auto* tensor = std::get_if<impl::TensorMetadata>(&input);
    const auto* list = std::get_if<std::vector<impl::TensorMetadata>>(&input);
    if (!tensor && !list) continue;
    if (!text.empty()) text += ' ';
    if (list) {
      text += "list of " + std::to_string(list->size());
      continue;
    }
    text += '[';
    for (std::size_t dim = 0; dim < tensor->sizes_.size(); ++dim)
      text += (dim == 0 ? "" : ",") + std::to_string(tensor->sizes_[dim]);
    text += ']';
  }
  return text;
}

std::string dtype_of(const OperatorFields& fields) {
  for (const impl::op_input_t& input : fields.inputs_) {
    if (const auto* tensor = std::get_if<impl::TensorMetadata>(&input)) return dtype_name(tensor->dtype_);
    if (const auto* list = std::get_if<std::vector<impl::TensorMetadata>>(&input); list && !list->empty())
      return dtype_name(list->front().dtype_);
  }
  return "";
}

/// Returns the order in memory of an image batch's dims, the outermost first.
std::vector<std::size_t> order_of(const impl::TensorMetadata& tensor) {
  std::vector<std::size_t> order(tensor.strides_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t dim) { return tensor.strides_[dim]; });
  return order;
}

/// Returns whether the call copies images or their gradients from one memory format to the other.
bool converts_layout(const OperatorFields& fields) {
  if (fields.name_ != "aten::copy_" || fields.inputs_.size() < 2) return false;
  const auto* to = std::get_if<impl::TensorMetadata>(fields.inputs_.data());
  const auto* from = std::get_if<impl::TensorMetadata>(&fields.inputs_[1]);
  if (!to || !from || to->sizes_.size() != 4 || to->sizes_ != from->sizes_) return false;
  const bool is_plane = std::ranges::count_if(to->sizes_, [](std::int64_t size) { return size > 1; }) < 3;
  return !is_plane && to->strides_.size() == 4 && from->strides_.size() == 4 && order_of(*to) != order_of(*from);
}

DeviceWork work_of(const KinetoFields& fields) {
  const std::string_view name = fields.name_;
  if (fields.activity_type_ == libkineto::ActivityType::GPU_MEMCPY)
    return name.find("HtoD") == std::string_view::npos ? DeviceWork::copy : DeviceWork::copy_to_device;
  return name.starts_with("ncclDevKernel") || name.starts_with("ncclKernel") ? DeviceWork::collective
                                                                             : DeviceWork::kernel;
}

bool runs_on_device(libkineto::ActivityType type) {
  using libkineto::ActivityType;
  return type == ActivityType::CONCURRENT_KERNEL || type == ActivityType::GPU_MEMCPY ||
         type == ActivityType::GPU_MEMSET;
}

bool is_runtime_call(libkineto::ActivityType type) {
  using libkineto::ActivityType;
  return type == ActivityType::CUDA_RUNTIME || type == ActivityType::CUDA_DRIVER;
}

class Reader {
 public:
  Reader(Capture& capture, const RecordingContext& context) : capture_(capture), context_(context) {}

  void read(const std::vector<Event>& roots) {
    for (const Event& root : roots) visit(*root, -1);
    std::ranges::stable_sort(capture_.allocations.begin() + static_cast<std::ptrdiff_t>(first_allocation_),
                             capture_.allocations.end(), {}, &CapturedAllocation::ns);
    std::ranges::sort(capture_.steps.begin() + static_cast<std::ptrdiff_t>(first_step_), capture_.steps.end(), {},
                      &CapturedStep::begin_ns);
    complete_nesting(capture_, first_event_);
    attribute_backward(capture_, first_event_, spans_);
    estimate_costs();
  }

 private:
  void visit(const impl::Result& result, std::int32_t parent) {
    std::int32_t self = parent;
    if (const auto* fields = std::get_if<OperatorFields>(&result.extra_fields_))
      self = add_operator(result, *fields, parent);
    else if (const auto* activity = std::get_if<KinetoFields>(&result.extra_fields_))
      self = add_activity(result, *activity, parent);
    else if (const auto* allocation = std::get_if<AllocationFields>(&result.extra_fields_))
      add_allocation(result, *allocation, parent);
    for (const Event& child : result.children_) visit(*child, self);
  }

  std::int32_t thread_of(const impl::Result& result) {
    const auto [place, is_new] =
        threads_.try_emplace(result.start_tid_, static_cast<std::int32_t>(capture_.threads.size()));
    if (is_new) {
      const std::string name =
          capture_.threads.empty() ? "training thread" : "thread " + std::to_string(capture_.threads.size());
      const auto known = std::ranges::find(capture_.threads, name);
      place->second = static_cast<std::int32_t>(known - capture_.threads.begin());
      if (known == capture_.threads.end()) capture_.threads.push_back(name);
    }
    return place->second;
  }

  std::int32_t add(CapturedEvent event) {
    capture_.events.push_back(event);
    return static_cast<std::int32_t>(capture_.events.size()) - 1;
  }

  std::int32_t add_operator(const impl::Result& result, const OperatorFields& fields, std::int32_t parent) {
    const bool is_span = fields.scope_ == at::RecordScope::USER_SCOPE;
    CapturedEvent event{.parent = parent, .thread = thread_of(result)};
    if (is_span) event.kind = context_.modules.contains(fields.name_) ? EventKind::module : EventKind::span;
    event.is_backward = fields.name_.starts_with(kEvaluate);
    event.name = capture_.intern(event.is_backward ? fields.name_.substr(kEvaluate.size()) : fields.name_);
    event.begin_ns = result.start_time_ns_;
    event.end_ns = std::max(result.endTimeNS(), result.start_time_ns_);
    event.sequence = fields.sequence_number_;
    event.forward_thread = static_cast<std::int64_t>(fields.forward_tid_);
    const std::int32_t index = add(event);
    if (is_span) {
      const auto nodes = context_.nodes.find(fields.record_function_id_);
      if (nodes != context_.nodes.end()) spans_[index] = nodes->second;
      if (fields.name_.starts_with(kStepSpan))
        capture_.steps.push_back({.number = std::stoll(fields.name_.substr(kStepSpan.size())),
                                  .event = index,
                                  .begin_ns = event.begin_ns,
                                  .end_ns = event.end_ns});
    } else {
      details_.emplace_back(index, &fields);
    }
    return index;
  }

  std::int32_t add_activity(const impl::Result& result, const KinetoFields& fields, std::int32_t parent) {
    if (is_runtime_call(fields.activity_type_)) {
      CapturedEvent event{.kind = EventKind::runtime, .name = capture_.intern(fields.name_), .parent = parent};
      event.thread = parent < 0 ? thread_of(result) : capture_.event(parent).thread;
      event.begin_ns = result.start_time_ns_;
      event.end_ns = result.start_time_ns_ + fields.duration_ns_;
      return add(event);
    }
    if (!runs_on_device(fields.activity_type_)) return parent;
    CapturedKernel kernel{.work = work_of(fields),
                          .name = capture_.intern(fields.name_),
                          .event = parent,
                          .begin_ns = result.start_time_ns_,
                          .end_ns = result.start_time_ns_ + fields.duration_ns_,
                          .stream = static_cast<std::int64_t>(result.kineto_info_.resource),
                          .grid = {},
                          .block = {}};
    const auto metadata = nlohmann::json::parse("{" + fields.metadata_json_ + "}", nullptr, /*allow_exceptions=*/false);
    if (metadata.is_object()) {
      kernel.grid = metadata.value("grid", std::vector<std::int64_t>{});
      kernel.block = metadata.value("block", std::vector<std::int64_t>{});
      kernel.registers = metadata.value("registers per thread", std::int64_t{0});
      kernel.shared_bytes = metadata.value("shared memory", std::int64_t{0});
      kernel.occupancy = metadata.value("est. achieved occupancy %", 0.0) / 100;
    }
    capture_.kernels.push_back(std::move(kernel));
    return parent;
  }

  void add_allocation(const impl::Result& result, const AllocationFields& fields, std::int32_t parent) {
    if (fields.device_type_ != context_.device.type()) return;
    if (!context_.device.is_cpu() && fields.device_index_ != context_.device.index()) return;
    capture_.allocations.push_back({.ns = result.start_time_ns_,
                                    .event = parent,
                                    .address = reinterpret_cast<std::uintptr_t>(fields.ptr_),
                                    .bytes = fields.alloc_size_,
                                    .allocated = static_cast<std::int64_t>(fields.total_allocated_),
                                    .reserved = static_cast<std::int64_t>(fields.total_reserved_)});
  }

  /// Returns the bytes of each event's results: allocated inside the event, and alive at its end.
  std::unordered_map<std::int32_t, double> results() const {
    std::unordered_map<std::uintptr_t, std::pair<std::int32_t, std::int64_t>> live;
    std::unordered_map<std::int32_t, double> bytes;
    for (std::size_t i = first_allocation_; i < capture_.allocations.size(); ++i) {
      const CapturedAllocation& one = capture_.allocations[i];
      if (one.bytes > 0) {
        live[one.address] = {one.event, one.bytes};
        if (one.event >= 0) bytes[one.event] += static_cast<double>(one.bytes);
        continue;
      }
      const auto found = live.find(one.address);
      if (found == live.end()) continue;
      const auto [event, size] = found->second;
      if (event >= 0 && one.ns <= capture_.event(event).end_ns) bytes[event] -= static_cast<double>(size);
      live.erase(found);
    }
    return bytes;
  }

  /// Gives each call the work that the calls inside it do not do. A call with bytes has only views and allocations
  /// inside; one with FLOPs has none inside.
  void estimate_costs() {
    std::unordered_map<std::int32_t, double> written = results();
    std::vector<bool> moves(capture_.events.size() - first_event_, false);  // it, or a call inside of it
    std::vector<bool> computes = moves;
    for (auto detail = details_.rbegin(); detail != details_.rend(); ++detail) {
      const auto& [index, fields] = *detail;
      CapturedEvent& event = capture_.events[static_cast<std::size_t>(index)];
      const std::size_t place = static_cast<std::size_t>(index) - first_event_;
      event.shapes = capture_.intern(shapes_of(*fields));
      event.dtype = capture_.intern(dtype_of(*fields));
      event.converts_layout = converts_layout(*fields);
      const auto result = written.find(index);
      const double allocated = result == written.end() ? 0 : result->second;
      const roofline::DispatchedOperator call = recorded_call(*fields, allocated);
      const roofline::Operation cost = roofline::operator_cost(call, roofline::find_cost_rule(call.name));
      if (call.name == "aten::convolution" || call.name == kWinograd) add_convolution(index, call, *fields);
      if (!computes[place]) event.flops = cost.flops;
      if (!moves[place] || event.flops > 0) event.bytes = cost.bytes;
      if (event.parent < 0) continue;
      const std::size_t parent = static_cast<std::size_t>(event.parent) - first_event_;
      if (cost.bytes > 0 || moves[place]) moves[parent] = true;
      if (cost.flops > 0 || computes[place]) computes[parent] = true;
      if (cost.bytes == 0 && allocated > 0) written[event.parent] += allocated;  // an aten::empty inside
    }
  }

  /// Adds a convolution: (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
  /// Winograd's has only the tensors.
  void add_convolution(std::int32_t index, const roofline::DispatchedOperator& call, const OperatorFields& fields) {
    const std::vector<std::int64_t> ones{1, 1};
    const std::vector<std::vector<std::int64_t>> lists =
        call.name == kWinograd ? std::vector{ones, ones, ones} : integer_lists(fields);
    if (call.inputs.size() < 2 || call.inputs[0].shape.size() != 4 || call.inputs[1].shape.size() != 4) return;
    if (lists.size() < 3 || lists[0].empty() || lists[1].empty() || lists[2].empty()) return;
    const auto sizes = [](const roofline::TensorUse& tensor) {
      return std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end());
    };
    capture_.convolutions.push_back(
        {.event = index,
         .input = sizes(call.inputs[0]),
         .weight = sizes(call.inputs[1]),
         .stride = lists[0],
         .padding = lists[1],
         .dilation = lists[2],
         .groups = call.inputs[0].shape[1] / std::max<std::int64_t>(1, call.inputs[1].shape[1])});
  }

  Capture& capture_;
  const RecordingContext& context_;
  std::size_t first_event_ = capture_.events.size();
  std::size_t first_allocation_ = capture_.allocations.size();
  std::size_t first_step_ = capture_.steps.size();
  std::map<std::uint64_t, std::int32_t> threads_;
  std::unordered_map<std::int32_t, SpanNodes> spans_;
  std::vector<std::pair<std::int32_t, const OperatorFields*>> details_;
};

}  // namespace

void append(Capture& capture, const torch::autograd::profiler::ProfilerResult& recording,
            const RecordingContext& context) {
  capture.last_cycle_step = capture.steps.size();
  capture.last_cycle_allocation = capture.allocations.size();
  Reader(capture, context).read(recording.event_tree());
}

}  // namespace trainctl::profiler
