#include "tracking/lines.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;

TEST_CASE("a step reads as one line", "[tracking]") {
  StepLogged step = testing::step_at(120);
  CHECK(line_of(step, 1876) == "step 120/1876  loss 0.4313  lr 0.0012  21,034 samples/s  data wait 0.3%  812 MiB");
  step.loss_scale = 65536;
  step.num_skipped = 2;
  step.step_ms = 0;
  CHECK(line_of(step, 0) == "step 120  loss 0.4313  lr 0.0012  21,034 samples/s  812 MiB  loss scale 65536  2 skipped");
}

TEST_CASE("a size that isn't finite is said as it is", "[tracking]") {
  CHECK(format_mib(HUGE_VAL) == "inf MiB");
}

TEST_CASE("accuracies are percentages", "[tracking]") {
  CHECK(format_metrics({{"loss", 0.2931}, {"accuracy", 0.9162}, {"top5_accuracy", 1}}) ==
        "loss 0.2931  accuracy 91.62%  top5_accuracy 100.00%");
  CHECK(line_of(testing::evaluation_at(469), 1876) == "evaluation at step 469  loss 0.2900  accuracy 91.62%  (1.4 s)");
}

TEST_CASE("start, checkpoints, notices and the end each have a line", "[tracking]") {
  RunStarted run = testing::started(1876);
  run.run_directory = "runs/demo/1";
  CHECK(line_of(run, 0) == "demo: 1,876 steps, 421,642 parameters on cpu; writing runs/demo/1");
  run.num_samples = 60'000;
  run.num_classes = 10;
  CHECK(line_of(run, 0) ==
        "demo: 1,876 steps, 60,000 samples of 10 classes, 421,642 parameters on cpu; writing runs/demo/1");
  CHECK(line_of(testing::started(1, 1), 0) == "demo: 1 step, 421,642 parameters on cpu, resumed after step 1");
  CHECK(line_of(CheckpointSaved{.step = 469, .path = "checkpoints/step_00000469", .seconds = 0.05}, 0) ==
        "checkpoint of step 469 in checkpoints/step_00000469  (50.0 ms)");
  CHECK(line_of(Notice{Level::warning, "bf16 is emulated"}, 0) == "warning: bf16 is emulated");
  CHECK(line_of(Notice{Level::info, "resumed"}, 0) == "resumed");
  CHECK(line_of(Progress{}, 0).empty());
}

TEST_CASE("the end says how it went", "[tracking]") {
  RunFinished run = testing::ended(Outcome::finished, 1876);
  run.final_metrics = {{"accuracy", 0.915}};
  run.best_metrics = {{"accuracy", 0.918}};
  run.best_step = 1407;
  CHECK(
      line_of(run, 1876) ==
      "finished 1,876 steps in 3.0 s  accuracy 91.50%  best at step 1407: accuracy 91.80%  100 samples/s  peak 5 MiB");
  run.outcome = Outcome::stopped;
  run.best_step = 1876;
  CHECK(line_of(run, 1876) == "stopped after 1,876 steps in 3.0 s  accuracy 91.50%  100 samples/s  peak 5 MiB");
  run.outcome = Outcome::failed;
  CHECK(line_of(run, 1876) == "failed after 1,876 steps");
}
