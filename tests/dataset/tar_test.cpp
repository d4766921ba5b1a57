#include "dataset/shards/tar.h"

#include <zlib.h>

#include <map>

#include "core/file.h"
#include "dataset/shards/shard_index.h"
#include "support/corpus.h"
#include "support/small_files.h"

namespace trainctl::dataset::tar_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string archive(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string tar;
  for (const auto& [name, content] : members)
    tar += tar_header(name, content.size()) + content + tar_padding(content.size());
  return tar + tar_end();
}

std::map<std::string, std::string> read(const std::string& tar) {
  std::map<std::string, std::string> members;
  read_tar(bytes_of(tar), "x.tar",
           [&](const TarMember& member) { members[member.name] = tar.substr(member.offset, member.size); });
  return members;
}

std::string python_tar(const TemporaryDirectory& directory, const std::string& format) {
  const std::string path = (directory.path() / (format + ".tar")).string();
  const std::string script =
      "import io, sys, tarfile\n"
      "t = tarfile.open(sys.argv[1], 'w', format=getattr(tarfile, sys.argv[2]))\n"
      "def add(name, data):\n"
      "  i = tarfile.TarInfo(name); i.size = len(data); i.mtime = 1.5; t.addfile(i, io.BytesIO(data))\n"
      "d = tarfile.TarInfo('folder'); d.type = tarfile.DIRTYPE; t.addfile(d)\n"
      "add('short.cls', b'7')\n"
      "add('folder/' + 'n' * 90 + '/' + 'm' * 90 + '.jpg', b'x' * 700)\n"
      "l = tarfile.TarInfo('link'); l.type = tarfile.SYMTYPE; l.linkname = 'k' * 150 if sys.argv[2] != 'USTAR_FORMAT' "
      "else 'k'; t.addfile(l)\n"
      "add('after.cls', b'')\n"
      "if sys.argv[2] != 'USTAR_FORMAT':\n"
      "  add('d' * 300 + '/\\u00fc.json', b'{}')\n"
      "t.close()\n";
  const std::string file = directory.write(format + ".py", script);
  const std::string command = "'" TRAINCTL_PYTHON "' '" + file + "' '" + path + "' " + format;
  REQUIRE(std::system(command.c_str()) == 0);
  return core::read_file(path);
}

}  // namespace

TEST_CASE("a tar archive that was written is read back", "[dataset]") {
  const std::string long_name = std::string(180, 'a') + "/" + std::string(180, 'b') + ".jpg";
  const std::string tar = archive({{"a.jpg", "picture"}, {"a.cls", ""}, {long_name, std::string(1024, 'z')}});
  const auto members = read(tar);
  REQUIRE(members.size() == 3);
  CHECK(members.at("a.jpg") == "picture");
  CHECK(members.at("a.cls").empty());
  CHECK(members.at(long_name) == std::string(1024, 'z'));
  CHECK(tar == archive({{"a.jpg", "picture"}, {"a.cls", ""}, {long_name, std::string(1024, 'z')}}));
}

TEST_CASE("archives of Python's tarfile are read: ustar prefixes, pax headers, GNU long names", "[dataset]") {
  const TemporaryDirectory directory;
  for (const std::string format : {"USTAR_FORMAT", "PAX_FORMAT", "GNU_FORMAT"}) {
    INFO(format);
    const auto members = read(python_tar(directory, format));
    CHECK(members.at("short.cls") == "7");
    CHECK(members.at("folder/" + std::string(90, 'n') + "/" + std::string(90, 'm') + ".jpg") == std::string(700, 'x'));
    CHECK(members.at("after.cls").empty());
    CHECK(members.count("link") == 0);
    if (format != "USTAR_FORMAT") CHECK(members.at(std::string(300, 'd') + "/\u00fc.json") == "{}");
    CHECK(members.size() == (format == "USTAR_FORMAT" ? 3U : 4U));
  }
}

