// When blocks are gathered: one ahead of the one that computes, and no more.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/world.h"
#include "distributed/distributed.h"

namespace trainctl::distributed {
namespace {

using FlightRecorder = std::vector<std::string>;

/// Writes down when gathering begins and is waited for.
class Watched final : public comm::Group {
 public:
  Watched(comm::Group& group, FlightRecorder& journal) : group_(group), journal_(journal) {}
  std::int64_t rank() const override { return group_.rank(); }
  std::int64_t size() const override { return group_.size(); }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor tensor, comm::Reduce reduce) override {
    return group_.all_reduce(std::move(tensor), reduce);
  }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor mine) override {
    const std::string name = "of " + std::to_string(all.numel());
    journal_.push_back("gather " + name);
    return std::make_unique<Waited>(group_.all_gather(std::move(all), std::move(mine)), name, journal_);
  }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor mine, at::Tensor all) override {
    journal_.push_back("reduce of " + std::to_string(all.numel()));
    return group_.reduce_scatter(std::move(mine), std::move(all));
  }
  std::unique_ptr<comm::Work> broadcast(at::Tensor tensor, std::int64_t root) override {
    return group_.broadcast(std::move(tensor), root);
  }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor all, at::Tensor mine) override {
    return group_.all_to_all(all, mine);
  }
  std::unique_ptr<comm::Work> isend(at::Tensor tensor, std::int64_t to) override { return group_.isend(tensor, to); }
  std::unique_ptr<comm::Work> irecv(at::Tensor tensor, std::int64_t from) override {
    return group_.irecv(tensor, from);
  }
  void barrier() override { group_.barrier(); }
  const std::vector<std::int64_t>& nodes() const override { return group_.nodes(); }
  std::unique_ptr<comm::Group> split(const std::string& name, const std::vector<std::int64_t>& members) override {
    return group_.split(name, members);
  }

 private:
  class Waited final : public comm::Work {
   public:
    Waited(std::unique_ptr<comm::Work> pending, std::string name, FlightRecorder& journal)
        : pending_(std::move(pending)), name_(std::move(name)), journal_(journal) {}
    void wait() override {
      journal_.push_back("have " + name_);
      pending_->wait();
    }

   private:
    std::unique_ptr<comm::Work> pending_;
    std::string name_;
    FlightRecorder& journal_;
  };

  comm::Group& group_;
  FlightRecorder& journal_;
};

/// y = x * w, whose computing is written down.
class Scale final : public model::UnaryLayer {
 public:
  Scale(std::vector<std::int64_t> shape, FlightRecorder& journal)
      : journal_(journal), weight_(parameter("weight", std::move(shape), model::Init::constant(1))) {}
  const at::Tensor& weight() const { return weight_; }
  at::Tensor compute(const at::Tensor& input) override {
    journal_.push_back("compute " + std::to_string(weight_.numel()));
    return input.mul(weight_.sum());
  }

 private:
  FlightRecorder& journal_;
  at::Tensor& weight_;
};

class Chain final : public model::Model {
 public:
  Chain(const std::vector<std::int64_t>& sizes, FlightRecorder& journal) {
    for (const std::int64_t size : sizes) {
      const std::string name = "s" + std::to_string(size);
      add_block(name, child<Scale>(name, std::vector{size}, journal));
    }
  }
  double flops_per_sample() const override { return 0; }
};

/// A head that multiplies by the weight of another block, and has no parameters of its own.
class TiedHead final : public model::VocabularyHead {
 public:
  explicit TiedHead(const at::Tensor& weight) : weight_(weight) {}
  at::Tensor transform(const at::Tensor& hidden) override { return hidden; }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return {}; }

 private:
  const at::Tensor& weight_;
};

/// Two blocks, and a head that shares the weight of the first one: [16, 2].
class TiedChain final : public model::Model {
 public:
  explicit TiedChain(FlightRecorder& journal) {
    auto& first = child<Scale>("first", std::vector<std::int64_t>{16, 2}, journal);
    add_block("first", first);
    add_block("second", child<Scale>("second", std::vector<std::int64_t>{64}, journal));
    add_vocabulary_head("head", child<TiedHead>("", first.weight()));
  }
  double flops_per_sample() const override { return 0; }
};

