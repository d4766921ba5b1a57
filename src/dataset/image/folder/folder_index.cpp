#include "dataset/image/folder/folder_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/image/folder/folder_walk.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr char kFolderMagic[24] = "trainctl image folder 3";

std::uint64_t key_of_request(const FolderRequest& request) {
  std::string text =
      fs::weakly_canonical(request.directory).string() + '\0' + std::to_string(static_cast<int>(request.classes));
  for (const std::string& extension : request.extensions) text += '\0' + extension;
  return runtime::key_of(text);
}

template <class T>
std::string_view raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

class FolderIndexWriter {
 public:
  FolderIndexWriter(const FolderWalk& walk, const fs::path& directory)
      : walk_(walk), watch_(watch_files(static_cast<std::int64_t>(walk.file_ends.size()), [&](std::int64_t file) {
          return directory / walk.path(static_cast<std::size_t>(file));
        })) {}

  void write(const fs::path& file, std::uint64_t key) {
    put_texts();
    FolderIndex::Header header{.magic = {},
                               .key = key,
                               .num_files = static_cast<std::int64_t>(walk_.file_ends.size()),
                               .num_folders = static_cast<std::int64_t>(folders_.size()),
                               .num_classes = static_cast<std::int64_t>(class_ends_.size()),
                               .num_watched = static_cast<std::int64_t>(watch_.files.size()),
                               .text_bytes = static_cast<std::int64_t>(text_.size() + walk_.file_names.size()),
                               .num_others = walk_.num_others,
                               .fingerprint = {}};
    std::memcpy(header.magic, kFolderMagic, sizeof kFolderMagic);
    std::memcpy(header.fingerprint, fingerprint().data(), sizeof header.fingerprint);
    // Beside its place, so that runs that start together don't see a part.
    const fs::path beside = file.string() + "." + core::unique_digits();
    core::FileWriter writer(beside);
    writer.write({reinterpret_cast<const char*>(&header), sizeof header});
    writer.write(raw_bytes(folders_));
    writer.write(raw_bytes(class_ends_));
    writer.write(raw_bytes(watch_.files));
    for (const std::uint64_t end : walk_.file_ends) put_end(end, writer);
    writer.write(raw_bytes(pending_));
    writer.write(raw_bytes(walk_.file_folders));
    writer.write(text_);
    writer.write(walk_.file_names);
    writer.close(core::Durability::process);
    fs::rename(beside, file);
  }

 private:
  void put_texts() {
    for (const std::string& name : walk_.classes) {
      text_ += name;
      class_ends_.push_back(text_.size());
    }
    for (const FolderWalk::Folder& folder : walk_.folders) {
      text_ += folder.path;
      folders_.push_back({text_.size(), folder.changed_ns, folder.label, 0});
    }
  }

  /// Adds the end of a name, counted from the text's begin. Ends are written in pieces, so that memory holds no second
  /// list of all files.
  void put_end(std::uint64_t end, core::FileWriter& writer) {
    pending_.push_back(text_.size() + end);
    if (pending_.size() < 4096) return;
    writer.write(raw_bytes(pending_));
    pending_.clear();
  }

  std::string fingerprint() const {
    core::Checksum sum;
    const auto add = [&](std::string_view bytes) { sum.update(std::as_bytes(std::span(bytes))); };
    add(std::string_view(text_));
    for (const FolderIndex::Folder& folder : folders_) add(std::to_string(folder.label) + ' ');
    add(raw_bytes(walk_.file_folders));
    add(raw_bytes(walk_.file_ends));
    add(walk_.file_names);
    add(watch_.content);
    return sum.digest();
  }

  const FolderWalk& walk_;
  FolderChangeDetector watch_;
  std::string text_;  // of classes and folders
  std::vector<std::uint64_t> class_ends_;
  std::vector<FolderIndex::Folder> folders_;
  std::vector<std::uint64_t> pending_;
};

FolderIndex::FolderIndex(const fs::path& file) : file_(file) {}

const FolderIndex::Folder* FolderIndex::folders() const {
  return reinterpret_cast<const Folder*>(&header() + 1);
}
const std::uint64_t* FolderIndex::class_ends() const {
  return reinterpret_cast<const std::uint64_t*>(folders() + header().num_folders);
}
const WatchedFile* FolderIndex::watched() const {
  return reinterpret_cast<const WatchedFile*>(class_ends() + header().num_classes);
}
const std::uint64_t* FolderIndex::name_ends() const {
  return reinterpret_cast<const std::uint64_t*>(watched() + header().num_watched);
}
const std::uint32_t* FolderIndex::folder_of_file() const {
  return reinterpret_cast<const std::uint32_t*>(name_ends() + header().num_files);
}
const char* FolderIndex::text() const {
  return reinterpret_cast<const char*>(folder_of_file() + header().num_files);
}

