#include "compare/runs.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "support/temporary_directory.h"

namespace trainctl::compare {
namespace {

constexpr const char* kSummary =
    R"({"outcome":"finished","steps":20,"final_metrics":{"loss":0.5,"accuracy":0.9},"best_metrics":{"loss":0.4},)"
    R"("best_step":10,"wall_s":9.5,"median_step_ms":12.5,"samples_per_s":100,"data_wait_share":0.25,"peak_memory_mib":64,)"
    R"("num_parameters":123,"provenance":{"device":"a cpu"}})";
constexpr const char* kMetrics =
    R"({"event":"step","step":10,"loss":2,"step_ms":100,"samples_per_s":50,"memory_mib":60,"data_wait_ms":10}
{"event":"eval","step":10,"loss":1.5,"seconds":1}
{"event":"step","step":20,"loss":1,"step_ms":200,"samples_per_s":70,"memory_mib":62,"data_wait_ms":20}
)";

class RunDirectory {
 public:
  std::filesystem::path write(const std::string& name, const std::string& metrics, const std::string& summary,
                              const std::string& config) const {
    const std::filesystem::path path = scratch_.path() / name;
    std::filesystem::create_directories(path);
    if (!metrics.empty()) core::write_file_atomically(path / "metrics.jsonl", metrics);
    if (!summary.empty()) core::write_file_atomically(path / "summary.json", summary);
    if (!config.empty()) core::write_file_atomically(path / "config.yaml", config);
    return path;
  }
  std::filesystem::path root() const { return scratch_.path(); }

