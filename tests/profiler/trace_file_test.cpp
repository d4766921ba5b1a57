#include "profiler/record/trace_file.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/temporary_directory.h"

namespace trainctl::profiler {
namespace {

/// As Kineto writes it, with names that could be taken for brackets.
std::filesystem::path write_trace(const testing::TemporaryDirectory& directory, int num_operators) {
  const std::filesystem::path path = directory / "trace.json";
  std::ofstream file(path);
  file << "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\"id\": 0}\n  ],\n  \"traceEvents\": [\n";
  file << "  {\n    \"ph\": \"M\", \"name\": \"thread_name\", \"args\": {\"name\": \"a } \\\" ] {\"}\n  },\n";
  file << "  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"forward\", \"ts\": 1.0, \"dur\": 0.5\n  }";
  for (int i = 0; i < num_operators; ++i) {
    file << ",\n  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op\", \"ts\": " << i
         << ".000, \"dur\": " << (i % 10 == 0 ? 5000 : 3)
         << ".000,\n    \"args\": {\n      \"Input Dims\": [[1, 2]]\n    }\n  }";
    file << ",\n  {\n    \"ph\": \"s\", \"id\": " << i << ", \"cat\": \"fwdbwd\", \"ts\": " << i << "\n  }";
  }
  file << "\n  ],\n  \"traceName\": \"x\",\n  \"displayTimeUnit\": \"ms\"\n}\n";
  return path;
}

nlohmann::json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST_CASE("a trace below its limit stays as it is", "[profiler]") {
  const testing::TemporaryDirectory directory;
  const auto path = write_trace(directory, 50);
  const nlohmann::json before = read(path);
  const TraceFile trace = bound_trace(path, 1 << 20);
  CHECK(trace.events == 102);
  CHECK(trace.dropped_events == 0);
  CHECK(trace.dropped.empty());
  CHECK(read(path) == before);
}

TEST_CASE("a trace above its limit loses arrows, then its shortest operators, and says so", "[profiler]") {
  const testing::TemporaryDirectory directory;
  const auto path = write_trace(directory, 2000);
  const auto whole = static_cast<std::int64_t>(std::filesystem::file_size(path));
  const TraceFile trace = bound_trace(path, whole / 4);
  const nlohmann::json after = read(path);
  CHECK(after.at("traceName") == "x");
  CHECK(after.at("deviceProperties").size() == 1);
  std::map<std::string, int> counts;
  for (const auto& event : after.at("traceEvents"))
    ++counts[event.value("cat", "") + event.at("ph").get<std::string>()];
  CHECK(counts["M"] == 1);
  CHECK(counts["user_annotationX"] == 1);
  CHECK(counts["cpu_opX"] == 200);
  CHECK(counts["fwdbwds"] == 0);
  CHECK(trace.bytes <= whole / 4);
  CHECK(trace.events == 202);
  CHECK(trace.dropped_events == 2000 + 1800);
  CHECK_THAT(trace.dropped, Catch::Contains("3,800 events") && Catch::Contains("operators and kernels under"));
}

}  // namespace
}  // namespace trainctl::profiler
