#include "run_report/run_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "support/temporary_directory.h"

namespace trainctl::run_report {
namespace {

namespace fs = std::filesystem;

nlohmann::json data_of(const std::string& html) {
  const std::string begin = R"(<script id="data" type="application/json">)";
  const std::size_t from = html.find(begin);
  REQUIRE(from != std::string::npos);
  return nlohmann::json::parse(html.substr(from + begin.size(), html.find("</script>", from) - from - begin.size()));
}

/// A run that finished, with everything that a run records.
fs::path write_run(const testing::TemporaryDirectory& root) {
  root.write("digits/1/config.yaml",
             "name: digits\noptimizer: {lr: 0.1, eps: 1e-8}\ncheckpoint: {best: {metric: f1}}\n");
  root.write("digits/1/.config_hash", "x");
  root.write("digits/1/metrics.jsonl",
             "{\"event\":\"step\",\"step\":10,\"loss\":2,\"step_ms\":100,\"lr\":0.1}\n"
             "{\"event\":\"eval\",\"step\":10,\"loss\":1.5,\"f1\":0.5,\"seconds\":1}\n"
             "{\"event\":\"step\",\"step\":20,\"loss\":1,\"step_ms\":200,\"lr\":0.1}\n");
  root.write(
      "digits/1/summary.json",
      R"({"outcome":"finished","steps":20,"final_metrics":{"loss":1.5,"f1":0.5},"best_metrics":{"loss":1.5,"f1":0.5},)"
      R"("best_step":10,"wall_s":4,"provenance":{"device":"a cpu","data_fingerprint":"abc"}})");
  root.write("digits/1/evaluation.json", R"({"step":10,"metrics":{"loss":1.5,"f1":0.5},"seconds":1,"details":)"
                                         R"({"num_samples":4,"confusion":[[1,1],[0,2]]}})");
  root.write("digits/1/predictions.json", R"({"step":10,"first":[{"sample":0,"loss":1}],"worst":[]})");
  root.write(
      "digits/1/provenance.json",
      R"({"name":"digits","steps_per_epoch":5,"command":["trainctl","train"],"origins":{"optimizer.lr":"e.yaml:2:17"}})");
  root.write("digits/1/notices.jsonl",
             "{\"level\":\"warning\",\"step\":3,\"text\":\"slow </script>\"}\nnot json\n"
             "{\"level\":\"info\",\"step\":3,\"text\":\"hello\"}\n"
             "{\"level\":\"warning\",\"step\":9,\"text\":\"slow </script>\"}\n");
  return root.path() / "digits/1";
}

TEST_CASE("a page has what the run recorded", "[run_report]") {
  const testing::TemporaryDirectory root;
  const std::string html = format_report(write_run(root));
  CHECK_THAT(html, Catch::Contains("<title>digits · 1</title>"));
  const nlohmann::json data = data_of(html);
  CHECK(data["state"] == "finished");
  CHECK(data["watched"] == "f1");
  CHECK(data["warnings"] == nlohmann::json{{{"step", 3}, {"text", "slow </script>"}}});
  CHECK(data["curves"].size() == 5);
  CHECK(data["evaluation"]["confusion"] == nlohmann::json{{1, 1}, {0, 2}});
  CHECK(data["evaluation"]["classes"][1]["precision"].get<double>() == Approx(2.0 / 3));
  CHECK(data["evaluation"]["confused"].size() == 1);
  CHECK(data["predictions"]["first"].size() == 1);
  CHECK(data["environment"]["data_fingerprint"] == "abc");
  CHECK(data["environment"]["steps_per_epoch"] == 5);
  CHECK_FALSE(data["environment"].contains("origins"));
  for (const nlohmann::json& key : data["config"])
    CHECK(key["origin"] == (key["key"] == "optimizer.lr" ? "e.yaml:2:17" : "default"));
}

TEST_CASE("a run that stopped, failed, or has damaged files has a page too", "[run_report]") {
  const testing::TemporaryDirectory root;
  const fs::path run = write_run(root);
  root.write("digits/1/summary.json", R"({"outcome":"failed","error":"out of <memory>","steps":20,"wall_s":4})");
  nlohmann::json data = data_of(format_report(run));
  CHECK(data["state"] == "failed");
  CHECK(data["error"] == "out of <memory>");
  CHECK(data["remarks"].empty());
  for (const char* name : {"summary.json", "evaluation.json", "predictions.json", "provenance.json", "notices.jsonl"})
    root.write(std::string("digits/1/") + name, "{\"torn");
  data = data_of(format_report(run));
  CHECK(data["state"] == "unfinished");
  CHECK(data["evaluation"].is_null());
  CHECK(data["predictions"].is_null());
  CHECK(data["config"][0]["origin"].is_null());
  for (const char* name : {"summary.json", "metrics.jsonl"}) fs::remove(run / name);
  data = data_of(format_report(run));
  CHECK(data["state"] == "no record");
  CHECK(data["curves"].empty());
}

TEST_CASE("a page of a run with many classes has pairs in place of the matrix", "[run_report]") {
  const testing::TemporaryDirectory root;
  const fs::path run = write_run(root);
  nlohmann::json matrix = nlohmann::json::array();
  for (int row = 0; row < 100; ++row) matrix.push_back(std::vector<int>(100, row == 7 ? 2 : 1));
  root.write("digits/1/evaluation.json", nlohmann::json{{"step", 1}, {"details", {{"confusion", matrix}}}}.dump());
  const nlohmann::json data = data_of(format_report(run));
  CHECK(data["evaluation"]["confusion"].empty());
  CHECK(data["evaluation"]["classes"].size() == 100);
  CHECK(data["evaluation"]["confused"].size() == 40);
  CHECK(data["evaluation"]["confused"][0]["label"] == "7");
}

TEST_CASE("a long run has a small page", "[run_report]") {
  const testing::TemporaryDirectory root;
  const fs::path run = write_run(root);
  std::string metrics;
  for (int step = 1; step <= 20'000; ++step)
    metrics +=
        "{\"event\":\"step\",\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(1.0 / step) + "}\n";
  root.write("digits/1/metrics.jsonl", metrics);
  const std::string html = format_report(run);
  CHECK(html.size() < 600'000);
  CHECK(data_of(html)["curves"][0]["value"].size() <= 1'000);
}

TEST_CASE("a page is written into the run, or where the user says", "[run_report]") {
  const testing::TemporaryDirectory root;
  const fs::path run = write_run(root);
  CHECK(write_report(run, "") == run / "report.html");
  CHECK(fs::exists(run / "report.html"));
  CHECK(write_report(run, root / "page.html") == root / "page.html");
  CHECK_THROWS_AS(write_report(root / "digits", ""), core::Error);
}

}  // namespace
}  // namespace trainctl::run_report