 private:
  testing::TemporaryDirectory scratch_;
};

TEST_CASE("a finished run's figures are those of its summary", "[compare]") {
  const RunDirectory runs;
  const RunRecord run = read_run(runs.write("a", kMetrics, kSummary, "seed: 1\n"));
  CHECK(run.state == "finished");
  CHECK(run.steps == 20);
  CHECK(run.median_step_ms == 12.5);
  CHECK(run.final_metrics == NamedValues{{"loss", 0.5}, {"accuracy", 0.9}});
  CHECK(run.best_step == 10);
  CHECK(run.device == "a cpu");
  CHECK(run.config.at("seed") == "1");
  CHECK(run.wall_s == 9.5);
  CHECK(run.remarks.empty());
}

TEST_CASE("an unfinished run's figures are those of its records, which is said", "[compare]") {
  const RunDirectory runs;
  const RunRecord run = read_run(runs.write("a", kMetrics, "", "seed: 1\n"));
  CHECK(run.state == "unfinished");
  CHECK(run.steps == 20);
  CHECK(*run.median_step_ms == Approx(150));
  CHECK(*run.samples_per_s == Approx(60));
  CHECK(*run.data_wait_share == Approx(0.1));
  CHECK(*run.peak_memory_mib == 62);
  CHECK(*run.wall_s == Approx(4));
  CHECK(run.final_metrics == NamedValues{{"loss", 1.5}});
  CHECK_THAT(run.remarks.at(0), Catch::Contains("no summary.json"));
}

TEST_CASE("a summary of an earlier start doesn't speak for a resumed run", "[compare]") {
  const RunDirectory runs;
  const RunRecord running =
      read_run(runs.write("a", kMetrics, R"({"outcome":"stopped","steps":12,"wall_s":3})", "seed: 1\n"));
  CHECK(running.state == "unfinished");
  CHECK(running.steps == 20);
  CHECK_THAT(running.remarks.at(0), Catch::Contains("resumed") && Catch::Contains("step 12"));
  const RunRecord ended =
      read_run(runs.write("b", kMetrics, R"({"outcome":"finished","steps":20,"wall_s":2})", "seed: 1\n"));
  CHECK(ended.state == "finished");
  CHECK(*ended.wall_s == Approx(4));
  CHECK_THAT(ended.remarks.at(0), Catch::Contains("resumed: its last start took 2"));
}

TEST_CASE("damaged files of a run are said, and the others used", "[compare]") {
  const RunDirectory runs;
  const RunRecord run = read_run(runs.write("a", kMetrics, "{\"outcome\":", "a: [1\nb: {\n"));
  CHECK(run.state == "unfinished");
  CHECK(run.config.empty());
  REQUIRE(run.remarks.size() == 2);
  CHECK_THAT(run.remarks[0], Catch::Contains("summary.json can't be read"));
  CHECK_THAT(run.remarks[1], Catch::Contains("config.yaml can't be read"));
  const RunRecord odd = read_run(runs.write("b", "", R"({"outcome":7,"steps":"many","final_metrics":[1]})", ""));
  CHECK(odd.state == "unfinished");
  CHECK(odd.remarks.size() == 2);
}

TEST_CASE("a directory that is no run is refused, with the runs that it holds", "[compare]") {
  const RunDirectory runs;
  runs.write("a", kMetrics, kSummary, "seed: 1\n");
  try {
    read_run(runs.root());
    FAIL("it is no run");
  } catch (const core::Error& error) {
    CHECK_THAT(error.text(), Catch::Contains("is no run directory") && Catch::Contains((runs.root() / "a").string()));
  }
}

TEST_CASE("only keys that differ are shown, and a missing key differs from any value", "[compare]") {
  const RunDirectory runs;
  const RunComparison comparison =
      compare_runs({runs.write("a", kMetrics, kSummary, "seed: 1\noptimizer: {lr: 0.1, kind: adamw}\n"),
                    runs.write("b", kMetrics, kSummary, "seed: 1\noptimizer: {lr: 0.2, kind: adamw, ema: 0.9}\n"),
                    runs.write("c", kMetrics, kSummary, "")});
  REQUIRE(comparison.differences.size() == 2);
  CHECK(comparison.differences[0].key == "optimizer.ema");
  CHECK(comparison.differences[0].values == std::vector<std::optional<std::string>>{{}, "0.9", {}});
  CHECK(comparison.differences[1].key == "optimizer.lr");
}

TEST_CASE("runs are named by as much of their paths as tells them apart", "[compare]") {
  const RunDirectory runs;
  const auto first = runs.write("x/1", kMetrics, kSummary, ""), second = runs.write("y/1", kMetrics, kSummary, "");
  CHECK(compare_runs({first, runs.write("x/2", kMetrics, kSummary, "")}).runs[0].name == "1");
  CHECK(compare_runs({first, second}).runs[1].name == "y/1");
  CHECK_THROWS_WITH(compare_runs({first, second, first / "." / ""}), Catch::Contains("given twice"));
}

TEST_CASE("the table, the document and the page have every run, also with other metrics", "[compare]") {
  const RunDirectory runs;
  const RunComparison comparison = compare_runs(
      {runs.write("a", kMetrics, kSummary, "seed: 1\n"),
       runs.write("b<c", kMetrics,
                  R"({"outcome":"finished","steps":20,"final_metrics":{"perplexity":12.5},"wall_s":9})", "seed: 2\n")});
  const std::string table = format_table(comparison);
  CHECK_THAT(table, Catch::Contains("final perplexity") && Catch::Contains("12.5000") && Catch::Contains("–") &&
                        Catch::Contains("seed"));
  const nlohmann::json document = nlohmann::json::parse(format_json(comparison));
  CHECK(document["runs"][0]["final_metrics"]["accuracy"] == 0.9);
  CHECK(document["runs"][1]["median_step_ms"] == 150);  // of its records, as the summary has none
  CHECK(document["runs"][1]["data_wait_share"].is_null());
  CHECK(document["config_differences"] == nlohmann::json::parse(R"([{"key":"seed","values":["1","2"]}])"));
  const std::string page = format_html(comparison);
  CHECK_THAT(page, Catch::Contains("2 runs compared") && Catch::Contains(R"("b\u003cc")"));
}

TEST_CASE("a page of many long runs stays small", "[compare]") {
  const RunDirectory runs;
  std::string metrics;
  for (int step = 1; step <= 10'000; ++step)
    metrics +=
        R"({"event":"step","step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(1.0 / step) +
        R"(,"lr":0.001,"grad_norm":1.2345678,"samples_per_s":123.456789,"memory_mib":5.4321,"data_wait_ms":0.123,)"
        R"("step_ms":17.972724,"skipped_steps":0})" +
        "\n";
  std::vector<std::filesystem::path> paths;
  for (int run = 0; run < 8; ++run) paths.push_back(runs.write(std::to_string(run), metrics, kSummary, "seed: 1\n"));
  CHECK(format_html(compare_runs(paths)).size() < 5'000'000);
}

}  // namespace
}  // namespace trainctl::compare
