#include "tracking/progress_line.h"

#include <catch2/catch.hpp>
#include <string>

#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;

namespace {

ProgressState halfway() {
  return {.now = {.step = 50, .phase = "train", .done = 50, .total = 100},
          .run = testing::started(100),
          .last = testing::step_at(50),
          .eta_s = 75};
}

ProgressState bare(std::int64_t done, std::int64_t total) {
  ProgressState state;
  state.now = {.step = done, .phase = "train", .done = done, .total = total};
  return state;
}

const ProgressLook kPlain{.glyphs = Glyphs::ascii, .colors = Colors::off, .columns = 120};

/// Columns taken: without escapes, and with each UTF-8 character as one.
std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  bool in_escape = false;
  for (const char c : line) {
    if (c == '\x1b') in_escape = true;
    if (!in_escape && (static_cast<unsigned char>(c) & 0xc0) != 0x80) ++columns;
    if (c == 'm') in_escape = false;
  }
  return columns;
}

}  // namespace

TEST_CASE("the bar says where the run stands", "[tracking]") {
  CHECK(progress_line(halfway(), kPlain) ==
        "train ###############---------------  50/100  loss 0.4313  lr 0.0012  21034 samples/s  ETA 1:15  "
        "data wait 0.3%  812 MiB");
}

TEST_CASE("the bar says how well the device is used, where that is known", "[tracking]") {
  ProgressState state = halfway();
  state.last->mfu = 0.37;
  CHECK(progress_line(state, {.glyphs = Glyphs::ascii, .colors = Colors::off, .columns = 140}).find("mfu") ==
        std::string::npos);
  state.run.is_on_gpu = true;
  CHECK(progress_line(state, {.glyphs = Glyphs::ascii, .colors = Colors::off, .columns = 140}).find("mfu 37%") !=
        std::string::npos);
}

TEST_CASE("the bar says the epoch, the newest loss and the best evaluation", "[tracking]") {
  ProgressState state = halfway();
  state.run.steps_per_epoch = 49;
  state.loss = 0.2;
  state.best = BestValue{.metric = "accuracy", .value = 0.9162, .step = 49};
  CHECK(progress_line(state, kPlain) ==
        "train ######-------  50/100  epoch 2/3  loss 0.2000  best accuracy 91.62%  lr 0.0012  21034 samples/s  ETA "
        "1:15  "
        "812 MiB");
  state.run.steps_per_epoch = 100;
  CHECK(progress_line(state, kPlain).find("epoch") == std::string::npos);
}

TEST_CASE("the bar says that it evaluates, and at which step", "[tracking]") {
  ProgressState state = halfway();
  state.now = {.step = 50, .phase = "eval", .done = 0, .total = 79};
  const std::string line = progress_line(state, kPlain);
  CHECK(line.starts_with("eval ------"));
  CHECK(line.find("0/79  step 50/100  loss 0.4313") != std::string::npos);
}

TEST_CASE("the line is never wider than the terminal, and says the step as long as it can", "[tracking]") {
  for (const Glyphs glyphs : {Glyphs::ascii, Glyphs::unicode}) {
    for (const char* phase : {"train", "eval"}) {
      for (std::int64_t columns = 0; columns <= 200; ++columns) {
        ProgressState state = halfway();
        state.now.phase = phase;
        const std::string line = progress_line(state, {.glyphs = glyphs, .colors = Colors::off, .columns = columns});
        INFO(columns << ": " << line);
        CHECK(columns_of(line) <= static_cast<std::size_t>(columns));
        if (columns >= 6) CHECK(line.find("50/100") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a narrow terminal loses the least important first", "[tracking]") {
  const auto at = [](std::int64_t columns) {
    return progress_line(halfway(), {.glyphs = Glyphs::ascii, .colors = Colors::off, .columns = columns});
  };
  CHECK(at(79).find("MiB") == std::string::npos);
  CHECK(at(79).find("samples/s") != std::string::npos);
  CHECK(at(50).find("samples/s") == std::string::npos);
  CHECK(at(50).find("loss") != std::string::npos);
}

TEST_CASE("colours change nothing but colours", "[tracking]") {
  ProgressLook look = kPlain;
  look.colors = Colors::on;
  const std::string line = progress_line(halfway(), look);
  CHECK(line.find('\x1b') != std::string::npos);
  CHECK(columns_of(line) == progress_line(halfway(), kPlain).size());
}

TEST_CASE("a bar without totals or records still has a line", "[tracking]") {
  const std::string line = progress_line(bare(7, 0), kPlain);
  CHECK(line.ends_with("  7"));
  CHECK(line.find('#') == std::string::npos);
  CHECK(progress_line(bare(9, 3), kPlain).find('-') == std::string::npos);
}
