#include "model/foreign_file.h"

#include <ATen/Parallel.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/print_handler.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/terminal.h"
#include "machine/limited_process.h"
#include "model/torch_archive.h"
#include "runtime/fake_tensor.h"

namespace trainctl::model {
namespace {

class MappedReader final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MappedReader(std::shared_ptr<const core::MappedFile> content) : content_(std::move(content)) {}
  std::size_t size() const override { return content_->bytes().size(); }
  std::size_t read(std::uint64_t position, void* into, std::size_t count, const char* /*what*/) const override {
    const std::span<const std::byte> bytes = content_->bytes();
    const std::size_t begin = std::min<std::size_t>(position, bytes.size());
    const std::size_t size = std::min(count, bytes.size() - begin);
    std::memcpy(into, bytes.data() + begin, size);
    core::check_mapped_files();
    return size;
  }

 private:
  std::shared_ptr<const core::MappedFile> content_;
};

class Uncounted final : public runtime::FakeTensorAccount {
 public:
  std::int64_t take(std::int64_t /*bytes*/) override { return 0; }
  void give_back(std::int64_t /*piece*/) override {}
};

/// Calls `look` with the block's operators. Returns whether there are calls whose targets only the run knows: those of
/// an interface's methods.
bool visit_block(const torch::jit::Block& block, const std::function<void(const torch::jit::Node&)>& look) {
  bool has_open_calls = false;
  for (const torch::jit::Node* node : block.nodes()) {
    look(*node);
    has_open_calls |= node->kind() == torch::jit::prim::CallMethod;
    for (const torch::jit::Block* inner : node->blocks()) has_open_calls |= visit_block(*inner, look);
  }
  return has_open_calls;
}

}  // namespace

ForeignFile::ForeignFile(std::filesystem::path path)
    : path_(std::move(path)), content_(std::make_shared<core::MappedFile>(path_)) {
  check_archive(path_);
}

std::unique_ptr<caffe2::serialize::ReadAdapterInterface> ForeignFile::reader() const {
  return std::make_unique<MappedReader>(content_);
}

void ForeignFile::run_in_child(const std::function<void()>& work) const {
  const std::size_t size = content_->bytes().size();
  constexpr std::size_t kBytesPerSecond = std::size_t{100} << 20;  // to read weights, on a slow machine
  const machine::ProcessLimits limits{.time = std::chrono::seconds(5 + size / kBytesPerSecond),
                                      .memory_bytes = (std::size_t{512} << 20) + 2 * size};
  const auto answer = [&](const std::string&) {
    at::set_num_threads(1);  // the threads of OpenMP aren't there in a copy of the process
    work();
    return std::string();
  };
  machine::LimitedProcess(answer, limits).ask("");
}

void ForeignFile::try_in_child(const std::string& what, const std::function<void()>& work) const {
  try {
    run_in_child(work);
  } catch (const machine::LimitReached& limit) {
    throw core::Error(what + " " + limit.what());
  } catch (const core::Error&) {  // NOLINT(bugprone-empty-catch): the work itself shows it, with what to try
  }
}

void ForeignFile::check_in_child(const std::function<void()>& work) const {
  try {
    run_in_child(work);
  } catch (const machine::LimitReached&) {  // NOLINT(bugprone-empty-catch): a large network may need more
  }
}

void run_without_values(const std::function<void()>& work) {
  std::optional<runtime::FakeTensorScope> scope;
  if (!runtime::FakeTensorScope::is_active())
    scope.emplace(at::kCPU, std::make_shared<Uncounted>(), [](const auto&, const auto&) { return std::int64_t{0}; });
  work();
}

void visit_operators(const torch::jit::Method& forward, const std::function<void(const torch::jit::Node&)>& look) {
  const std::shared_ptr<torch::jit::Graph> graph = forward.graph()->copy();
  torch::jit::Inline(*graph);
  if (!visit_block(*graph->block(), look)) return;
  for (torch::jit::Function* function : forward.raw_owner()->compilation_unit()->get_functions())
    if (function->isGraphFunction()) visit_block(*torch::jit::toGraphFunction(*function).graph()->block(), look);
}

void refuse_side_effects(const torch::jit::Method& forward, const std::string& path) {
  constexpr std::array<std::string_view, 6> kRefused = {"aten::from_file",      "aten::save",     "prim::PythonOp",
                                                        "prim::profile_ivalue", "aten::set_data", "prim::fork"};
  visit_operators(forward, [&](const torch::jit::Node& node) {
    const std::string_view kind = node.kind().toQualString();
    if (std::find(kRefused.begin(), kRefused.end(), kind) != kRefused.end())
      throw core::Error(path + " is refused: it calls " + std::string(kind) + ", which is no part of a network");
  });
}

void tame_prints() {
  torch::jit::setPrintHandler([](const std::string& text) { core::print(stderr, "%s", text.c_str()); });
}

}  // namespace trainctl::model
