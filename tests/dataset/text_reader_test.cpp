// How text files are read, and what is wrong with them.
#include "dataset/text/reading/text_reader.h"

#include "support/small_files.h"

namespace trainctl::dataset::text_reader_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

std::vector<std::vector<std::string>> rows_of(const std::string& file, const std::vector<std::string>& names,
                                              TextFileOptions options = {}) {
  std::vector<std::vector<std::string>> rows;
  read_rows(file, options, {names}, [&](const std::vector<std::string_view>& values, std::int64_t) {
    rows.emplace_back(values.begin(), values.end());
  });
  return rows;
}

std::vector<std::string> documents_of(const TextFiles& files) {
  std::vector<std::string> all;
  read_documents(files, [&](const Document& document) { all.emplace_back(document.text); });
  return all;
}

}  // namespace

TEST_CASE("csv has quoted cells with commas, quotes and line ends", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("a.csv", "id,text\r\n1,\"a, \"\"b\"\"\nc\"\r\n\n2,plain\n");
  CHECK(rows_of(file, {"text", "id"}) == std::vector<std::vector<std::string>>{{"a, \"b\"\nc", "1"}, {"plain", "2"}});
  CHECK(rows_of(file, {"2"}, {.header_lines = std::int64_t{1}}).size() == 2);
  CHECK_THROWS_WITH(rows_of(directory.write("b.csv", "text\nfine\n\"open\n"), {"text"}),
                    Contains("b.csv:3: a quoted cell"));
}

TEST_CASE("tsv has raw tabs and quotes, and as many header lines as one says", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("a.tab", "Category\tText\nd\tstring\nclass\t\n\nearn\tsays \"no\"\n");
  CHECK(rows_of(file, {"Category", "Text"}, {.header_lines = std::int64_t{3}}) ==
        std::vector<std::vector<std::string>>{{"earn", "says \"no\""}});
  CHECK_THROWS_WITH(rows_of(file, {"Topic"}),
                    Contains("there is no column 'Topic'; the columns are Category and Text"));
  try {
    rows_of(directory.write("c.csv", "topic;words\nearn;no\n"), {"words"});
    FAIL("it has no commas");
  } catch (const core::Error& error) {
    CHECK_THAT(error.text(), Contains("there is no column 'words'") && Contains("with commas between the columns"));
  }
  CHECK_THROWS_WITH(rows_of(directory.write("b.tsv", "a\tb\n1\t2\n3\n"), {"b"}),
                    Contains("b.tsv:3: this row has 1 column"));
}

TEST_CASE("a row with more cells than the first one is refused, since its text is cut", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const std::string named = directory.write("a.csv", "label,text\n1,one\n2,two, and more\n");
  CHECK_THROWS_WITH(rows_of(named, {"text"}), Contains("a.csv:3: this row has 3 columns, and the first one 2"));
  const std::string bare = directory.write("b.tsv", "1\tone\n2\ttwo\tthree\n");
  CHECK_THROWS_WITH(rows_of(bare, {"2"}, {.header_lines = std::int64_t{0}}),
                    Contains("b.tsv:2: this row has 3 columns"));
  const std::string titled = directory.write("c.csv", "A title\n1,one\n2,two\n");
  CHECK(rows_of(titled, {"2"}, {.header_lines = std::int64_t{1}}).size() == 2);
}

TEST_CASE("json lines say where they are wrong", "[dataset]") {
  const TemporaryDirectory directory;
  CHECK(rows_of(directory.write("a.jsonl", "{\"text\": \"\\u00e4\", \"n\": 3}\n\n{\"text\": \"b\", \"n\": 4}"),
                {"text", "n"}) == std::vector<std::vector<std::string>>{{"ä", "3"}, {"b", "4"}});
  CHECK_THROWS_WITH(rows_of(directory.write("b.jsonl", "{\"text\": \"x\"}\n{\"text\": \n"), {"text"}),
                    Contains("b.jsonl:2: not JSON"));
  CHECK_THROWS_WITH(rows_of(directory.write("n.jsonl", "{\"text\": 18446744073709551616}\n"), {"text"}),
                    Contains("n.jsonl:1: 'text' is a number of more than 64 bits"));
  CHECK_THROWS_WITH(rows_of(directory.write("z.jsonl", std::string("{\"text\": \"x\"}\0{}\n", 17)), {"text"}),
                    Contains("z.jsonl:1: ") && Contains("byte"));
  CHECK_THROWS_WITH(rows_of(directory.write("c.jsonl", "{\"body\": \"x\"}\n"), {"text"}),
                    Contains("c.jsonl:1: this object has no member 'text'; it has body"));
  CHECK_THROWS_WITH(rows_of(directory.write("d.jsonl", "[1]\n"), {"text"}),
                    Contains("d.jsonl:1: expected an object, got array"));
}

