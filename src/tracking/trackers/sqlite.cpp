#include "tracking/trackers/sqlite.h"

#include <sqlite3.h>

#include "core/error.h"
#include "tracking/trackers/shared_library.h"

namespace trainctl::tracking {
namespace {

/// The functions of SQLite that we call.
struct SqliteFunctions {
  decltype(sqlite3_open_v2)* open_v2;
  decltype(sqlite3_close)* close;
  decltype(sqlite3_errmsg)* errmsg;
  decltype(sqlite3_busy_timeout)* busy_timeout;
  decltype(sqlite3_exec)* exec;
  decltype(sqlite3_prepare_v2)* prepare_v2;
  decltype(sqlite3_bind_int64)* bind_int64;
  decltype(sqlite3_bind_text)* bind_text;
  decltype(sqlite3_step)* step;
  decltype(sqlite3_column_text)* column_text;
  decltype(sqlite3_finalize)* finalize;
};

const SqliteFunctions& sqlite() {
  static const SqliteFunctions functions = [] {
    const SharedLibrary library("libsqlite3.so.0", "libsqlite3-0");
    SqliteFunctions found{};
    library.find("sqlite3_open_v2", found.open_v2);
    library.find("sqlite3_close", found.close);
    library.find("sqlite3_errmsg", found.errmsg);
    library.find("sqlite3_busy_timeout", found.busy_timeout);
    library.find("sqlite3_exec", found.exec);
    library.find("sqlite3_prepare_v2", found.prepare_v2);
    library.find("sqlite3_bind_int64", found.bind_int64);
    library.find("sqlite3_bind_text", found.bind_text);
    library.find("sqlite3_step", found.step);
    library.find("sqlite3_column_text", found.column_text);
    library.find("sqlite3_finalize", found.finalize);
    return found;
  }();
  return functions;
}

/// A prepared statement, released at the end of its scope.
struct PreparedStatement {
  sqlite3_stmt* handle = nullptr;
  ~PreparedStatement() { sqlite().finalize(handle); }
};

}  // namespace

SqliteDatabase::SqliteDatabase(const std::filesystem::path& path, int wait_ms) : path_(path) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (sqlite().open_v2(path_.c_str(), &database_, flags, nullptr) != SQLITE_OK) {
    const std::string reason = database_ == nullptr ? "out of memory" : sqlite().errmsg(database_);
    sqlite().close(database_);
    throw core::Error("cannot open " + path_.string() + ": " + reason);
  }
  sqlite().busy_timeout(database_, wait_ms);
}

SqliteDatabase::~SqliteDatabase() {
  sqlite().close(database_);
}

void SqliteDatabase::fail(const std::string& statement) const {
  throw core::Error("cannot write " + path_.string() + ": " + sqlite().errmsg(database_) + ", in " +
                    statement.substr(0, 60));
}

void SqliteDatabase::execute(const std::string& statements) {
  if (sqlite().exec(database_, statements.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(statements);
}

std::vector<std::string> SqliteDatabase::run(const std::string& statement, const std::vector<SqlValue>& values) {
  PreparedStatement prepared;
  if (sqlite().prepare_v2(database_, statement.c_str(), -1, &prepared.handle, nullptr) != SQLITE_OK) fail(statement);
  int index = 0;
  for (const SqlValue& value : values) {
    ++index;
    const auto* text = std::get_if<std::string>(&value);
    const int code = text == nullptr ? sqlite().bind_int64(prepared.handle, index, std::get<std::int64_t>(value))
                                     : sqlite().bind_text(prepared.handle, index, text->c_str(),
                                                          static_cast<int>(text->size()), SQLITE_STATIC);
    if (code != SQLITE_OK) fail(statement);
  }
  std::vector<std::string> rows;
  int code = SQLITE_ROW;
  while ((code = sqlite().step(prepared.handle)) == SQLITE_ROW) {
    const unsigned char* text = sqlite().column_text(prepared.handle, 0);
    rows.emplace_back(text == nullptr ? "" : reinterpret_cast<const char*>(text));
  }
  if (code != SQLITE_DONE) fail(statement);
  return rows;
}

}  // namespace trainctl::tracking