std::vector<std::string> FolderIndex::classes() const {
  std::vector<std::string> names;
  std::uint64_t begin = 0;
  for (std::int64_t i = 0; i < header().num_classes; begin = class_ends()[i++])
    names.emplace_back(text() + begin, text() + class_ends()[i]);
  return names;
}

std::int64_t FolderIndex::label(std::int64_t image) const {
  return folders()[folder_of_file()[image]].label;
}

std::string_view FolderIndex::folder_name(std::int64_t folder) const {
  const std::uint64_t last_class = header().num_classes == 0 ? 0 : class_ends()[header().num_classes - 1];
  const std::uint64_t begin = folder == 0 ? last_class : folders()[folder - 1].name_end;
  return {text() + begin, folders()[folder].name_end - begin};
}

std::string FolderIndex::path(std::int64_t image) const {
  const std::uint64_t begin = image == 0 ? folders()[header().num_folders - 1].name_end : name_ends()[image - 1];
  const std::string_view name(text() + begin, name_ends()[image] - begin);
  const std::string_view folder = folder_name(folder_of_file()[image]);
  return folder.empty() ? std::string(name) : std::string(folder) + '/' + std::string(name);
}

bool FolderIndex::is_current(std::uint64_t key, const fs::path& directory) const {
  return is_whole(key) && is_unchanged(directory);
}

bool FolderIndex::is_whole(std::uint64_t key) const {
  const std::uint64_t size = file_.bytes().size();
  if (size < sizeof(Header) || std::memcmp(header().magic, kFolderMagic, sizeof kFolderMagic) != 0 ||
      header().key != key)
    return false;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // so that the sum can't overflow
  for (const std::int64_t count :
       {header().num_files, header().num_folders, header().num_classes, header().num_watched, header().text_bytes})
    if (count < 1 || count > kMost) return false;
  const auto u = [](std::int64_t count) { return static_cast<std::uint64_t>(count); };
  if (size != sizeof(Header) + u(header().num_folders) * sizeof(Folder) + u(header().num_classes) * 8 +
                  u(header().num_watched) * sizeof(WatchedFile) + u(header().num_files) * 12 + u(header().text_bytes))
    return false;
  if (header().num_watched > header().num_files || header().num_others < 0) return false;
  std::uint64_t last = 0;
  const auto follows = [&](std::uint64_t end) { return std::exchange(last, end) <= end; };
  for (std::int64_t i = 0; i < header().num_classes; ++i)
    if (!follows(class_ends()[i])) return false;
  for (std::int64_t i = 0; i < header().num_folders; ++i)
    if (!follows(folders()[i].name_end) || folders()[i].label >= header().num_classes) return false;
  for (std::int64_t i = 0; i < header().num_files; ++i)
    if (!follows(name_ends()[i]) || folder_of_file()[i] >= header().num_folders) return false;
  return last == u(header().text_bytes);
}

bool FolderIndex::is_unchanged(const fs::path& directory) const {
  for (std::int64_t i = 0; i < header().num_folders; ++i)
    if (changed_ns(directory / folder_name(i)) != folders()[i].changed_ns) return false;
  return are_unchanged({watched(), static_cast<std::size_t>(header().num_watched)}, size(),
                       [&](std::int64_t image) { return directory / path(image); });
}

namespace {

FolderIndex open_index(const FolderRequest& request, const std::function<void(const std::string&)>& tell) {
  const std::uint64_t key = key_of_request(request);
  const fs::path file = request.cache_dir / ("images-" + core::checksum(std::to_string(key)) + ".index");
  if (fs::exists(file)) {
    FolderIndex index(file);
    if (index.is_current(key, request.directory)) return index;
  }
  if (tell) tell("looking through " + request.directory.string() + " for images");
  fs::create_directories(request.cache_dir);
  const FolderWalk walk = walk_folder(request);
  FolderIndexWriter(walk, request.directory).write(file, key);
  return FolderIndex(file);
}

}  // namespace

FolderIndex open_folder(const FolderRequest& request, const std::function<void(const std::string&)>& tell) {
  FolderIndex index = open_index(request, tell);
  if (tell && index.num_others() > 0)
    tell(request.directory.string() + ": " + core::format_count(index.num_others()) +
         (index.num_others() == 1 ? " file ends" : " files end") + " otherwise than " +
         core::list_words(request.extensions, "or") + " and " + (index.num_others() == 1 ? "is" : "are") +
         " passed over (dataset.extensions)");
  return index;
}

}  // namespace trainctl::dataset
