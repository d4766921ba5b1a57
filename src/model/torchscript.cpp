// Networks that PyTorch wrote as TorchScript, trained as they are.
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "model/foreign_file.h"
#include "model/networks.h"
#include "runtime/fake_tensor.h"

namespace trainctl::model {
namespace {

/// Keeps the interpreter from rewriting graphs: each run calls the operators that the module names, in their order.
class PlainExecution {
 public:
  PlainExecution() : before_(torch::jit::getGraphExecutorOptimize()) { torch::jit::setGraphExecutorOptimize(false); }
  PlainExecution(const PlainExecution&) = delete;
  PlainExecution& operator=(const PlainExecution&) = delete;
  ~PlainExecution() { torch::jit::setGraphExecutorOptimize(before_); }

 private:
  bool before_;
};

std::string first_line(const char* text) {
  const std::string_view all = core::trimmed(text, "\n");
  return std::string(all.substr(0, all.find('\n')));
}

core::Error no_module(const std::string& path, const std::exception& error) {
  const auto* const of_library = dynamic_cast<const c10::Error*>(&error);
  return core::Error("model.path: " + path + " is no TorchScript module: " +
                     first_line(of_library != nullptr ? of_library->what_without_backtrace() : error.what()))
      .hint(
          "write it by torch.jit.script(module).save(path); archives of torch.export and torch.save hold no code "
          "that LibTorch can train");
}

ForeignFile open(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) throw core::Error("model.path: there is no file " + path);
  const core::RegularFile readable(path);
  try {
    return ForeignFile(path);
  } catch (const std::exception& error) {
    throw no_module(path, error);
  }
}

torch::jit::Module load(const ForeignFile& file) {
  const runtime::RealScope real;  // a planner's tensors have no values
  tame_prints();
  try {
    torch::jit::Module module = torch::jit::load(file.reader(), at::kCPU);
    for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions())
      function->ensure_defined();  // else it is read when it is called first
    return module;
  } catch (const std::exception& error) {
    throw no_module(file.path(), error);
  }
}

/// Throws if a mode was fixed by tracing, so that training and evaluation would be the same.
void check_modes(const torch::jit::Node& node, const std::string& path) {
  const auto* schema = node.maybeSchema();
  if (schema == nullptr) return;
  if (const auto mean = schema->argumentIndexWithName("running_mean"); mean && node.input(*mean)->mustBeNone())
    return;  // without statistics of training both modes are the same
  for (const char* name : {"training", "train"})
    if (const auto place = schema->argumentIndexWithName(name); place && torch::jit::toIValue(node.input(*place)))
      throw core::Error("model.path: " + path + ": the mode of " + node.kind().toQualString() +
                        " was fixed when the module was traced")
          .hint("torch.jit.script(module) keeps training and evaluation apart; torch.jit.trace doesn't");
}

/// Whether two tensors have elements between the same addresses.
bool share_memory(const at::Tensor& left, const at::Tensor& right) {
  const auto end = [](const at::Tensor& tensor) {
    std::int64_t last = 0;
    for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
    return static_cast<const char*>(tensor.const_data_ptr()) + (last + 1) * tensor.element_size();
  };
  for (const at::Tensor& tensor : {left, right})
    if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return false;
  return left.const_data_ptr() < end(right) && right.const_data_ptr() < end(left);
}

/// An attribute of a module, with the module's class.
struct Attribute {
  c10::ClassTypePtr owner;
  std::string name;
};

/// Returns the module's attribute that a value is, or is a part or a view of.
std::optional<Attribute> attribute_of(const torch::jit::Value* value) {
  for (;;) {
    const torch::jit::Node& node = *value->node();
    if (node.kind() == torch::jit::prim::GetAttr) {
      const auto owner = node.input(0)->type()->cast<c10::ClassType>();
      if (owner && owner->is_module()) return Attribute{owner, node.s(torch::jit::attr::name)};
    } else {
      const auto* schema = node.maybeSchema();
      const bool is_part = schema != nullptr && !schema->returns().empty() && schema->returns()[0].alias_info();
      if (!is_part && node.kind() != torch::jit::prim::unchecked_cast) return std::nullopt;
    }
    if (node.inputs().empty()) return std::nullopt;
    value = node.input(0);
  }
}