TEST_CASE("text that is not UTF-8 is refused with its place, or replaced", "[dataset]") {
  const TemporaryDirectory directory;
  TextFiles files;
  files.files = {directory.write("a.txt", "fine\nso \xff so\n")};
  CHECK_THROWS_WITH(documents_of(files), Contains("a.txt:2: byte 4 of the line, 0xff, is not UTF-8"));
  files.encoding_errors = EncodingErrors::replace;
  CHECK(documents_of(files) == std::vector<std::string>{"fine\nso \xEF\xBF\xBD so\n"});
  // One for each part that could have begun a character: b"\xe2\x82 \xf0\x9f\x98 \xed\xa0\x80
  // \xc0\xaf".decode(errors="replace")
  files.files = {directory.write("b.txt", "\xe2\x82 \xf0\x9f\x98 \xed\xa0\x80 \xc0\xaf")};
  const std::string one = "\xEF\xBF\xBD";
  CHECK(documents_of(files) == std::vector{one + " " + one + " " + one + one + one + " " + one + one});
  files.files = {directory.write("packed.txt", "\x1f\x8b\x08 and so on")};
  CHECK_THROWS_WITH(documents_of(files), Contains("packed.txt is compressed (gzip)"));
  files.files = {directory.write("empty.txt", "")};
  CHECK_THROWS_WITH(documents_of(files), Contains("empty.txt is empty"));
}

TEST_CASE("a plain file is one document, or its paragraphs, or its lines", "[dataset]") {
  const TemporaryDirectory directory;
  TextFiles files;
  files.files = {directory.write("a.txt", "one\ntwo\n\n \nthree\n")};
  const auto documents = [&](DocumentUnit unit) {
    files.document = unit;
    return documents_of(files);
  };
  CHECK(documents(DocumentUnit::file) == std::vector<std::string>{"one\ntwo\n\n \nthree\n"});
  CHECK(documents(DocumentUnit::line) == std::vector<std::string>{"one", "two", "three"});
  CHECK(documents(DocumentUnit::paragraph) == std::vector<std::string>{"one\ntwo", "three"});
}

TEST_CASE("a file that is JSON by its name isn't taken as plain text, unless that is said", "[dataset][regression]") {
  const TemporaryDirectory directory;
  TextFiles files;
  files.files = {directory.write("a.JSON", "[{\"text\": \"one\"}]\n")};
  CHECK_THROWS_WITH(documents_of(files), Contains("a.JSON is JSON by its name"));
  files.format = TextFormat::text;
  CHECK(documents_of(files) == std::vector<std::string>{"[{\"text\": \"one\"}]\n"});
}

TEST_CASE("quotes mean what the option says, in csv and in tsv", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string tsv = directory.write("a.tsv", "text\tlabel\n\"a\"\tc\n\"open\td\n");
  CHECK(rows_of(tsv, {"text"}) == std::vector<std::vector<std::string>>{{"\"a\""}, {"\"open"}});
  CHECK_THROWS_WITH(rows_of(tsv, {"text"}, {.quoting = Quoting::rfc4180}), Contains("a.tsv:3: a quoted cell"));
  const std::string quoted = directory.write("b.tsv", "text\tlabel\n\"a\tb\"\tc\n");
  CHECK(rows_of(quoted, {"text", "label"}, {.quoting = Quoting::rfc4180}) ==
        std::vector<std::vector<std::string>>{{"a\tb", "c"}});
  const std::string csv = directory.write("c.csv", "text,label\nhe said \"no,1\n\"x\",2\n");
  CHECK(rows_of(csv, {"text", "label"}, {.quoting = Quoting::none}) ==
        std::vector<std::vector<std::string>>{{"he said \"no", "1"}, {"\"x\"", "2"}});
}

TEST_CASE("a line that is too long, or has a NUL byte, is named", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string text(100, 'x');
  TextFileOptions options;
  options.max_line_bytes = 50;
  const std::string jsonl = directory.write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + text + "\"}\n");
  CHECK(error_of([&] {
          rows_of(jsonl, {"text"}, options);
        }).ends_with("a.jsonl:2: this line has 112 bytes; at most 50 are read"));
  CHECK_THROWS_WITH(rows_of(directory.write("a.tsv", "text\nb\n" + text + "\n"), {"text"}, options),
                    Contains("a.tsv:3: this line has 100 bytes"));
  CHECK_THROWS_WITH(rows_of(directory.write("a.csv", "text\n\"" + text + "\"\n"), {"text"}, options),
                    Contains("a.csv:2: this line has 103 bytes"));
  TextFiles files;
  files.files = {directory.write("a.txt", "b\n" + text)};
  CHECK(documents_of(files).size() == 1);
  files.max_line_bytes = std::int64_t{50};
  CHECK_THROWS_WITH(documents_of(files), Contains("a.txt:2: this line has 100 bytes"));
  files.max_line_bytes = {};
  files.files = {directory.write("n.txt", std::string("fine\nwi\0de\n", 11))};
  CHECK_THROWS_WITH(documents_of(files), Contains("n.txt:2: byte 3 of the line is NUL"));
  CHECK_THROWS_WITH(rows_of(directory.write("n.csv", std::string("a,b\n1\0,2\n", 10)), {"a"}),
                    Contains("n.csv:2: byte 2 of the line is NUL"));
  files.files = {directory.path().string()};
  CHECK_THROWS_WITH(documents_of(files), Contains("it is a directory"));
  files.files = {(directory.path() / "none.txt").string()};
  CHECK_THROWS_WITH(documents_of(files), Contains("cannot open") && Contains("none.txt: No such file"));
}

}  // namespace trainctl::dataset::text_reader_test
