#include "compare/evaluation_file.h"

#include <catch2/catch.hpp>

#include "support/temporary_directory.h"

namespace trainctl::compare {
namespace {

TEST_CASE("figures by class follow from the confusion matrix", "[compare]") {
  const testing::TemporaryDirectory run;
  run.write("evaluation.json", R"({"step":7,"metrics":{"accuracy":0.7,"loss":null},"seconds":2,"details":{)"
                               R"("num_samples":10,"class_names":["a","b","c"],)"
                               R"("confusion":[[4,1,0],[2,3,0],[0,0,0]]}})");
  const auto evaluation = read_evaluation(run.path());
  REQUIRE(evaluation);
  CHECK(evaluation->step == 7);
  CHECK(evaluation->num_samples == 10);
  REQUIRE(evaluation->classes.size() == 3);
  const ClassFigures& a = evaluation->classes[0];
  CHECK(a.name == "a");
  CHECK(a.count == 5);
  CHECK(*a.precision == Approx(4.0 / 6));
  CHECK(*a.recall == Approx(0.8));
  CHECK(*a.f1 == Approx(2 * (4.0 / 6) * 0.8 / (4.0 / 6 + 0.8)));
  CHECK_FALSE(evaluation->classes[2].recall);
  CHECK_FALSE(evaluation->classes[2].f1);
  const auto pairs = most_confused(*evaluation, 10);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].label == "b");
  CHECK(pairs[0].prediction == "a");
  CHECK(pairs[0].share == Approx(0.4));
  CHECK(most_confused(*evaluation, 1).size() == 1);
}

TEST_CASE("without a matrix, precision follows from recall and F1", "[compare]") {
  const testing::TemporaryDirectory run;
  run.write("evaluation.json",
            R"({"step":1,"details":{"per_class_accuracy":[0.8,null],"per_class_f1":[0.7272727272727273,null]}})");
  const auto evaluation = read_evaluation(run.path());
  REQUIRE(evaluation);
  REQUIRE(evaluation->classes.size() == 2);
  CHECK(*evaluation->classes[0].precision == Approx(4.0 / 6));
  CHECK(evaluation->classes[0].name == "0");
  CHECK_FALSE(evaluation->classes[1].recall);
  CHECK(evaluation->confusion.empty());
}

TEST_CASE("an evaluation that is damaged has what can be read", "[compare]") {
  const testing::TemporaryDirectory run;
  CHECK_FALSE(read_evaluation(run.path()));
  for (const char* text : {"", "[1]", "{\"step\":"}) {
    run.write("evaluation.json", text);
    CHECK_FALSE(read_evaluation(run.path()));
  }
  for (const char* matrix : {"[[1,2]]", "[[1,2],[3]]", "[[1,\"x\"],[3,4]]", "7", "[1,2]"}) {
    run.write("evaluation.json", std::string(R"({"step":"no","metrics":[],"details":{"confusion":)") + matrix + "}}");
    const auto evaluation = read_evaluation(run.path());
    INFO(matrix);
    REQUIRE(evaluation);
    CHECK(evaluation->confusion.empty());
    CHECK(evaluation->step == 0);
  }
}

}  // namespace
}  // namespace trainctl::compare