/// Throws if the operator changes an attribute that no checkpoint has, so that a resumed run would differ.
void check_state(const torch::jit::Node& node, const std::string& path) {
  const auto refuse = [&](const std::string& name) {
    throw core::Error("model.path: " + path + ": forward() changes the attribute `" + name +
                      "`, which no checkpoint would have")
        .hint("keep it as a tensor that __init__ registers by register_buffer()");
  };
  if (node.kind() == torch::jit::prim::SetAttr) {
    const auto owner = node.input(0)->type()->cast<c10::ClassType>();
    const std::string& name = node.s(torch::jit::attr::name);
    if (owner && owner->is_module() && !owner->is_buffer(owner->getAttributeSlot(name))) refuse(name);
    if (const auto attribute = attribute_of(node.input(0)); attribute && owner && !owner->is_module())
      refuse(attribute->name);  // an object of a class that is no module
    return;
  }
  const auto* schema = node.maybeSchema();
  if (schema == nullptr) return;
  for (std::size_t i = 0; i < std::min(schema->arguments().size(), node.inputs().size()); ++i) {
    const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    const auto attribute = attribute_of(node.input(i));
    if (!attribute) continue;
    const std::size_t slot = attribute->owner->getAttributeSlot(attribute->name);
    if (!attribute->owner->is_buffer(slot) && !attribute->owner->is_parameter(slot)) refuse(attribute->name);
  }
}

