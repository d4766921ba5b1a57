#include "dataset/loader/loader.h"

#include <ATen/ops/equal.h>

#include <atomic>
#include <thread>

#include "support/small_files.h"

namespace trainctl::dataset::loader_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

/// What next() gave, copied.
struct Seen {
  Position before;
  at::Tensor inputs;
  at::Tensor targets;
};

/// Batches of an epoch, and its end.
std::vector<Seen> take_epoch(Loader& loader) {
  std::vector<Seen> all;
  for (;;) {
    const Position before = loader.position();
    std::optional<Batch> batch = loader.next();
    if (!batch) return all;
    all.push_back({before, batch->inputs.clone(), batch->targets.clone()});
  }
}

bool same(const Seen& a, const Seen& b) {
  return a.before == b.before && a.inputs.equal(b.inputs) && a.targets.equal(b.targets);
}

DatasetConfig augmented(std::int64_t samples = 45) {
  DatasetConfig config;
  config.source = SyntheticImagesConfig{
      .num_samples = samples, .num_eval_samples = 20, .channels = 3, .height = 8, .width = 6, .num_classes = 5};
  config.batch_size = 8;
  config.transforms = {RandomCropConfig{.padding = 2}, RandomHorizontalFlipConfig{}, NormalizeConfig{},
                       RandomErasingConfig{}};
  return config;
}

std::unique_ptr<Loader> train_loader(DatasetConfig config, std::int64_t workers, std::uint64_t seed = 11) {
  config.num_workers = workers;
  return std::move(build(config, {.seed = seed}).train);
}

/// Fails at one index; counts what it was asked.
class FailingSource final : public RawSource {
 public:
  FailingSource(std::int64_t size, std::int64_t bad, std::int64_t width = 4)
      : size_(size), bad_(bad), spec_{.input_shape = {1, 1, width}, .input_dtype = at::kFloat, .num_classes = 2} {}
  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return spec_.input_shape[2]; }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    if (index == bad_) throw core::Error("the disk is on fire");
    std::fill_n(sample, sample_bytes(), static_cast<std::byte>(index));
    return index % 2;
  }
  std::string fingerprint() const override { return ""; }

 private:
  std::int64_t size_;
  std::int64_t bad_;
  SampleSpec spec_;
};

LoaderParts plain_parts(std::unique_ptr<Source> source, std::int64_t batch_size, std::int64_t workers) {
  LoaderParts parts;
  parts.writer =
      make_image_writer(raw_samples(*source), Transforms({}, image_shape(source->spec()), Phase::training), 1);
  parts.source = std::move(source);
  parts.batch_size = batch_size;
  parts.workers = workers;
  return parts;
}

}  // namespace

TEST_CASE("any number of workers gives the same batches", "[dataset]") {
  const auto reference = train_loader(augmented(), 0);
  const auto one = train_loader(augmented(), 1);
  const auto three = train_loader(augmented(), 3);
  for (int epoch = 0; epoch < 4; ++epoch) {
    const std::vector<Seen> expected = take_epoch(*reference);
    REQUIRE(expected.size() == 6);
    CHECK(expected.back().targets.numel() == 5);
    for (Loader* loader : {one.get(), three.get()}) {
      const std::vector<Seen> got = take_epoch(*loader);
      REQUIRE(got.size() == expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], expected[i]));
    }
  }
}

TEST_CASE("epochs differ in order and in what random transforms do; seeds too", "[dataset]") {
  const auto loader = train_loader(augmented(), 1);
  const auto other_seed = train_loader(augmented(), 1, 12);
  const Seen first = take_epoch(*loader)[0];
  CHECK_FALSE(first.inputs.equal(take_epoch(*loader)[0].inputs));
  CHECK_FALSE(first.inputs.equal(take_epoch(*other_seed)[0].inputs));

  DatasetConfig in_order = augmented();
  in_order.shuffle = false;
  const auto fixed = train_loader(in_order, 1);
  const Seen epoch0 = take_epoch(*fixed)[0];
  const Seen epoch1 = take_epoch(*fixed)[0];
  CHECK(epoch0.targets.equal(epoch1.targets));
  CHECK_FALSE(epoch0.inputs.equal(epoch1.inputs));
}

TEST_CASE("a seek gives what iterating to there gives, wherever it is", "[dataset]") {
  for (const std::int64_t workers : {0, 1, 3}) {
    const auto reference = train_loader(augmented(), workers);
    std::vector<Seen> all = take_epoch(*reference);
    for (const Seen& seen : take_epoch(*reference)) all.push_back(seen);
    const auto loader = train_loader(augmented(), workers);
    for (const std::size_t to : {7, 0, 11, 3, 3, 5}) {
      loader->seek(all[to].before);
      CHECK(loader->position() == all[to].before);
      for (std::size_t i = to; i < std::min<std::size_t>(to + 2, 6); ++i) {
        const Position before = loader->position();
        const std::optional<Batch> batch = loader->next();
        REQUIRE(batch);
        CHECK(same({before, batch->inputs, batch->targets}, all[i]));
      }
    }
  }
}

TEST_CASE("a run resumed in the middle of an epoch goes on as if it had never stopped", "[dataset]") {
  const auto uninterrupted = train_loader(augmented(), 2);
  const auto before = train_loader(augmented(), 2);
  for (int i = 0; i < 4; ++i) uninterrupted->next(), before->next();
  const auto resumed = train_loader(augmented(), 1);
  resumed->seek(before->position());
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto expected = take_epoch(*uninterrupted);
    const auto got = take_epoch(*resumed);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], expected[i]));
  }
}

