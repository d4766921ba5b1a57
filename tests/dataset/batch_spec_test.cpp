// What is told of batches without reading them is what the loader then gives.
#include "dataset/batch_spec.h"

#include <ATen/ops/equal.h>

#include "core/error.h"
#include "dataset/text_files.h"

namespace trainctl::dataset::batch_spec_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace {

void check_like_the_loader(const DatasetConfig& config, const LoaderOptions& options = {},
                           const BatchSpecHints& hints = {}) {
  const BatchSpec told = outline(config, options, hints);
  const Datasets datasets = build(config, options);
  const SampleSpec& spec = datasets.train->spec();
  CHECK(told.spec.input_shape == spec.input_shape);
  CHECK(told.spec.input_dtype == spec.input_dtype);
  CHECK(told.spec.num_classes == spec.num_classes);
  CHECK(told.spec.vocab_size == spec.vocab_size);
  CHECK(told.spec.targets == spec.targets);
  CHECK(told.spec.to_normalize.has_value() == spec.to_normalize.has_value());
  if (told.num_samples > 0) CHECK(told.num_samples == datasets.train->num_samples());
  const std::optional<Batch> batch = datasets.train->next();
  REQUIRE(batch);
  CHECK(told.has_token_types == batch->token_types.defined());
  CHECK(told.has_documents == batch->documents.defined());
  if (batch->key_mask.defined()) CHECK(told.has_padding);  // rows of one length have none
  CHECK(told.target_count * batch->size() >= batch->targets.numel());
  CHECK(told.input_bytes * batch->size() >= static_cast<std::int64_t>(batch->inputs.nbytes()));
  if (spec.is_image()) CHECK(told.input_bytes * batch->size() == static_cast<std::int64_t>(batch->inputs.nbytes()));
}

template <class Source>
DatasetConfig config_of(Source source) {
  DatasetConfig config;
  config.source = std::move(source);
  config.batch_size = 4;
  return config;
}

}  // namespace

TEST_CASE("images are told as they come out of the transforms, as numbers or as bytes", "[dataset]") {
  DatasetConfig config =
      config_of(SyntheticImagesConfig{.num_samples = 20, .channels = 3, .height = 9, .width = 7, .num_classes = 5});
  check_like_the_loader(config);
  config.transforms = {RandomResizedCropConfig{.size = 6, .width = {}},
                       NormalizeConfig{.mean = {0.5, 0.5, 0.5}, .std = {0.2, 0.2, 0.2}}};
  check_like_the_loader(config);
  check_like_the_loader(config, {.normalize_on_device = true});
}

TEST_CASE("the header of an idx file tells the images, and the model's config the classes", "[dataset]") {
  const TemporaryDirectory directory;
  const DatasetConfig config =
      config_of(IdxConfig{.train = write_idx(directory, "train", 21), .eval = {}, .num_classes = {}});
  CHECK_THROWS_WITH(outline(config, {}, {}), Catch::Contains("the number of classes is known only from the data"));
  check_like_the_loader(config, {}, {.num_classes = 10});
}

TEST_CASE("tokens are told with what they are asked for", "[dataset]") {
  check_like_the_loader(config_of(SyntheticTokensConfig{.num_samples = 20, .seq_len = 12, .vocab_size = 50}));
  const DatasetConfig masked =
      config_of(SyntheticTokensConfig{.num_samples = 20, .seq_len = 12, .vocab_size = 50, .mask_probability = 0.15});
  check_like_the_loader(masked);
  CHECK(outline(masked, {}, {}).target_share == 0.15);
}

TEST_CASE("text is told by its tokenizer's file, its length and its padding", "[dataset]") {
  const TemporaryDirectory directory;
  TextLmConfig lm;
  lm.train.files = {directory.write("text.txt", sentences(200))};
  lm.train.document = DocumentUnit::line;
  lm.tokenizer = "bytes";
  lm.seq_len = 16;
  lm.cache_dir = (directory.path() / "cache").string();
  check_like_the_loader(config_of(lm));
  lm.document_mask = true;
  check_like_the_loader(config_of(lm));

  TextMlmConfig mlm;
  mlm.train = lm.train;
  mlm.tokenizer = directory.write("vocab.txt", vocabulary());
  mlm.seq_len = 16;
  mlm.cache_dir = lm.cache_dir;
  check_like_the_loader(config_of(mlm));

  std::string rows = "label\ttext\n";
  for (int i = 0; i < 12; ++i)
    rows += std::string(i % 2 == 0 ? "pets" : "mats") + "\tthe cat sat" + (i % 3 == 0 ? " on the mat .\n" : " .\n");
  TextClassificationConfig classes;
  classes.train.files = {directory.write("train.tsv", rows)};
  classes.tokenizer = mlm.tokenizer;
  classes.max_length = 24;
  classes.cache_dir = lm.cache_dir;
  CHECK_THROWS_WITH(outline(config_of(classes), {}, {}),
                    Catch::Contains("the number of classes is known only from the data"));
  check_like_the_loader(config_of(classes), {}, {.num_classes = 2});
}

TEST_CASE("columns of a table are told where they are named", "[dataset]") {
  const TemporaryDirectory directory;
  std::string rows = "a,b,kind\n";
  for (int i = 0; i < 12; ++i) rows += std::to_string(i) + ",0.5," + (i % 2 == 0 ? "x" : "y") + "\n";
  TableConfig table;
  table.train = {directory.write("table.csv", rows)};
  table.label = "kind";
  CHECK_THROWS_WITH(outline(config_of(table), {}, {.num_classes = 2}),
                    Catch::Contains("the number of columns is known only from the data"));
  table.features = {"a", "b"};
  check_like_the_loader(config_of(table), {}, {.num_classes = 2});
}

}  // namespace trainctl::dataset::batch_spec_test