TEST_CASE("archives of a conformance corpus have the files that Python's tarfile reads, or are refused",
          "[dataset][reference]") {
  compare_corpus("tar", [](const std::string& tar, const std::string& path) {
    nlohmann::json members = nlohmann::json::array();
    read_tar(bytes_of(tar), path, [&](const TarMember& member) {
      std::string name;
      for (const char c : member.name) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        name += digits;
      }
      const auto* const content = reinterpret_cast<const Bytef*>(tar.data() + member.offset);
      members.push_back(nlohmann::json::array({name, member.size, crc32(0, content, static_cast<uInt>(member.size))}));
    });
    return members;
  });
}

TEST_CASE("an archive cut anywhere names the file and the byte, and never what isn't there", "[dataset]") {
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < 12; ++i)
    members.emplace_back(std::to_string(i) + ".jpg", std::string(700 * static_cast<std::size_t>(i), 'x'));
  members.emplace_back(std::string(200, 'n') + ".jpg", "long");
  const std::string whole = archive(members);
  std::size_t tried = 0;
  std::size_t refused = 0;
  for (std::size_t size = 0; size < whole.size() - 512; size += size % 1024 == 0 && size > 4096 ? 511 : 1) {
    // A copy of just that size, so that a sanitizer sees any read beyond it.
    const std::string cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    std::uint64_t furthest = 0;
    const std::string error = error_of([&] {
      read_tar(bytes_of(cut), "shard-007.tar",
               [&](const TarMember& member) { furthest = std::max(furthest, member.offset + member.size); });
    });
    const bool is_named = error.find("shard-007.tar is damaged at byte") != std::string::npos && furthest <= size;
    if (!is_named) WARN("of " << size << " bytes: " << error);
    ++tried;
    refused += is_named ? 1 : 0;
  }
  CHECK(refused == tried);
}

TEST_CASE("damaged and compressed archives are refused with the reason", "[dataset]") {
  const std::string whole = archive({{"a.jpg", std::string(600, 'a')}, {"b.jpg", "b"}});
  std::string flipped = whole;
  flipped[1536 + 3] ^= 1;  // the second header's name
  CHECK_THAT(error_of([&] { read(flipped); }), Contains("damaged at byte 1,536") && Contains("checksum is wrong"));
  CHECK_THAT(error_of([&] { read(std::string(2000, 'q')); }), Contains("this is no tar archive"));
  CHECK_THAT(error_of([&] { read(gzip(whole)); }), Contains("is compressed (gzip)"));
  CHECK_THAT(error_of([&] { read("\x28\xb5\x2f\xfdrest"); }), Contains("zstandard"));
  for (std::size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(0xff);
    error_of([&] { read(damaged); });
  }
}

TEST_CASE("pax headers for all members are obeyed, and what they make of sparse files is refused",
          "[dataset][regression]") {
  const auto header = [](char type, const std::string& records) {
    std::string made = tar_header("pax", records.size());
    const unsigned before = static_cast<unsigned char>(made[156]);
    made[156] = type;
    unsigned sum = 0;
    std::sscanf(made.substr(148, 6).c_str(), "%o", &sum);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum + static_cast<unsigned char>(type) - before);
    made.replace(148, 6, digits);
    return made + records + tar_padding(records.size());
  };
  const std::string member = tar_header("a.jpg", 5) + "image" + tar_padding(5);
  CHECK(read(header('g', "14 path=b.jpg\n") + member + tar_end()).contains("b.jpg"));
  CHECK(read(header('g', "14 path=b.jpg\n") + header('x', "14 path=c.jpg\n") + member + tar_end()).contains("c.jpg"));
  CHECK(read(header('X', "14 path=b.jpg\n") + member + tar_end()).contains("b.jpg"));
  CHECK(read(header('V', "") + header('D', "Ya.jpg") + member + tar_end()).size() == 1);
  CHECK_THAT(error_of([&] { read(header('x', "22 GNU.sparse.major=1\n") + member + tar_end()); }),
             Contains("'a.jpg' is a sparse file"));
  CHECK_THAT(
      error_of([&] { read(header('x', "14 path=b.jpg\n") + header('x', "14 path=c.jpg\n") + member + tar_end()); }),
      Contains("two names or sizes"));
}

