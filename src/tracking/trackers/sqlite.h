// A SQLite database, by the system's library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

struct sqlite3;

namespace trainctl::tracking {

using SqlValue = std::variant<std::int64_t, std::string>;

class SqliteDatabase {
 public:
  /// Opens the file, which is made if it is missing. A statement waits at most `wait_ms` for other processes.
  SqliteDatabase(const std::filesystem::path& path, int wait_ms);
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;
  ~SqliteDatabase();

  /// Runs statements without values.
  void execute(const std::string& statements);
  /// Runs a statement with a value for each `?`. Returns the first column of its rows as text.
  std::vector<std::string> run(const std::string& statement, const std::vector<SqlValue>& values = {});

 private:
  [[noreturn]] void fail(const std::string& statement) const;

  std::filesystem::path path_;
  sqlite3* database_ = nullptr;
};

}  // namespace trainctl::tracking
