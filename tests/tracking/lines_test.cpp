#include "tracking/lines.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;

TEST_CASE("a step reads as one line", "[tracking]") {
  StepLogged step = testing::step_at(120);
  CHECK(line_of(step, testing::started(1876)) ==
        "step 120/1876  loss 0.4313  lr 0.0012  21,034 samples/s  data wait 0.3%  812 MiB");
  step.loss_scale = 65536;
  step.num_skipped = 2;
  step.step_ms = 0;
  CHECK(line_of(step, {}) ==
        "step 120  loss 0.4313  lr 0.0012  21,034 samples/s  812 MiB  loss scale 65536  2 skipped");
}

TEST_CASE("a size that isn't finite is said as it is", "[tracking]") {
  CHECK(format_mib(HUGE_VAL) == "inf MiB");
}

TEST_CASE("accuracies are percentages", "[tracking]") {
  CHECK(format_metrics({{"loss", 0.2931}, {"accuracy", 0.9162}, {"top5_accuracy", 1}}) ==
        "loss 0.2931  accuracy 91.62%  top5_accuracy 100.00%");
  CHECK(line_of(testing::evaluation_at(469), {}) == "evaluation at step 469  loss 0.2900  accuracy 91.62%  (1.4 s)");
}

TEST_CASE("start, checkpoints, notices and the end each have a line", "[tracking]") {
  RunStarted run = testing::started(1876);
  run.run_directory = "runs/demo/1";
  CHECK(line_of(run, {}) == "demo: 421,642 parameters on cpu\n  1,876 steps\n  writing runs/demo/1");
  run.model = "cnn";
  run.precision = "bf16";
  run.num_samples = 60'000;
  run.num_classes = 10;
  run.num_eval_samples = 10'000;
  run.batch_size = 128;
  run.steps_per_epoch = 469;
  CHECK(line_of(run, {}) ==
        "demo: cnn, 421,642 parameters, bf16 on cpu\n"
        "  60,000 samples of 10 classes, 10,000 for evaluation\n"
        "  1,876 steps of 128 samples, 4 epochs\n"
        "  writing runs/demo/1");
  CHECK(line_of(testing::started(1, 1), {}) == "demo: 421,642 parameters on cpu\n  1 step\n  resumed after step 1");
  CHECK(line_of(CheckpointSaved{.step = 469, .path = "checkpoints/step_00000469", .seconds = 0.05}, {}) ==
        "checkpoint of step 469 in checkpoints/step_00000469  (50.0 ms)");
  CHECK(line_of(Notice{Level::warning, "bf16 is emulated"}, {}) == "warning: bf16 is emulated");
  CHECK(line_of(Notice{Level::info, "resumed"}, {}) == "resumed");
  CHECK(line_of(Progress{}, {}).empty());
}

TEST_CASE("the end says how it went", "[tracking]") {
  RunFinished run = testing::ended(Outcome::finished, 1876);
  run.final_metrics = {{"accuracy", 0.915}};
  run.best_metrics = {{"accuracy", 0.918}};
  run.best_step = 1407;
  run.best = BestValue{.metric = "accuracy", .value = 0.918, .step = 1407};
  RunStarted start = testing::started(1876);
  start.run_directory = "runs/demo/1";
  start.report = "runs/demo/1/report.html";
  start.next_command = "trainctl predict runs/demo/1 DATA";
  start.resume_command = "trainctl train runs/demo/1";
  CHECK(line_of(run, start) ==
        "finished 1,876 steps in 3.0 s  accuracy 91.50%  100 samples/s  peak 5 MiB\n"
        "  run: runs/demo/1\n"
        "  report: runs/demo/1/report.html\n"
        "  best accuracy 91.80% at step 1,407\n"
        "  next: trainctl predict runs/demo/1 DATA");
  run.outcome = Outcome::stopped;
  run.best.reset();
  CHECK(line_of(run, start) ==
        "stopped after 1,876 steps in 3.0 s  accuracy 91.50%  100 samples/s  peak 5 MiB\n"
        "  run: runs/demo/1\n"
        "  report: runs/demo/1/report.html\n"
        "  to go on: trainctl train runs/demo/1");
  run.outcome = Outcome::failed;
  CHECK(line_of(run, start) == "failed after 1,876 steps");
}

TEST_CASE("an evaluation names the best one before it", "[tracking]") {
  Evaluated evaluated = testing::evaluation_at(938);
  evaluated.best = BestValue{.metric = "accuracy", .value = 0.9203, .step = 469};
  CHECK(line_of(evaluated, {}) ==
        "evaluation at step 938  loss 0.2900  accuracy 91.62%  best accuracy 92.03% at step 469  (1.4 s)");
  evaluated.best->step = 938;
  CHECK(line_of(evaluated, {}) == "evaluation at step 938  loss 0.2900  accuracy 91.62%  (1.4 s)");
}

TEST_CASE("a step tells the MFU of a GPU alone", "[tracking]") {
  StepLogged step = testing::step_at(120);
  step.mfu = 0.41;
  RunStarted run = testing::started(1876);
  CHECK(line_of(step, run).find("mfu") == std::string::npos);
  run.is_on_gpu = true;
  CHECK(line_of(step, run).find("mfu 41%") != std::string::npos);
}