TEST_CASE("members of one name are a sample, with a class from a number, a name, or JSON", "[dataset]") {
  const ShardMembers plain{.image = {"jpg", "png"}, .label = "cls", .label_member = "label"};
  const std::string tar = archive({{"d.x/1.png", "PNG"},
                                   {"d.x/1.jpg", "JPEG"},
                                   {"d.x/1.cls", " 3\n"},
                                   {"README", "no sample"},
                                   {"d.x/2.seg.png", "mask"},
                                   {"d.x/2.JPG", "J"},
                                   {"d.x/2.cls", "cat"}});
  const TemporaryDirectory directory;
  const std::string path = directory.write("s.tar", tar);
  for (const char* round : {"first", "from its cache"}) {
    INFO(round);
    const ShardIndex index = ShardIndex::open(path, bytes_of(tar), plain, directory.path() / "cache");
    REQUIRE(index.samples().size() == 2);
    CHECK(index.key(index.samples()[0]) == "d.x/1");
    CHECK(index.samples()[0].label == 3);
    CHECK(tar.substr(index.samples()[0].image_offset, index.samples()[0].image_bytes) == "JPEG");
    REQUIRE(index.samples()[1].label < kNoLabel);
    CHECK(index.label_names().at(ShardIndex::name_of(index.samples()[1].label)) == "cat");
  }
  const auto error = [&](const std::vector<std::pair<std::string, std::string>>& members, const ShardMembers& what) {
    const std::string bytes = archive(members);
    return error_of([&] { ShardIndex::open("s.tar", bytes_of(bytes), what, {}); });
  };
  CHECK_THAT(error({{"1.cls", "3"}}, plain), Contains("sample '1' (at byte 512) has no image"));
  CHECK_THAT(error({{"1.jpg", ""}, {"2.cls", "3"}}, plain), Contains("sample '1'") && Contains("has no label"));
  CHECK_THAT(error({{"1.jpg", ""}, {"1.cls", "-3"}}, plain), Contains("is '-3'"));
  CHECK_THAT(error({{"1.jpg", ""}, {"1.cls", ""}}, plain), Contains("a class number or a name"));
  ShardMembers json = plain;
  json.label = "json";
  CHECK(error({{"1.jpg", ""}, {"1.json", R"({"label": 4})"}}, json) == "no error");
  CHECK_THAT(error({{"1.jpg", ""}, {"1.json", R"({"class": 4})"}}, json), Contains("has no member 'label'"));
  CHECK_THAT(error({{"1.jpg", ""}, {"1.json", "{"}}, json), Contains("is no JSON object"));
  CHECK_THAT(error({{"1.jpg", ""}, {"1.json", R"({"label": 18446744073709551616})"}}, json),
             Contains("a number of more than 64 bits"));
}

TEST_CASE("a damaged index file is made anew", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string tar = archive({{"1.jpg", "J"}, {"1.cls", "3"}, {"2.jpg", "K"}, {"2.cls", "dog"}});
  const std::string path = directory.write("s.tar", tar);
  const ShardMembers members{.image = {"jpg"}, .label = "cls", .label_member = "label"};
  const auto open = [&] { return ShardIndex::open(path, bytes_of(tar), members, directory.path() / "cache"); };
  open();
  const auto file = std::filesystem::directory_iterator(directory.path() / "cache")->path();
  const std::string good = core::read_file(file);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    core::write_file_atomically(file, i % 2 == 0 ? damaged : good.substr(0, i));
    REQUIRE(open().samples().size() == 2);
    REQUIRE(open().label_names() == std::vector<std::string>{"dog"});
  }
}

}  // namespace trainctl::dataset::tar_test
