#include "data_tools/inspect.h"

#include <functional>

#include "support/small_files.h"

using namespace trainctl;
using namespace trainctl::data_tools;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

SeenRows rows_of(const std::filesystem::path& file, const InspectOptions& options = {}) {
  return std::get<SeenRows>(inspect(file, options));
}

}  // namespace

TEST_CASE("a table shows its label, its classes and the kinds of its columns", "[data_tools]") {
  const TemporaryDirectory directory;
  const auto file = directory.write("people.csv",
                                    "age,city,born,income\n31,Rome,1990-01-02,low\n?,Oslo,1980-05-06,high\n"
                                    "22,Rome,1999-12-31,low\n");
  const SeenRows seen = rows_of(file);
  CHECK(seen.num_rows == 3);
  CHECK(seen.label == "income");
  CHECK(seen.label_is_guessed);
  CHECK_FALSE(seen.text);
  CHECK(seen.classes == Counts{{"low", 2}, {"high", 1}});
  REQUIRE(seen.columns.size() == 4);
  CHECK(seen.columns[0].kind == "number");
  CHECK(seen.columns[0].num_missing == 1);
  CHECK(seen.columns[1].kind == "category");
  CHECK(seen.columns[2].kind == "date");
  const std::string text = suggested_experiment(seen, {.name = "people"}).text();
  CHECK_THAT(text, Contains("# seen: classes low 2, high 1"));
  CHECK_THAT(text, Contains("label: income"));
  CHECK_THAT(text, Contains("missing_values: mean"));
  CHECK_THAT(text, Contains("eval_fraction: 0.4"));
}

TEST_CASE("a suggestion that leaves rows out counts them", "[data_tools][regression]") {
  const TemporaryDirectory directory;
  const auto file =
      directory.write("t.csv", "x,city,none,label\n1,Rome,,a\n2,,,b\n3,Oslo,,\n,Rome,,\n4,Rome,,a\n5,Oslo,,b\n");
  const SeenRows seen = rows_of(file);
  CHECK(seen.num_incomplete == 3);
  CHECK_THAT(suggested_experiment(seen, {.name = "t"}).text(),
             Contains("missing_values: drop  # leaves out 3 of 6 rows: 2 have no label, 1 miss another value"));
}

TEST_CASE("rows of a set for evaluation without a label, or a number, are provided for", "[data_tools][regression]") {
  const std::string rows = "x,city,label\n1,Rome,a\n2,Oslo,b\n3,Oslo,a\n4,Rome,b\n";
  const auto suggested = [&](const std::string& other_rows) {
    const TemporaryDirectory directory;
    directory.write("validation.csv", rows + other_rows);
    return suggested_experiment(rows_of(directory.write("train.csv", rows)), {.name = "t"}).text();
  };
  CHECK_THAT(suggested(""), !Contains("missing_values"));
  CHECK_THAT(suggested("5,,a\n"), Contains("validation.csv") && !Contains("missing_values"));
  CHECK_THAT(suggested(",Rome,a\n"), Contains("missing_values: mean"));
  CHECK_THAT(suggested(",Rome,\n"), Contains("missing_values: drop"));
  CHECK_THAT(suggested("5,Rome,\n"), Contains("missing_values: drop  # rows of the set for evaluation"));
}

TEST_CASE("NA in quotes is no value among numbers, and a text among words", "[data_tools][regression]") {
  const TemporaryDirectory directory;
  const SeenRows seen = rows_of(directory.write(
      "q.csv", "\"x\",\"kind\",\"label\"\n\"1\",\"NA\",\"a\"\n\"NA\",\"b\",\"a\"\n\"3\",\"NA\",\"b\"\n"));
  REQUIRE(seen.columns.size() == 3);
  CHECK(seen.columns[0].kind == "number");
  CHECK(seen.columns[0].num_missing == 1);
  CHECK(seen.columns[1].kind == "category");
  CHECK(seen.columns[1].num_missing == 0);
  CHECK(seen.columns[1].num_distinct == 2);
  CHECK_THAT(suggested_experiment(seen, {.name = "q"}).text(), Contains("missing_values: mean"));
}

