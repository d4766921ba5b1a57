#include "dataset/first_rows.h"

#include <catch2/catch.hpp>

#include "support/temporary_directory.h"

namespace trainctl::dataset::first_rows_test {

using namespace trainctl;
using namespace trainctl::dataset;
using Catch::Contains;

namespace {

DatasetConfig dataset_of(SourceConfig source) {
  DatasetConfig config;
  config.source = std::move(source);
  return config;
}

std::vector<std::string> messages(const DatasetConfig& config) {
  std::vector<std::string> found;
  for (const InputProblem& problem : wrong_first_rows(config)) found.push_back(problem.key + ": " + problem.message);
  return found;
}

TextClassificationConfig texts(const std::filesystem::path& file) {
  TextClassificationConfig config;
  config.train.files = {file.string()};
  config.tokenizer = "bytes";
  return config;
}

}  // namespace

TEST_CASE("first rows that can be trained on have no problem", "[dataset]") {
  const testing::TemporaryDirectory folder;
  TableConfig table;
  table.train = {folder.write("t.csv", "a,b,y\n1,2,no\n3,4,yes\n").string()};
  table.label = "y";
  CHECK(messages(dataset_of(table)).empty());
  CHECK(messages(dataset_of(texts(folder.write("x.csv", "text,label\nhello,1\n")))).empty());
}

TEST_CASE("a column that isn't there is a problem of its set", "[dataset]") {
  const testing::TemporaryDirectory folder;
  TableConfig table;
  table.train = {folder.write("t.csv", "a,b,y\n1,2,no\n").string()};
  table.eval = {folder.write("e.csv", "a,b\n1,2\n").string()};
  table.label = "y";
  const std::vector<std::string> found = messages(dataset_of(table));
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], Contains("dataset.eval: ") && Contains("there is no column 'y'"));
  CHECK(found[0].find('\n') == std::string::npos);
  const auto of_texts = messages(dataset_of(texts(folder.write("x.csv", "text,Label\nhello,1\n"))));
  REQUIRE(of_texts.size() == 1);
  CHECK_THAT(of_texts[0],
             Contains("dataset.train: ") && Contains("no column 'label'") && Contains("did you mean Label?"));
}

TEST_CASE("cells, missing values and labels are looked at as training would", "[dataset]") {
  const testing::TemporaryDirectory folder;
  TableConfig table;
  table.train = {folder.write("t.csv", "a,b,y\n1,2,no\n,4,yes\nx,1,maybe\n").string()};
  table.label = "y";
  table.categorical_columns = {"a"};
  CHECK(messages(dataset_of(table)).empty());
  table.class_names = {"no", "yes"};
  REQUIRE(messages(dataset_of(table)).size() == 1);
  CHECK_THAT(messages(dataset_of(table))[0], Contains("the label 'maybe' is none of the classes"));
  table.categorical_columns = {};
  table.numerical_columns = {"a"};
  CHECK_THAT(messages(dataset_of(table)).at(0), Contains("t.csv:4: column 'a' should be a number, but is 'x'"));
  TextClassificationConfig values = texts(folder.write("x.csv", "text,label\nhello,1.5\nbye,good\n"));
  values.label_type = LabelType::value;
  CHECK_THAT(messages(dataset_of(values)).at(0), Contains("x.csv:3: the label should be a number, but is 'good'"));
}

TEST_CASE("a mistake behind the first rows is left to the training", "[dataset]") {
  const testing::TemporaryDirectory folder;
  std::string rows = "text,label\n";
  for (int i = 0; i < 1000; ++i) rows += "hello,1\n";
  TextClassificationConfig values = texts(folder.write("x.csv", rows + "bye,good\n"));
  values.label_type = LabelType::value;
  CHECK(messages(dataset_of(values)).empty());
}

TEST_CASE("texts without labels and tagged words are looked at, plain text isn't", "[dataset]") {
  const testing::TemporaryDirectory folder;
  TextLmConfig lm;
  lm.tokenizer = "bytes";
  lm.train.files = {folder.write("x.jsonl", "{\"messages\": 1}\n").string()};
  CHECK_THAT(messages(dataset_of(lm)).at(0), Contains("has no member 'text'"));
  lm.train.files = {folder.write("x.txt", "any text").string()};
  CHECK(messages(dataset_of(lm)).empty());
  TextTokenClassificationConfig tagged;
  tagged.tokenizer = "bytes";
  tagged.train.files = {folder.write("x.conll", "John B-PER\nlives\n").string()};
  CHECK_THAT(messages(dataset_of(tagged)).at(0), Contains("x.conll:2"));
}

}  // namespace trainctl::dataset::first_rows_test
