#include "comm/world.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "core/error.h"
#include "core/local_ranks.h"
#include "members.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;
using testing::no_errors;
using testing::on_threads;

WorldOptions options_of(std::int64_t rank, std::int64_t world_size, const core::Listener& listener) {
  WorldOptions options;
  options.launch = {.launcher = "test",
                    .rank = rank,
                    .world_size = world_size,
                    .local_rank = rank,
                    .local_world_size = world_size,
                    .address = "127.0.0.1",
                    .port = listener.port(),
                    .listen_descriptor = rank == 0 ? ::dup(listener.descriptor()) : -1};
  options.timeout = 30s;
  return options;
}

/// Ranks as threads, each with a World of its own. Work begins when all have joined: a rank that ended at once would
/// close its connections on one that still connects.
template <class Work>
std::vector<std::string> in_a_world(std::int64_t world_size, Work work) {
  const core::Listener listener;
  std::latch joined(world_size);
  return on_threads(world_size, [&](std::int64_t rank) {
    std::unique_ptr<World> world;
    try {
      world = join(options_of(rank, world_size, listener));
    } catch (...) {
      joined.count_down();
      throw;
    }
    joined.arrive_and_wait();
    work(*world, rank);
  });
}

TEST_CASE("ranks that joined sum with Gloo: the same bits on all ranks and on every run", "[comm]") {
  for (const std::int64_t n : {1, 2, 3, 4}) {
    std::vector<at::Tensor> sums;
    for (int run = 0; run < 2; ++run) {
      std::vector<at::Tensor> of_run(static_cast<std::size_t>(n));
      REQUIRE(in_a_world(n, [&](World& world, std::int64_t rank) {
                at::Tensor& mine = of_run[static_cast<std::size_t>(rank)];
                mine = at::full({100'003}, static_cast<double>(rank) + 0.1);
                for (std::int64_t i = 0; i < 100; ++i) mine[i] = std::sin(static_cast<double>(i * (rank + 3)));
                world.group().all_reduce(mine, Reduce::sum)->wait();
                const at::Tensor all = at::empty({n, 2}, at::kLong);
                world.group().all_gather(all, at::full({2}, rank, at::kLong))->wait();
                if (all[n - 1][1].item<std::int64_t>() != n - 1) throw std::logic_error("gather");
                const at::Tensor part = at::empty({3});
                world.group().reduce_scatter(part, at::ones({3 * n}))->wait();
                if (part[2].item<float>() != static_cast<float>(n)) throw std::logic_error("scatter");
                const at::Tensor flag = at::full({}, rank == 0, at::kBool);
                world.group().broadcast(flag, 0)->wait();
                if (!flag.item<bool>()) throw std::logic_error("broadcast");
                world.group().barrier();
              }) == no_errors(n));
      sums.insert(sums.end(), of_run.begin(), of_run.end());
    }
    for (const at::Tensor& sum : sums) REQUIRE(at::equal(sum, sums.front()));
  }
}

TEST_CASE("a group's parts work side by side, each in its own order", "[comm]") {
  REQUIRE(in_a_world(4, [&](World& world, std::int64_t rank) {
            Group& all = world.group();
            if (all.nodes() != std::vector<std::int64_t>{0, 0, 0, 0}) throw std::logic_error("nodes");
            const std::unique_ptr<Group> pair =
                all.split("pair", rank < 2 ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{2, 3});
            const std::unique_ptr<Group> across = all.split("across", {rank % 2, rank % 2 + 2});
            const std::unique_ptr<Group> single = all.split("single", {rank});
            if (pair->size() != 2 || pair->rank() != (rank < 2 ? 1 - rank : rank - 2)) throw std::logic_error("place");
            if (single->size() != 1) throw std::logic_error("single");
            const at::Tensor mine = at::full({1}, static_cast<double>(rank));
            pair->all_reduce(mine, Reduce::sum)->wait();
            if (mine.item<float>() != (rank < 2 ? 1 : 5)) throw std::logic_error("sum of the pair");
            across->all_reduce(mine, Reduce::sum)->wait();
            const std::unique_ptr<Group> again = pair->split("again", {1, 0});
            const at::Tensor received = at::empty({2, 3});
            const std::unique_ptr<Work> receiving = again->irecv(received, 1 - again->rank());
            again->isend(at::full({2, 3}, static_cast<double>(rank)), 1 - again->rank())->wait();
            receiving->wait();
            if (received[1][2].item<float>() != static_cast<float>(rank ^ 1)) throw std::logic_error("transfer");
            const at::Tensor parts = at::empty({4}, at::kLong);
            all.all_to_all(parts, at::full({4}, rank, at::kLong))->wait();
            if (parts[2].item<std::int64_t>() != 2) throw std::logic_error("all_to_all");
            if (mine.item<float>() != 6) throw std::logic_error("sum of the pairs");
          }) == no_errors(4));
}

TEST_CASE("rank 0's word reaches every rank", "[comm]") {
  REQUIRE(in_a_world(3, [&](World& world, std::int64_t rank) {
            if (world.broadcast_text(rank == 0 ? "runs/a" : "mine") != "runs/a") throw std::logic_error("first");
            if (world.broadcast_text(rank == 0 ? "" : "mine") != "") throw std::logic_error("second");
          }) == no_errors(3));
}

TEST_CASE("ranks that hold different things are named, with the key", "[comm]") {
  const auto errors = in_a_world(3, [&](World& world, std::int64_t rank) {
    world.check_consistent({{"config", "c0"}, {"version", "1"}});
    world.check_consistent({{"config", "c0"}, {"data", rank == 1 ? "d1" : "d0"}});
  });
  for (const std::string& error : errors) {
    REQUIRE_THAT(error, Catch::StartsWith("rank 1 on "));
    REQUIRE_THAT(error, Catch::Contains("has another data (d1) than rank 0 on "));
    REQUIRE_THAT(error, !Catch::Contains("config"));
  }
}

TEST_CASE("a rank that holds more than rank 0 is named, too", "[comm]") {
  const auto errors = in_a_world(2, [&](World& world, std::int64_t rank) {
    std::map<std::string, std::string> values{{"transforms.0", "crop"}};
    if (rank == 1) values["transforms.1"] = "flip";
    world.check_consistent(values);
  });
  for (const std::string& error : errors)
    REQUIRE_THAT(error,
                 Catch::Contains("has another transforms.1 (flip) than rank 0 on ") && Catch::Contains("(none)"));
}

TEST_CASE("a rank's own failure is every rank's last word", "[comm]") {
  std::vector<std::string> words(3);
  REQUIRE(in_a_world(3, [&](World& world, std::int64_t rank) {
            world.set_step(7);
            try {
              if (rank == 2) throw core::Error("cannot write a.bin: No space left on device");
              const at::Tensor tensor = at::ones({8});
              world.group().all_reduce(tensor, Reduce::sum)->wait();
            } catch (const std::exception& error) {
              world.report(error.what());
              const Failure failure = world.root_cause(error.what());
              if (failure.rank != 2) throw std::logic_error("blames rank " + std::to_string(failure.rank));
              words[static_cast<std::size_t>(rank)] = failure.message;
            }
          }) == no_errors(3));
  for (const std::string& word : words) REQUIRE(word == "cannot write a.bin: No space left on device");
}

TEST_CASE("a rank that is late to tell what it does is waited for", "[comm][regression]") {
  REQUIRE(in_a_world(2, [&](World& world, std::int64_t rank) {
            // A watch's thread that got no turn on a busy machine, or wrote many stacks first.
            if (rank == 1) std::this_thread::sleep_for(2500ms);
            world.tell_doing(rank == 0 ? "in backward for 2 s" : "in data for 5 s", 0);
            const std::string text = world.diagnose_stall(0);
            if (text.find("in data for 5 s") == std::string::npos) throw std::logic_error(text);
          }) == no_errors(2));
}

TEST_CASE("a rank that goes on while it compares finds no hang", "[comm][regression]") {
  REQUIRE(in_a_world(2, [&](World& world, std::int64_t rank) {
            world.tell_doing("in backward for 2 s", 4);
            if (rank == 1) world.set_step(5);
            const std::string text = world.diagnose_stall(4);
            if (rank == 1 && !text.empty()) throw std::logic_error(text);
          }) == no_errors(2));
}

TEST_CASE("a rank that waits for rank 0's word learns of its failure instead", "[comm]") {
  const auto errors = in_a_world(2, [&](World& world, std::int64_t rank) {
    if (rank == 1) {
      world.broadcast_text("");
      return;
    }
    world.report("the run directory is held");
    world.root_cause("the run directory is held");
    throw core::Error("own");
  });
  REQUIRE(errors[0] == "own");
  REQUIRE_THAT(errors[1], Catch::Contains("rank 0 on ") && Catch::EndsWith("the run directory is held"));
}

TEST_CASE("ranks that never came are named when the time is over", "[comm]") {
  const core::Listener listener;
  const auto errors = on_threads(2, [&](std::int64_t rank) {
    WorldOptions options = options_of(rank, 4, listener);
    options.timeout = 5s;
    join(options);
  });
  for (const std::string& error : errors)
    REQUIRE_THAT(error, Catch::StartsWith("ranks 2 and 3 never came within 5.0 s; the job has 4 ranks"));
}

TEST_CASE("a job of very many ranks waits no longer for them than for a few", "[comm][regression]") {
  const core::Listener listener;
  const auto errors = on_threads(2, [&](std::int64_t rank) {
    WorldOptions options = options_of(rank, 100'000, listener);
    options.timeout = 5s;
    join(options);
  });
  // A wait for each rank that is absent would go on for hours, until the time limit of the test ends it.
  for (const std::string& error : errors) REQUIRE_THAT(error, Catch::Contains(" more never came within 5.0 s"));
}

TEST_CASE("where nothing listens, that is what a rank says", "[comm][regression]") {
  WorldOptions options;
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&address), length) == 0);  // no other process gets the port
  REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  {
    const core::Listener listener;
    options = options_of(1, 2, listener);
  }
  options.launch.port = ntohs(address.sin_port);
  options.timeout = 2s;
  REQUIRE_THAT(on_threads(1, [&](std::int64_t) { join(options); })[0],
               Catch::Contains("cannot reach the store that rank 0 keeps") && Catch::Contains("nothing listens there"));
  ::close(socket);
}

TEST_CASE("what no machine can do is refused before the ranks meet", "[comm]") {
  const core::Listener listener;
  WorldOptions options = options_of(0, 1, listener);
  options.backend = Backend::nccl;
  REQUIRE_THROWS_WITH(join(options), Catch::Contains("NCCL moves tensors between GPUs"));
  options = options_of(0, 2, listener);
  options.launch.listen_descriptor = -1;
  options.launch.address = "no-such-host.invalid";
  REQUIRE_THROWS_WITH(join(options), Catch::Contains("cannot find the address of 'no-such-host.invalid'"));
}

TEST_CASE("an interface that isn't there is refused", "[comm]") {
  const core::Listener listener;
  WorldOptions options = options_of(0, 1, listener);
  options.interface = "nowhere0";
  REQUIRE_THROWS_WITH(join(options), Catch::Contains("cannot connect to the others by interface nowhere0"));
}

}  // namespace
}  // namespace trainctl::comm
