// Texts for predictions are read as the training files are.
#include "dataset/inputs.h"
#include "support/small_files.h"

namespace trainctl::dataset::text_inputs_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> texts_of(const LabelledText& train, const std::string& content, const std::string& name) {
  TextClassificationConfig classes;
  classes.train = train;
  DatasetConfig config;
  config.source = classes;
  std::vector<std::string> texts;
  read_text_inputs(config, content, name, [&](const LineInput<TextInput>& input) {
    texts.push_back(input.content ? input.content->text : "error: " + input.error);
  });
  return texts;
}

LabelledText training_texts(const std::string& file) {
  LabelledText train;
  train.files = {file};
  train.label = "label";
  train.text = "text";
  return train;
}

}  // namespace

TEST_CASE("texts to predict have the training files' header, quotes and format", "[dataset]") {
  using Texts = std::vector<std::string>;
  LabelledText numbered = training_texts("train.csv");
  numbered.label = "1";
  numbered.text = "2";
  numbered.header_lines = std::int64_t{0};
  CHECK(texts_of(numbered, "y,a b\nn,c d\n", "in.csv") == Texts{"a b", "c d"});
  numbered.header_lines = {};
  const std::string texts = "y,a b c d e f g h\nn,c d e f g h i j\ny,a b c d e f g h\n";
  CHECK(texts_of(numbered, texts, "in.csv").size() == 3);
  CHECK_THROWS_WITH(texts_of(numbered, "m,a b\n" + texts, "in.csv"), Contains("in.csv:1: this line may name"));
  numbered.header_lines = std::int64_t{1};
  CHECK(texts_of(numbered, "m,a b\n" + texts, "in.csv").size() == 3);
  LabelledText quoted = training_texts("train.tsv");
  CHECK(texts_of(quoted, "label\ttext\ny\t\"c d\"\n", "in.tsv") == Texts{"\"c d\""});
  quoted.quoting = Quoting::rfc4180;
  CHECK(texts_of(quoted, "label\ttext\ny\t\"c d\"\n", "in.tsv") == Texts{"c d"});
  LabelledText stated = training_texts("train.txt");
  stated.format = TextFormat::tsv;
  CHECK(texts_of(stated, "label\ttext\ny\tc d\n", "in.txt") == Texts{"c d"});
  CHECK(texts_of(stated, "a text\n", "-") == Texts{"a text"});
}

TEST_CASE("texts to predict that aren't UTF-8 are what training makes of them", "[dataset]") {
  LabelledText train = training_texts("train.csv");
  CHECK_THROWS_WITH(texts_of(train, "fine\nnot \xff fine\n", "in.txt"), Contains("in.txt:2: byte 5"));
  train.encoding_errors = EncodingErrors::replace;
  CHECK(texts_of(train, "not \xff fine\n", "in.txt") == std::vector<std::string>{"not \xef\xbf\xbd fine"});
}

}  // namespace trainctl::dataset::text_inputs_test
