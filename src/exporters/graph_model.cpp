#include "exporters/graph_model.h"

#include <fstream>

#include "core/error.h"
#include "exporters/inductor_package.h"
#include "exporters/onnx/run/file.h"
#include "exporters/torchscript.h"
#include "pretrained/torch_file.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;

/// An open graph of any kind.
class OpenedGraph {
 public:
  virtual ~OpenedGraph() = default;
  virtual at::Tensor run(const Signature& signature, const std::vector<at::Tensor>& inputs) = 0;
  virtual std::string note(const std::string& name) const = 0;  // "": there is none
};

class ScriptGraph final : public OpenedGraph {
 public:
  explicit ScriptGraph(const fs::path& path) : file_(open_torchscript(path)) {}
  at::Tensor run(const Signature&, const std::vector<at::Tensor>& inputs) override { return file_->run(inputs); }
  std::string note(const std::string& name) const override { return file_->note(name); }

 private:
  std::unique_ptr<TorchScriptFile> file_;
};

class OnnxGraphFile final : public OpenedGraph {
 public:
  explicit OnnxGraphFile(const fs::path& path) : file_(path) {}
  at::Tensor run(const Signature& signature, const std::vector<at::Tensor>& inputs) override {
    std::map<std::string, at::Tensor> named;
    for (std::size_t i = 0; i < inputs.size(); ++i) named[signature.inputs[i].name] = inputs[i];
    return file_.run(named).at(file_.outputs().front());
  }
  std::string note(const std::string& name) const override { return file_.note(name); }

 private:
  OnnxFile file_;
};

class CompiledGraph final : public OpenedGraph {
 public:
  explicit CompiledGraph(const fs::path& path) : package_(open_inductor_package(path)) {}
  at::Tensor run(const Signature&, const std::vector<at::Tensor>& inputs) override { return package_->run(inputs); }
  std::string note(const std::string&) const override { return ""; }

 private:
  std::unique_ptr<InductorPackage> package_;
};

/// Returns whether the file is a zip archive, as those of TorchScript and AOTInductor are.
bool is_archive(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  file.read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == std::string_view("PK\x03\x04", 4);
}

bool is_script(const fs::path& path) {
  return is_archive(path) || path.extension() == ".pt" || path.extension() == ".ptl";
}

std::unique_ptr<OpenedGraph> open(const fs::path& path) {
  if (!fs::is_regular_file(path)) throw core::Error("there is no file " + path.string());
  if (is_inductor_package(path)) return std::make_unique<CompiledGraph>(path);
  if (is_script(path)) return std::make_unique<ScriptGraph>(path);
  return std::make_unique<OnnxGraphFile>(path);
}

/// A layer that is the whole network. It gives what the network gave: labels that the graph restores are standardized.
class GraphLayer final : public model::SequenceLayer {
 public:
  GraphLayer(std::unique_ptr<OpenedGraph> graph, Signature signature)
      : graph_(std::move(graph)), signature_(std::move(signature)) {}

  at::Tensor compute(const at::Tensor& input, const model::SequenceContext& context) override {
    const model::ModelInput given{.values = input, .token_types = context.token_types, .key_mask = context.key_mask};
    const at::Tensor outputs = graph_->run(signature_, graph_inputs(signature_, given));
    if (!signature_.restores_labels()) return outputs;
    return outputs.to(at::kDouble).sub(signature_.labels.mean).div(signature_.labels.deviation);
  }

 private:
  std::unique_ptr<OpenedGraph> graph_;
  Signature signature_;
};

class GraphModel final : public model::Model {
 public:
  GraphModel(std::unique_ptr<OpenedGraph> graph, const Signature& signature) {
    add_block("graph", child<GraphLayer>("graph", std::move(graph), signature));
  }
  double flops_per_sample() const override { return 0; }

 protected:
  model::SequenceContext context(const model::ModelInput& input) const override {
    if (input.documents.defined())
      throw core::Error("an exported graph knows one document a row").hint("dataset.document_mask: false");
    return {.token_types = input.token_types, .key_mask = input.key_mask};
  }
};

}  // namespace

bool is_graph_file(const fs::path& path) {
  return fs::is_regular_file(path) && path.extension() != ".safetensors" && !pretrained::is_torch_weights(path);
}

std::unique_ptr<model::Model> open_graph(const fs::path& path, const Signature& signature) {
  return std::make_unique<GraphModel>(open(path), signature);
}

ListedData data_of_graph(const fs::path& path) {
  return data_in(open(path)->note(kModelJson));
}

}  // namespace trainctl::exporters