/// Runs the module on parameters and buffers of this layer.
class ScriptedLayer final : public SequenceLayer {
 public:
  ScriptedLayer(const ForeignFile& file, bool takes_tokens, std::int64_t num_outputs)
      : module_(load(file)), path_(file.path()), takes_tokens_(takes_tokens), num_outputs_(num_outputs) {
    const std::string& path = path_;
    const auto forward = module_.find_method("forward");
    if (!forward) throw core::Error("model.path: " + path + " has no method forward()");
    num_inputs_ = forward->function().getSchema().arguments().size() - 1;  // without self
    if (num_inputs_ < 1) throw core::Error("model.path: " + path + ": forward() takes nothing; expected a tensor");
    refuse_side_effects(*forward, "model.path: " + path);
    visit_operators(*forward, [&](const torch::jit::Node& node) {
      check_modes(node, path);
      check_state(node, path);
    });
    find_modes();
    declare(module_, "");
    find_in_lists(module_, "");
    declared_.clear();
    if (places_.empty() || std::none_of(places_.begin(), places_.end(), [](const Place& p) { return p.is_parameter; }))
      throw core::Error("model.path: " + path + " has no parameters to train")
          .hint("torch.jit.freeze turns weights into constants: save the module before it");
    // What the file has is this layer's now. The module is given values before each run.
    for (const Place& place : places_) place.owner->setSlot(place.slot, at::Tensor());
    for (ListPlace& place : list_places_) place.list.set(place.index, at::Tensor());
  }

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    for (const Mode& mode : modes_) mode.owner->setSlot(mode.slot, is_training() && mode.trains);
    for (const Place& place : places_) place.owner->setSlot(place.slot, *place.value);
    for (ListPlace& place : list_places_) place.list.set(place.index, *place.value);
    std::vector<c10::IValue> inputs{input};
    if (takes_tokens_ && num_inputs_ > 1)
      inputs.emplace_back(context.key_mask.defined() ? context.key_mask.to(at::kLong) : at::ones_like(input));
    const at::Tensor output = tensor_of(run(std::move(inputs)));
    keep_buffers();
    if (output.dim() < 2 || output.size(-1) != num_outputs_)
      throw core::Error("model.path: " + path_ + " gives " + shape_text(output) + " for a batch of " +
                        std::to_string(input.size(0)) + "; expected " + std::to_string(num_outputs_) +
                        " outputs in the last dim");
    return output;
  }
  bool has_images() const { return has_images_; }

 private:
  /// A submodule's attribute `training`, and whether it is true in training.
  struct Mode {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::size_t slot;
    bool trains;
  };

  /// Finds the submodules' modes. Those that were saved in evaluation, in a module that was saved in training, stay so:
  /// a frozen BatchNorm. A module that was saved in evaluation trains as a whole.
  void find_modes() {
    const bool keeps_modes = module_.is_training();
    for (const torch::jit::Module& module : module_.modules())
      if (const auto slot = module.type()->findAttributeSlot("training"))
        modes_.push_back({module._ivalue(), *slot, !keeps_modes || module.is_training()});
  }

  /// A tensor of the module, and the value here that takes its place.
  struct Place {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::size_t slot;
    at::Tensor* value;
    bool is_parameter;
  };

  c10::IValue run(std::vector<c10::IValue> inputs) {
    const PlainExecution plain;
    try {
      return module_.forward(std::move(inputs));
    } catch (const c10::Error& error) {
      throw core::Error("model.path: " + path_ + " failed: " + reason(error.what_without_backtrace()));
    } catch (const std::exception& error) {  // what an operator throws, the interpreter makes a std::runtime_error
      throw core::Error("model.path: " + path_ + " failed: " + reason(error.what()));
    }
  }
  /// Returns what the interpreter's traceback ends with.
  static std::string reason(const std::string& traceback) {
    const std::size_t begin = traceback.rfind("Error: ");
    return first_line(begin == std::string::npos ? traceback.c_str() : traceback.c_str() + begin + 7);
  }

  /// A tensor of a list that is an attribute: torch.nn.LSTM keeps its parameters in one, too.
  struct ListPlace {
    c10::List<at::Tensor> list;
    std::size_t index;
    at::Tensor* value;
  };

  /// Declares the tensors of a module and of those below it. Tied ones are declared once, under their first name.
  void declare(const torch::jit::Module& module, const std::string& prefix) {
    const auto type = module.type();
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const c10::IValue value = module._ivalue()->getSlot(slot);
      const std::string name = prefix + type->getAttributeName(slot);
      if (value.isModule()) {
        declare(torch::jit::Module(value.toObject()), name + ".");
      } else if (value.isTensor() && value.toTensor().defined()) {
        declare_tensor(module, slot, name, value.toTensor());
      }
    }
  }
  void find_in_lists(const torch::jit::Module& module, const std::string& prefix) {
    const auto type = module.type();
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const c10::IValue value = module._ivalue()->getSlot(slot);
      const std::string name = prefix + type->getAttributeName(slot);
      if (value.isModule()) {
        find_in_lists(torch::jit::Module(value.toObject()), name + ".");
      } else if (value.isTensorList()) {
        const c10::List<at::Tensor> list = value.toTensorList();
        for (std::size_t i = 0; i < list.size(); ++i)
          if (const auto found = known_.find(list.get(i).unsafeGetTensorImpl()); found != known_.end())
            list_places_.push_back({list, i, found->second});
          else
            check_own_memory(name, list.get(i));
      } else if (!type->is_parameter(slot) && !type->is_buffer(slot)) {
        value.visit([&](const c10::IValue& inside) {
          if (inside.isTensor()) check_own_memory(name, inside.toTensor());
          return false;
        });
      }
    }
  }
  /// Throws if the tensor and one that was declared share memory that is trained: here they would have other values
  /// after a step.
  void check_own_memory(const std::string& name, const at::Tensor& tensor, bool is_trained = false) const {
    for (const auto& [other, declared, other_is_trained] : declared_)
      if ((is_trained || other_is_trained) && share_memory(tensor, declared))
        throw core::Error("model.path: " + path_ + ": `" + name + "` shares memory with `" + other +
                          "`, and would keep the first values in training")
            .hint("use `" + other + "` itself in forward(); two layers share a weight if both have the same Parameter");
  }
  void declare_tensor(const torch::jit::Module& module, std::size_t slot, const std::string& name,
                      const at::Tensor& tensor) {
    const bool may_train = module.type()->is_parameter(slot);
    if (!may_train && !module.type()->is_buffer(slot)) return;  // a constant
    if (const bool is_complex = tensor.is_complex(); is_complex || tensor.layout() != at::kStrided)
      throw core::Error("model.path: " + path_ + ": `" + name + "` is " + (is_complex ? "complex" : "sparse") +
                        ", which no checkpoint holds; expected a dense tensor of real numbers")
          .hint(is_complex ? "register torch.view_as_real of the tensor" : "register to_dense() of the tensor");
    const bool is_parameter = may_train && tensor.is_floating_point();  // integers keep their type
    at::Tensor*& here = known_[tensor.unsafeGetTensorImpl()];
    if (here == nullptr) {
      check_own_memory(name, tensor, is_parameter);
      declared_.push_back({name, tensor, is_parameter});
      here = is_parameter ? &parameter(name, tensor) : &buffer(name, tensor);
    }
    places_.push_back({module._ivalue(), slot, here, is_parameter});
    has_images_ = has_images_ || (is_parameter && tensor.dim() == 4);
  }

  /// Takes buffers that the module replaced instead of changing them.
  void keep_buffers() {
    const c10::NoGradGuard no_grad;
    for (const Place& place : places_) {
      if (place.is_parameter) continue;
      const at::Tensor now = place.owner->getSlot(place.slot).toTensor();
      if (now.is_same(*place.value)) continue;
      if (now.sizes() != place.value->sizes() || (now.is_floating_point() && !place.value->is_floating_point()))
        throw core::Error("model.path: " + path_ + ": forward() gives the buffer `" +
                          place.owner->type()->getAttributeName(place.slot) +
                          "` another shape or type than the file has; expected the same")
            .hint("register the buffer with the shape and type that forward() gives");
      place.value->copy_(now);
    }
  }

  static std::string shape_text(const at::Tensor& tensor) {
    std::string text;
    for (const std::int64_t size : tensor.sizes()) text += (text.empty() ? "[" : ", ") + std::to_string(size);
    return text.empty() ? "a number" : text + "]";
  }
  at::Tensor tensor_of(const c10::IValue& output) const {
    if (output.isTensor()) return output.toTensor();
    if (output.isTuple() && !output.toTupleRef().elements().empty() && output.toTupleRef().elements()[0].isTensor())
      return output.toTupleRef().elements()[0].toTensor();
    if (output.isGenericDict())
      if (const auto found = output.toGenericDict().find("logits"); found != output.toGenericDict().end())
        return found->value().toTensor();
    throw core::Error("model.path: " + path_ + ": forward() gives " + output.tagKind() +
                      "; expected a tensor, a tuple that begins with one, or a dict with `logits`");
  }

  torch::jit::Module module_;
  std::string path_;
  bool takes_tokens_;
  std::int64_t num_outputs_;
  std::size_t num_inputs_ = 0;
  bool has_images_ = false;
  std::vector<Mode> modes_;
  std::map<const at::TensorImpl*, at::Tensor*> known_;
  struct Declared {
    std::string name;
    at::Tensor tensor;
    bool is_trained = false;
  };
  std::vector<Declared> declared_;  // the file's tensors, while it is read
  std::vector<Place> places_;
  std::vector<ListPlace> list_places_;
};

