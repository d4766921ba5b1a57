#include "dataset/files/file_list.h"

#include "dataset/dataset.h"
#include "dataset/files/directory_walk.h"
#include "support/small_files.h"

namespace trainctl::dataset::file_list_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> names(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> result;
  for (const auto& file : files) result.push_back(file.filename().string());
  return result;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("braces expand as a shell expands them", "[dataset]") {
  CHECK(expand_braces("train.tar") == Names{"train.tar"});
  CHECK(expand_braces("t-{08..11}.tar") == Names{"t-08.tar", "t-09.tar", "t-10.tar", "t-11.tar"});
  CHECK(expand_braces("t-{8..10}.tar") == Names{"t-8.tar", "t-9.tar", "t-10.tar"});
  CHECK(expand_braces("{a,b}/{0..1}") == Names{"a/0", "a/1", "b/0", "b/1"});
  CHECK(expand_braces("x{a,{b,c}d}y") == Names{"xay", "xbdy", "xcdy"});
  CHECK(expand_braces("{,x}y") == Names{"y", "xy"});
  CHECK(expand_braces("plain{}and{one}") == Names{"plain{}and{one}"});
  CHECK(expand_braces("open{a,b") == Names{"open{a,b"});
  CHECK(expand_braces("\\{a,b\\}") == Names{"{a,b}"});
  CHECK_THAT(error_of([] { expand_braces("{9..2}.tar"); }), Contains("should rise"));
  CHECK_THAT(error_of([] { expand_braces("{0..99999999999}.tar"); }), Contains("should rise"));
  CHECK_THAT(error_of([] { expand_braces("{0..9999}{0..9999}{0..9999}"); }), Contains("too many"));
}

TEST_CASE("a path, a directory, a glob and braces name files, in order", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string root = directory.path().string();
  std::filesystem::create_directories(directory.path() / "inner");
  for (const char* name : {"b.tar", "a.tar", "notes.txt", ".hidden.tar", "inner/c.tar", "{odd}.tar"})
    directory.write(name, "x");
  const auto expand = [&](Names patterns) {
    for (std::string& pattern : patterns) pattern = root + "/" + pattern;
    return names(expand_files(patterns, {{".tar"}}, "dataset.train"));
  };
  CHECK(expand({"b.tar", "a.tar"}) == Names{"b.tar", "a.tar"});
  CHECK(expand({"*.tar"}) == Names{"a.tar", "b.tar", "{odd}.tar"});
  CHECK(expand({""}) == Names{"a.tar", "b.tar", "c.tar", "{odd}.tar"});
  CHECK(expand({"{a,inner/c}.tar"}) == Names{"a.tar", "c.tar"});
  CHECK(expand({"{odd}.tar"}) == Names{"{odd}.tar"});
  CHECK(expand({"[ab].tar"}) == Names{"a.tar", "b.tar"});

  CHECK_THAT(error_of([&] { expand({"z.tar"}); }), Contains("dataset.train: there is no file") && Contains("z.tar"));
  CHECK_THAT(error_of([&] { expand({"{a,z}.tar"}); }), Contains("z.tar, which"));
  CHECK_THAT(error_of([&] { expand({"*.zip"}); }), Contains("no file matches"));
  CHECK_THAT(error_of([&] { expand({"a.tar", "*.tar"}); }), Contains("named twice"));
  std::filesystem::create_directories(directory.path() / "empty");
  CHECK_THAT(error_of([&] { expand({"empty"}); }), Contains("has no files that end in .tar"));
}

TEST_CASE("a directory's files have endings in any case, may be behind links, and aren't hidden",
          "[dataset][regression]") {
  namespace fs = std::filesystem;
  const TemporaryDirectory directory;
  const TemporaryDirectory elsewhere;
  elsewhere.write("far/d.tar", "x");
  for (const char* name : {"a.TAR", "b.Tar", "._c.tar", ".DS_Store", ".hidden/e.tar", "inner/c.tar", "star"})
    directory.write(name, "x");
  fs::create_directory_symlink(elsewhere.path() / "far", directory.path() / "linked");
  fs::create_symlink(directory.path() / "nowhere", directory.path() / "z.tar");  // whoever reads it names it
  const auto found = [&](const std::vector<std::string>& endings) {
    Names below;
    for (const fs::path& file : files_below(directory.path(), endings))
      below.push_back(file.lexically_relative(directory.path()).string());
    return below;
  };
  CHECK(found({"tar"}) == Names{"a.TAR", "b.Tar", "inner/c.tar", "linked/d.tar", "z.tar"});
  CHECK(found({".Tar"}) == found({"tar"}));
  CHECK(found({}).size() == 6);
  fs::create_directory_symlink(directory.path(), directory.path() / "inner/up");
  CHECK_THAT(error_of([&] { found({"tar"}); }), Contains("inner/up is a link to a folder that it lies in"));
}

TEST_CASE("files of text may be named by directories, globs and braces too", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string text = "Some text that goes on for a while, so that there is a sequence.\n";
  for (const char* name : {"a.txt", "b.txt", "c.txt"}) directory.write(name, text);
  const std::string root = directory.path().string();
  const auto sequences = [&](const std::vector<std::string>& files) {
    DatasetConfig config;
    config.source =
        TextLmConfig{.train = {.files = files}, .tokenizer = "bytes", .seq_len = 8, .cache_dir = root + "/.cache"};
    return build(config, {}).train->num_samples();
  };
  const std::int64_t one = sequences({root + "/a.txt"});
  CHECK(sequences({root}) > 2 * one);
  CHECK(sequences({root + "/*.txt"}) == sequences({root}));
  CHECK(sequences({root + "/{a,b}.txt", root + "/c.txt"}) == sequences({root}));
  CHECK_THAT(error_of([&] { sequences({root + "/*.text"}); }), Contains("dataset.train.files: no file matches"));
}

}  // namespace trainctl::dataset::file_list_test
