#include "dataset/text/store/prepare_store.h"

#include <chrono>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/text/store/build_lock.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 3;  // files, of many

std::string fingerprint_of(const StoreSpec& recipe, const SourceChecksums& checksums) {
  std::string text = "store " + std::to_string(kStoreVersion) + " " +
                     std::to_string(static_cast<int>(recipe.layout.kind)) + " " + recipe.reading;
  for (const std::string& file : recipe.files) text += " " + fs::path(file).extension().string() + checksums.of(file);
  return core::checksum(text);
}

/// The steps of one preparation.
class StorePreparation {
 public:
  StorePreparation(const StoreSpec& recipe, fs::path cache_dir, const PrepareOptions& options)
      : recipe_(recipe),
        cache_dir_(std::move(cache_dir)),
        options_(options),
        fingerprint_(fingerprint_of(recipe, SourceChecksums(cache_dir_))),
        directory_(cache_dir_ / fingerprint_) {}

  PreparedStore run() {
    const auto begin = std::chrono::steady_clock::now();
    PreparedStore prepared{.store = find(), .directory = directory_, .outcome = outcome_};
    if (!prepared.store) {
      make();
      prepared.store = std::make_shared<const TokenStore>(directory_);
      prepared.outcome = outcome_;
    }
    for (const std::string& finding : prepared.store->findings()) tell(finding);
    prepared.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return prepared;
  }

 private:
  void tell(const std::string& text) const {
    if (options_.tell) options_.tell(text);
  }

  /// Opens the store; null if there is none, or a damaged one.
  std::shared_ptr<const TokenStore> find() {
    if (!fs::exists(directory_ / "index.json")) return nullptr;
    const StoreCheck check =
        options_.verification == Verification::all_checksums ? StoreCheck::all_checksums : StoreCheck::files_changed;
    try {
      return std::make_shared<const TokenStore>(directory_, check);
    } catch (const core::Error& error) {
      tell(std::string(error.what()) + "; it is made anew");
      outcome_ = Preparation::remade;
      return nullptr;
    }
  }

  void make() {
    try {
      fs::create_directories(cache_dir_);
      remove_abandoned(cache_dir_);
      const PreparationLock lock(cache_dir_, fingerprint_, [&] {
        tell("waiting for another process to tokenise " + core::list_first_words(recipe_.files, kMostNamed));
      });
      if (find()) return;  // by the process that held the lock
      if (outcome_ == Preparation::found) outcome_ = Preparation::made;
      tell("tokenising " + core::list_first_words(recipe_.files, kMostNamed) + " into " + directory_.string());
      write();
    } catch (const fs::filesystem_error& error) {
      throw core::Error("cannot write " + cache_dir_.string() + ": " + error.code().message())
          .hint("set dataset.cache_dir to a directory that can be written");
    }
  }

  /// Refuses files that are no longer those of the fingerprint, so that no store has other content than its name says.
  void check_sources() const {
    if (fingerprint_of(recipe_, SourceChecksums(cache_dir_)) == fingerprint_) return;
    throw core::Error("a file changed while trainctl tokenised " + core::list_first_words(recipe_.files, kMostNamed))
        .hint("run again when no program writes these files");
  }

  void write() {
    check_sources();  // a wait for another process may have been long
    const fs::path unfinished = unfinished_path(cache_dir_, fingerprint_);
    fs::remove_all(unfinished);
    try {
      StoreWriter writer(unfinished, recipe_.layout);
      recipe_.write(writer);
      check_sources();
      writer.finish(fingerprint_);
      fs::remove_all(directory_);  // a damaged one
      fs::rename(unfinished, directory_);
      core::sync_directory(cache_dir_);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(unfinished, ignored);
      throw;
    }
  }

  const StoreSpec& recipe_;
  const fs::path cache_dir_;
  const PrepareOptions& options_;
  const std::string fingerprint_;
  const fs::path directory_;
  Preparation outcome_ = Preparation::found;
};

}  // namespace

PreparedStore prepare_store(const StoreSpec& recipe, const fs::path& cache_dir, const PrepareOptions& options) {
  return StorePreparation(recipe, cache_dir, options).run();
}

}  // namespace trainctl::dataset