class TorchScriptModel final : public Model {
 public:
  TorchScriptModel(const TorchScriptConfig& config, const InputSpec& input, const ForeignFile& file)
      : sizes_{.vocab_size = input.vocab_size, .num_outputs = num_outputs_or_one(config.num_classes, input)},
        layer_(child<ScriptedLayer>("", file, config.takes_tokens(), sizes_.num_outputs)),
        takes_tokens_(config.takes_tokens()) {
    add_block("module", layer_);
  }

  double flops_per_sample() const override { return 0; }
  std::optional<ListedSizes> listed_sizes() const override { return sizes_; }
  bool prefers_channels_last() const override { return layer_.has_images(); }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    return takes_tokens_ ? make_context(input, Causality::bidirectional) : SequenceContext{};
  }

 private:
  ListedSizes sizes_;
  ScriptedLayer& layer_;
  bool takes_tokens_;
};

/// Computes two samples of zeros, since BatchNorm takes more than one.
void compute_zeros(const TorchScriptConfig& config, const InputSpec& input, const ForeignFile& file) {
  TorchScriptModel model(config, input, file);
  materialize(model, at::kCPU, /*seed=*/0, /*channels_last=*/false);
  std::vector<std::int64_t> shape = input.shape;
  shape.insert(shape.begin(), 2);
  model.forward(at::zeros(shape, config.takes_tokens() ? at::kLong : at::kFloat));
}

}  // namespace

std::unique_ptr<Model> build(const TorchScriptConfig& config, const InputSpec& input) {
  const ForeignFile file = open(config.path);
  file.try_in_child("model.path: " + config.path,
                    [&] { run_without_values([&] { compute_zeros(config, input, file); }); });
  return std::make_unique<TorchScriptModel>(config, input, file);
}

void check_network_file(const NetworkConfig& network, const InputSpec& input) {
  const auto* scripted = network.get_if<TorchScriptConfig>();
  if (scripted == nullptr) return;
  const ForeignFile file = open(scripted->path);
  // Values decide what some networks compute. So only a computation with values tells whether one fails.
  file.check_in_child([&] {
    const c10::NoGradGuard no_grad;
    compute_zeros(*scripted, input, file);
  });
}

}  // namespace trainctl::model