TEST_CASE("the files of UCI Adult are taken as they are", "[data_tools]") {
  const TemporaryDirectory directory;
  const auto file = directory.write("adult.data", "39, State-gov, <=50K\n50, ?, >50K\n38, Private, <=50K\n");
  const auto test = directory.write("adult.test", "|1x3 Cross validator\n25, Private, <=50K.\n");
  const SeenRows seen = rows_of(file);
  CHECK_FALSE(seen.has_header);
  CHECK(seen.label == "3");
  CHECK(seen.eval == test.string());
  CHECK(seen.columns[1].num_missing == 1);
  CHECK_THAT(suggested_experiment(seen, {.name = "adult"}).text(), Contains("label: \"3\""));
}

TEST_CASE("texts with labels are told from tables", "[data_tools]") {
  const TemporaryDirectory directory;
  std::string csv = "id,review,sentiment\n";
  std::string jsonl;
  for (int i = 0; i < 8; ++i) {
    const std::string text = "this is review number " + std::to_string(i) + " of a film";
    csv += std::to_string(i) + ",\"" + text + ", seen twice\"," + (i % 2 == 0 ? "good" : "bad") + "\n";
    jsonl += "{\"text\": \"" + text + "\", \"label\": " + std::to_string(i % 3) + "}\n";
  }
  const SeenRows seen = rows_of(directory.write("reviews_train.csv", csv));
  CHECK(seen.text == "review");
  CHECK(seen.label == "sentiment");
  CHECK_THAT(suggested_experiment(seen, {.name = "reviews"}).text(), Contains("kind: text_classification"));
  const SeenRows objects = rows_of(directory.write("reviews.jsonl", jsonl));
  CHECK(objects.is_jsonl);
  CHECK(objects.text == "text");
  CHECK(objects.classes == Counts{{"0", 3}, {"1", 3}, {"2", 2}});
}

TEST_CASE("JSON lines with turns are conversations", "[data_tools]") {
  const TemporaryDirectory directory;
  const std::string row = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  const SeenChat seen = std::get<SeenChat>(inspect(directory.write("chat.jsonl", row + "\n" + row + "\n"), {}));
  CHECK(seen.num_rows == 2);
  CHECK(seen.num_turns == 4);
  CHECK(!seen.is_part);
  CHECK_THAT(suggested_experiment(seen, {.name = "chat"}).text(),
             Contains("kind: chat") && Contains("chat_template: chatml"));
  const std::string other = R"({"text": "a", "label": "b"})";
  CHECK_THAT(error_of([&] { inspect(directory.write("mixed.jsonl", row + "\n" + other + "\n"), {}); }),
             Contains("row 2 is no conversation, and the rows before it are"));
}

TEST_CASE("numbers with fractions are values to predict", "[data_tools]") {
  const TemporaryDirectory directory;
  const SeenRows seen = rows_of(directory.write("houses.csv", "rooms,price\n3,100.5\n4,130.25\n5,155.75\n"));
  CHECK(seen.label == "price");
  CHECK(seen.label_is_value);
  CHECK_THAT(suggested_experiment(seen, {.name = "houses"}).text(), Contains("label_type: value"));
  CHECK(rows_of(seen.train, {.label = "rooms"}).classes.size() == 3);
  const SeenRows comma = rows_of(directory.write("comma.csv", "rooms;price\n3;100,5\n4;130,25\n5;155,75\n"));
  CHECK(comma.label_is_value);
  const SeenRows truths = rows_of(directory.write("truths.csv", "rooms,let\n3,True\n4,False\n5,true\n6,True\n"));
  CHECK_FALSE(truths.label_is_value);
  const SeenRows numbered = rows_of(directory.write("numbered.csv", "x,stars\n3,1.0\n4,\n5,2.0\n6,3.0\n7,1.0\n"));
  CHECK_FALSE(numbered.label_is_value);
  CHECK(rows_of(directory.write("apart.csv", "x,price\n3,0.0\n4,1000000.0\n5,2000000.0\n")).label_is_value);
  CHECK_THAT(error_of([&] { rows_of(seen.train, {.label = "cost"}); }), Contains("there is no column 'cost'"));
}