/// Lays a model over two ranks and calls `use` on each. Returns what a rank wrote down meanwhile.
template <class Make, class Use>
FlightRecorder journal_of(const ZeroConfig& config, const Make& make, const Use& use) {
  const auto groups = comm::thread_groups(2, std::chrono::seconds(20));
  std::vector<FlightRecorder> journals(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Watched watched(*groups[rank], journals[rank]);
      const std::unique_ptr<model::Model> network = make(journals[rank]);
      model::materialize_without_parameters(*network, at::kCPU, /*channels_last=*/false);
      DistributedConfig distributed;
      distributed.how = config;
      comm::DeviceMesh mesh(watched, mesh_shape(distributed, watched));
      const std::unique_ptr<Parallel> parallel = build(distributed, mesh, *network, model::first_values(*network, 1));
      journals[rank].clear();
      use(*network, *parallel, journals[rank]);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(journals[0] == journals[1]);
  return journals[0];
}

FlightRecorder journal_of(const ZeroConfig& config) {
  return journal_of(
      config,
      [](FlightRecorder& journal) {
        return std::make_unique<Chain>(std::vector<std::int64_t>{32, 64, 96}, journal);
      },
      [](model::Model& chain, Parallel& parallel, FlightRecorder& journal) {
        parallel.before_forward(Gradients::reduce, 1);
        const at::Tensor loss = chain.forward(at::ones({2})).sum();
        parallel.before_backward(loss);
        journal.push_back("backward");
        loss.backward();
        parallel.after_backward();
      });
}

TEST_CASE("the next block is gathered while one computes, both ways", "[distributed]") {
  CHECK(journal_of({.stage = 3}) == FlightRecorder{"gather of 32", "have of 32", "gather of 64", "compute 32",
                                                   "have of 64", "gather of 96", "compute 64", "have of 96",
                                                   "compute 96", "backward", "gather of 96", "have of 96",
                                                   "gather of 64", "reduce of 96", "have of 64", "gather of 32",
                                                   "reduce of 64", "have of 32", "reduce of 32"});
}

TEST_CASE("blocks that aren't resharded are gathered once", "[distributed]") {
  CHECK(journal_of({.stage = 3, .reshard_after_forward = false}) ==
        FlightRecorder{"gather of 32", "have of 32", "gather of 64", "compute 32", "have of 64", "gather of 96",
                       "compute 64", "have of 96", "compute 96", "backward", "reduce of 96", "reduce of 64",
                       "reduce of 32"});
}

TEST_CASE("a head without parameters of its own gathers nothing ahead", "[distributed][regression]") {
  const FlightRecorder written = journal_of(
      {.stage = 3}, [](FlightRecorder& journal) { return std::make_unique<TiedChain>(journal); },
      [](model::Model& network, Parallel& parallel, FlightRecorder&) {
        const at::NoGradGuard no_grad;
        parallel.before_forward(Gradients::reduce, 1);
        network.forward(at::ones({1, 2}));
      });
  CHECK(written == FlightRecorder{"gather of 32", "have of 32", "gather of 64", "compute 32", "have of 64",
                                  "compute 64", "gather of 32", "have of 32"});
}

TEST_CASE("weights that change while a block is gathered ahead are gathered anew", "[distributed][regression]") {
  std::vector<double> outputs;
  std::mutex mutex;
  journal_of(
      {.stage = 3},
      [](FlightRecorder& journal) {
        return std::make_unique<Chain>(std::vector<std::int64_t>{32, 64}, journal);
      },
      [&](model::Model& chain, Parallel& parallel, FlightRecorder&) {
        const at::NoGradGuard no_grad;
        parallel.before_forward(Gradients::reduce, 1);
        chain.forward({.values = at::ones({1}), .blocks = {.begin = 0, .end = 1}});  // gathers the second block ahead
        for (const optimizer::OptimizedParameter& parameter : parallel.optimized()) parameter.tensor.fill_(2);
        parallel.after_update();
        const double output = chain.forward(at::ones({1})).item<double>();
        const std::lock_guard lock(mutex);
        outputs.push_back(output);
      });
  CHECK(outputs == std::vector<double>(2, (2 * 32) * (2 * 64)));
}

}  // namespace
}  // namespace trainctl::distributed