TEST_CASE("positions count samples; the end of an epoch is told once", "[dataset]") {
  const auto loader = train_loader(augmented(), 1);
  CHECK(loader->num_samples() == 45);
  CHECK(loader->batches_per_epoch() == 6);
  for (std::int64_t i = 0; i < 6; ++i) {
    CHECK(loader->position() == Position{0, 8 * i});
    CHECK(loader->next());
    CHECK(loader->last_wait_ms() >= 0);
  }
  CHECK(loader->position() == Position{0, 45});
  CHECK_FALSE(loader->next());
  CHECK(loader->position() == Position{1, 0});
  CHECK(loader->next());
  CHECK(loader->position() == Position{1, 8});
  loader->seek({0, 45});
  CHECK_FALSE(loader->next());
  CHECK(loader->position() == Position{1, 0});
}

TEST_CASE("a seek into the middle of a batch begins its batches there", "[dataset]") {
  const auto loader = train_loader(augmented(), 1);
  loader->seek({0, 3});
  CHECK(loader->next()->size() == 8);
  CHECK(loader->position() == Position{0, 11});
  loader->seek({2, 42});
  CHECK(loader->next()->size() == 3);
  CHECK_FALSE(loader->next());
  CHECK(loader->position() == Position{3, 0});
}

TEST_CASE("a position outside the data is an error, and the loader still works", "[dataset]") {
  const auto loader = train_loader(augmented(), 1);
  CHECK_THAT(error_of([&] { loader->seek({0, 46}); }), Contains("sample 46 of epoch 0 in a dataset of 45 samples"));
  CHECK_THAT(error_of([&] { loader->seek({-1, 0}); }), Contains("epoch -1"));
  CHECK(loader->next());
}

TEST_CASE("drop_last leaves out the batch that isn't full", "[dataset]") {
  DatasetConfig config = augmented();
  config.drop_last = true;
  for (const std::int64_t workers : {0, 2}) {
    const auto loader = train_loader(config, workers);
    CHECK(loader->batches_per_epoch() == 5);
    const auto all = take_epoch(*loader);
    CHECK(all.size() == 5);
    for (const Seen& seen : all) CHECK(seen.targets.numel() == 8);
    CHECK(loader->position() == Position{1, 0});
  }
}

TEST_CASE("tensors outlive the loader and keep their values", "[dataset]") {
  std::vector<Batch> kept;
  std::vector<Seen> copies;
  {
    const auto loader = train_loader(augmented(), 2);
    for (int epoch = 0; epoch < 3; ++epoch)
      while (std::optional<Batch> batch = loader->next()) {
        copies.push_back({{}, batch->inputs.clone(), batch->targets.clone()});
        kept.push_back(std::move(*batch));
      }
  }
  REQUIRE(kept.size() == 18);  // far more than there are buffers ahead
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(kept[i].inputs.equal(copies[i].inputs));
    CHECK(kept[i].targets.equal(copies[i].targets));
  }
  std::thread elsewhere([&] { kept.clear(); });
  elsewhere.join();
}

TEST_CASE("a batch's memory is aligned and used again when its tensors are gone", "[dataset]") {
  const auto loader = train_loader(augmented(8000), 1);
  std::vector<const void*> addresses;
  for (int i = 0; i < 500; ++i) {
    const std::optional<Batch> batch = loader->next();
    REQUIRE(batch);
    CHECK(reinterpret_cast<std::uintptr_t>(batch->inputs.const_data_ptr()) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(batch->targets.const_data_ptr()) % 64 == 0);
    addresses.push_back(batch->inputs.const_data_ptr());
  }
  std::sort(addresses.begin(), addresses.end());
  CHECK(std::unique(addresses.begin(), addresses.end()) - addresses.begin() < 20);
}

TEST_CASE("a loader can be destroyed and moved at any moment", "[dataset]") {
  for (int round = 0; round < 60; ++round) {
    const auto loader = train_loader(augmented(2000), 1 + round % 4);
    for (int i = 0; i < round % 7; ++i) {
      if (i % 3 == 2) loader->seek({round, 17});
      REQUIRE(loader->next());
    }
  }
}

TEST_CASE("a failing sample is named by next(), again if asked again, and can be passed by", "[dataset]") {
  for (const std::int64_t workers : {0, 1, 3}) {
    const auto loader = make_loader(plain_parts(std::make_unique<FailingSource>(20, 9), 4, workers));
    CHECK(loader->next());
    CHECK(loader->next());
    for (int i = 0; i < 2; ++i)
      CHECK_THAT(error_of([&] { loader->next(); }),
                 Contains("the disk is on fire while preparing sample 9 of epoch 0"));
    CHECK(loader->position() == Position{0, 8});
    loader->seek({0, 12});
    CHECK(loader->next());
    CHECK(loader->next());
    CHECK_FALSE(loader->next());
  }
}

TEST_CASE("large samples are shared out among the workers and arrive whole", "[dataset]") {
  constexpr std::int64_t kWidth = 300000;  // over a slice each
  for (const std::int64_t workers : {0, 2, 4}) {
    const auto loader = make_loader(plain_parts(std::make_unique<FailingSource>(10, -1, kWidth), 4, workers));
    std::int64_t index = 0;
    while (const std::optional<Batch> batch = loader->next())
      for (std::int64_t i = 0; i < batch->size(); ++i, ++index) {
        const float* values = batch->inputs.const_data_ptr<float>() + i * kWidth;
        const float expected = static_cast<float>(index) * static_cast<float>(1 / 255.0);
        CHECK(std::all_of(values, values + kWidth, [&](float value) { return value == expected; }));
        CHECK(batch->targets.const_data_ptr<std::int64_t>()[i] == index % 2);
      }
    CHECK(index == 10);
  }
}

}  // namespace trainctl::dataset::loader_test