TEST_CASE("a text becomes a language model, and what is no data is refused", "[data_tools]") {
  const TemporaryDirectory directory;
  const auto file = directory.write("plays.txt", std::string(5000, 'a'));
  CHECK(std::get<SeenTexts>(inspect(file, {})).num_bytes == 5000);
  CHECK_THAT(suggested_experiment(inspect(file, {}), {.name = "plays"}).text(), Contains("kind: text_lm"));
  CHECK_THAT(error_of([&] { inspect(directory.path() / "absent", {}); }), Contains("there is no file or directory"));
  const TemporaryDirectory empty;
  CHECK_THAT(error_of([&] { inspect(empty.path(), {}); }), Contains("has no data of a known kind"));
  CHECK_THAT(error_of([&] { inspect(directory.write("one.csv", "a\n1\n"), {}); }), Contains("has one column"));
  CHECK_THAT(error_of([&] { inspect(directory.write("torn.csv", "a,b\n1,2\n1\n"), {}); }), Contains("torn.csv:3"));
}

TEST_CASE("a header above texts and words is seen, and a first row of data isn't taken for one",
          "[data_tools][regression]") {
  const TemporaryDirectory directory;
  std::string rows;
  for (int i = 0; i < 20; ++i)
    rows += std::string(i % 2 == 0 ? "trade" : "ship") + ",the ministers of seven countries met for talks " +
            std::to_string(i) + "\n";
  const SeenRows seen = rows_of(directory.write("news.csv", "topic,text\n" + rows));
  CHECK(seen.has_header);
  CHECK(seen.num_rows == 20);
  CHECK(seen.text == "text");
  CHECK(seen.label == "topic");
  CHECK(seen.classes == Counts{{"ship", 10}, {"trade", 10}});
  CHECK_FALSE(rows_of(directory.write("bare.csv", rows)).has_header);
}

TEST_CASE("a column that is named needs a header", "[data_tools]") {
  const TemporaryDirectory directory;
  const auto file = directory.write("pets.csv", "kind,color\ncat,black\ndog,white\ncat,red\n");
  const SeenRows seen = rows_of(file, {.label = "kind"});
  CHECK(seen.has_header);
  CHECK(seen.classes == Counts{{"cat", 2}, {"dog", 1}});
}

TEST_CASE("a first line of numbers is a header if the rows bear that out", "[data_tools][regression]") {
  const TemporaryDirectory directory;
  const auto has_header = [&](const std::string& first, const std::function<std::string(int)>& row) {
    std::string text = first + "\n";
    for (int i = 0; i < 60; ++i) text += row(i) + "\n";
    return rows_of(directory.write("numbers.csv", text), {.label = "2"}).has_header;
  };
  const auto text = [](int number) { return std::to_string(number); };
  const auto counted = [&](int i) { return text(i) + "," + text(i % 3) + "," + text(i % 5) + "," + text(i % 2); };
  CHECK(has_header(",0,1,2", counted));
  CHECK(has_header("1,2,3", [&](int i) { return text(i) + "," + text(i % 3) + "," + text(i % 2); }));
  CHECK(has_header("0,1,2", [&](int i) { return text(i) + ".5," + text(i % 4) + (i % 2 == 0 ? ",b" : ",c"); }));
  CHECK(has_header("country,2019,2020,2021", [&](int i) {
    return "k" + text(i) + "," + text(300 + 7 * i) + "," + text(301 + 5 * i) + "," + text(309 + 9 * i);
  }));
  CHECK(has_header(",color,shape", [&](int i) { return text(i) + "," + "rgb"[i % 3] + "," + "ox"[i % 2]; }));
  // Rows of consecutive numbers, and a first row with a missing value.
  CHECK_FALSE(
      has_header("0,1,2", [&](int i) { return text(3 * i + 3) + "," + text(3 * i + 4) + "," + text(3 * i + 5); }));
  CHECK_FALSE(has_header("1,2", [&](int i) { return text(i % 7) + "," + text(i % 5); }));
  CHECK_FALSE(has_header(",3,0", [&](int i) { return text(i) + ".25," + text(i % 5) + "," + text(i % 2); }));
}

TEST_CASE("labels that are nearly all different are no classes", "[data_tools][regression]") {
  const TemporaryDirectory directory;
  std::string rows = "size,owner\n";
  for (int i = 0; i < 40; ++i) rows += std::to_string(i % 4) + ",owner " + std::to_string(i) + "\n";
  CHECK_THAT(error_of([&] { rows_of(directory.write("owners.csv", rows)); }), Contains("these are no classes"));
  CHECK_THAT(error_of([&] { rows_of(directory.write("same.csv", "x,label\n1,a\n2,a\n")); }), Contains("has one label"));
}
