#include "exporters/onnx/run/file.h"

#include <catch2/catch.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/file.h"
#include "exporters/onnx/builder.h"
#include "exporters/onnx/lower/lowering.h"
#include "exporters/trace.h"
#include "support/exported_networks.h"
#include "support/python.h"
#include "support/temporary_directory.h"

namespace trainctl::exporters {
namespace {

using namespace testing;  // NOLINT
namespace fs = std::filesystem;

Signature signature_for(const ExportedNetwork& exported, model::Model& model) {
  return exporters::signature_of(exported.network, pretrained::model_info_of(model, exported.input.shape));
}

std::map<std::string, at::Tensor> by_name(const Signature& signature, const std::vector<at::Tensor>& inputs) {
  std::map<std::string, at::Tensor> named;
  for (std::size_t i = 0; i < inputs.size(); ++i) named[signature.inputs[i].name] = inputs[i];
  return named;
}

at::Tensor live(model::Model& model, const Signature& signature, const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_grad;
  return model.forward(model_input(signature, inputs));
}

/// A small file with every kind of tensor, and the model that it is of.
struct WrittenBert {
  TemporaryDirectory scratch{};
  fs::path path{};
  std::string bytes{};
};
std::unique_ptr<WrittenBert> written_bert(std::int64_t most_inside = 1 << 30) {
  auto written = std::make_unique<WrittenBert>();
  for (const ExportedNetwork& exported : exported_networks()) {
    if (exported.name != "bert_tags") continue;
    const auto model = ready(exported);
    const Signature signature = signature_for(exported, *model);
    written->path = written->scratch / "bert.onnx";
    write_onnx(lower_to_onnx(trace(*model, signature), signature), written->path,
               {.notes = {{"a", "b"}}, .most_inside = most_inside});
  }
  written->bytes = core::read_file(written->path);
  return written;
}

/// Writes every network, with inputs and outputs beside it, and compares what our own runtime makes of the file.
void write_zoo(const TemporaryDirectory& scratch) {
  for (const ExportedNetwork& exported : exported_networks()) {
    INFO(exported.name);
    const auto model = ready(exported);
    const Signature signature = signature_for(exported, *model);
    const fs::path path = scratch / (exported.name + ".onnx");
    write_onnx(lower_to_onnx(trace(*model, signature), signature), path, {});
    const OnnxFile file(path);
    int number = 0;
    for (const auto& inputs : batches_for(signature)) {
      const at::Tensor expected = live(*model, signature, inputs);
      const at::Tensor actual = file.run(by_name(signature, inputs)).at("logits");
      REQUIRE(actual.sizes() == expected.sizes());
      CHECK(relative_difference(actual, expected) < 1e-5);
      checkpoint::TensorMap tensors = by_name(signature, inputs);
      tensors["logits"] = expected;
      checkpoint::write_safetensors(scratch / (exported.name + "." + std::to_string(number++) + ".safetensors"),
                                    tensors, {}, core::Durability::process);
    }
  }
}

TEST_CASE("every network of the zoo as ONNX gives what the model gives, at all sizes", "[exporters]") {
  const TemporaryDirectory scratch;
  write_zoo(scratch);
}

TEST_CASE("ONNX Runtime gives what the model gives, for every network of the zoo", "[exporters][reference]") {
  const TemporaryDirectory scratch;
  write_zoo(scratch);
  run_reference("onnx_files.py", {scratch.path().string()});
}

TEST_CASE("tensors beyond a size go to a file of their own, which ONNX Runtime finds", "[exporters][reference]") {
  const auto written = written_bert(/*most_inside=*/20000);
  CHECK(fs::exists(written->path.string() + ".data"));
  CHECK(OnnxFile(written->path).note("a") == "b");
  run_reference("onnx_files.py", {written->scratch.path().string()});
  fs::resize_file(written->path.string() + ".data", 5000);
  CHECK_THROWS_WITH(OnnxFile(written->path), Catch::Contains("behind the end of"));
}

TEST_CASE("an operator that ONNX can't say is an Error that names it and its block", "[exporters]") {
  for (const ExportedNetwork& exported : exported_networks()) {
    if (exported.name != "cnn") continue;
    const auto model = ready(exported);
    const Signature signature = signature_for(exported, *model);
    torch::jit::Module module = trace(*model, signature);
    const auto graph = module.get_method("forward").graph();
    for (torch::jit::Node* node : graph->nodes())
      if (node->kind() == c10::aten::relu) {
        torch::jit::Node* other = graph->create(c10::Symbol::fromQualString("aten::selu"), {node->input()});
        other->output()->copyMetadata(node->output());
        other->setScope(node->scope());
        other->insertBefore(node);
        node->output()->replaceAllUsesWith(other->output());
        break;
      }
    CHECK_THROWS_WITH(lower_to_onnx(module, signature), Catch::Contains("aten::selu") && Catch::Contains("layer1"));
  }
}

TEST_CASE("damaged ONNX files are refused or run, and never crash", "[exporters]") {
  const auto written = written_bert();
  const TemporaryDirectory scratch;
  for (const double part : {0.0, 0.01, 0.3, 0.7, 0.99})
    CHECK_THROWS_AS(
        OnnxFile(scratch.write(
            "cut.onnx",
            written->bytes.substr(0, static_cast<std::size_t>(part * static_cast<double>(written->bytes.size()))))),
        core::Error);
  const std::map<std::string, at::Tensor> inputs{{"input_ids", at::ones({2, 7}, at::kLong)},
                                                 {"attention_mask", at::ones({2, 7}, at::kLong)},
                                                 {"token_type_ids", at::ones({2, 7}, at::kLong)}};
  std::size_t refused = 0;
  std::uint32_t random = 1;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = written->bytes;
    for (int change = 0; change < 4; ++change) {
      random = random * 1664525 + 1013904223;
      damaged[random % damaged.size()] = static_cast<char>(random >> 24);
    }
    try {
      OnnxFile(scratch.write("damaged.onnx", damaged)).run(inputs);
    } catch (const core::Error&) {
      ++refused;
    }
  }
  CHECK(refused > 20);  // most of the bytes are weights
  CHECK_THROWS_AS(OnnxFile(scratch / "absent.onnx"), core::Error);
}

TEST_CASE("hostile ONNX files are refused with a reason", "[exporters]") {
  const auto written = written_bert();
  const TemporaryDirectory scratch;
  const auto changed = [&](const auto& change) {
    onnx::Model model = onnx::decode(written->bytes);
    change(model);
    return scratch.write("hostile.onnx", onnx::encode(model));
  };
  const auto outside = [&](const std::string& location) {
    return changed([&](onnx::Model& model) {
      onnx::Tensor& tensor = model.graph.initializers.front();
      tensor.raw_data = std::nullopt;
      tensor.is_external = true;
      tensor.external_data = {{"location", location}};
    });
  };
  for (const char* location : {"../secret", "/etc/passwd", "", "..", "a/b"})
    CHECK_THROWS_WITH(OnnxFile(outside(location)), Catch::Contains("no file beside the model"));
  fs::create_symlink("/etc/passwd", scratch / "link");
  CHECK_THROWS_WITH(OnnxFile(outside("link")), Catch::Contains("no file beside the model"));
  CHECK_THROWS_WITH(OnnxFile(changed([](onnx::Model& model) {
                      model.graph.initializers.front().dims.push_back(std::int64_t{1} << 62);
                    })),
                    Catch::Contains("impossible dims") || Catch::Contains("wrong number of bytes"));
  CHECK_THROWS_WITH(OnnxFile(changed([](onnx::Model& model) { model.graph.nodes.front().op_type = "Loop"; })),
                    Catch::Contains("`") && Catch::Contains("(Loop)"));
  CHECK_THROWS_WITH(OnnxFile(changed([](onnx::Model& model) { model.graph.nodes[3].inputs.push_back("nowhere"); })),
                    Catch::Contains("which nothing before it gives"));
  CHECK_THROWS_WITH(OnnxFile(changed([](onnx::Model& model) { model.opsets.front().version = 99; })),
                    Catch::Contains("opset 99"));
  CHECK_THROWS_WITH(OnnxFile(scratch.write("text.onnx", "no protobuf at all")), Catch::Contains("no ONNX file"));
}

TEST_CASE("nodes that would divide by zero, or leave the range of integers, end in a reason or a value",
          "[exporters][regression]") {
  const TemporaryDirectory scratch;
  using Integers = std::vector<std::int64_t>;
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const Integers dividends = {least, 7, -7}, divisors = {-1, -1, 2}, size = {1, 1, 2, 2};
  const auto stored = [](const std::string& name, const Integers& numbers) {
    return onnx::Tensor{
        .name = name,
        .dims = {static_cast<std::int64_t>(numbers.size())},
        .data_type = onnx::kInt64,
        .raw_data = std::string_view(reinterpret_cast<const char*>(numbers.data()), 8 * numbers.size())};
  };
  onnx::Model model{.ir_version = 8, .opsets = {{.domain = "", .version = 17}}};
  model.graph.initializers = {
      stored("dividends", dividends), stored("divisors", divisors), stored("size", size),
      onnx::Tensor{.name = "nothing", .dims = {1, 1, 0, 1}, .data_type = onnx::kFloat, .raw_data = ""}};
  const auto run = [&](const std::vector<onnx::Node>& nodes) {
    model.graph.nodes = nodes;
    model.graph.outputs = {{.name = "out"}};
    return OnnxFile(scratch.write("few.onnx", onnx::encode(model))).run({}).at("out");
  };
  const auto node = [](const std::string& type, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::Node made{.name = "it", .op_type = type, .inputs = inputs};
    if (!output.empty()) made.outputs = {output};
    return made;
  };
  const at::Tensor quotients = run({node("Div", {"dividends", "divisors"}, "out")});
  const auto* values = quotients.const_data_ptr<std::int64_t>();
  CHECK(Integers(values, values + quotients.numel()) == Integers{least, -7, -3});
  CHECK_THROWS_WITH(run({node("Split", {"size"}, ""), node("Identity", {"size"}, "out")}),
                    Catch::Contains("(Split)") && Catch::Contains("4 places for 0 parts"));
  CHECK_THROWS_WITH(run({node("Resize", {"nothing", "", "", "size"}, "out")}), Catch::Contains("(Resize)"));
}

TEST_CASE("nodes whose results multiply are refused at a size, before they take the memory",
          "[exporters][regression]") {
  const TemporaryDirectory scratch;
  using Integers = std::vector<std::int64_t>;
  const Integers wide = {1 << 20, 1 << 10}, column = {1 << 20, 1}, row = {1, 1 << 20}, many = {1 << 22};
  const auto stored = [](const std::string& name, const Integers& numbers) {
    return onnx::Tensor{
        .name = name,
        .dims = {static_cast<std::int64_t>(numbers.size())},
        .data_type = onnx::kInt64,
        .raw_data = std::string_view(reinterpret_cast<const char*>(numbers.data()), 8 * numbers.size())};
  };
  const auto refused = [&](const std::string& type, const std::vector<std::string>& inputs) {
    onnx::Model model{.ir_version = 8, .opsets = {{.domain = "", .version = 17}}};
    model.graph.initializers = {stored("wide_size", wide), stored("column_size", column), stored("row_size", row),
                                stored("many_size", many),
                                onnx::Tensor{.name = "one", .dims = {1}, .data_type = onnx::kUint8, .raw_data = "\1"}};
    for (const std::string name : {"wide", "column", "row", "many"})  // views of one number, which take no memory
      model.graph.nodes.push_back(
          {.name = name, .op_type = "Expand", .inputs = {"one", name + "_size"}, .outputs = {name}});
    model.graph.nodes.push_back({.name = "it", .op_type = type, .inputs = inputs, .outputs = {"out"}});
    model.graph.outputs = {{.name = "out"}};
    const OnnxFile file(scratch.write("many.onnx", onnx::encode(model)));
    CHECK_THROWS_WITH(file.run({}), Catch::Contains("(" + type + ")") && Catch::Contains("impossible size"));
  };
  refused("Concat", {"wide", "wide", "wide"});
  refused("Gather", {"wide", "many"});
  refused("Add", {"column", "row"});
  refused("Equal", {"column", "row"});
}

}  // namespace
}  // namespace trainctl::exporters
