#include "cost/database.h"

#include <sqlite3.h>

#include <chrono>
#include <thread>

namespace isomer::cost {
namespace {

constexpr int kWaitMilliseconds = 4000;

Fault fault_of(int code) {
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW: return Fault::None;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return Fault::Busy;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return Fault::ReadOnly;
    case SQLITE_FULL: return Fault::Full;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Fault::Damaged;
    default: return Fault::Other;
  }
}

Database::Value column(sqlite3_stmt* s, int i) {
  switch (sqlite3_column_type(s, i)) {
    case SQLITE_INTEGER: return static_cast<int64_t>(sqlite3_column_int64(s, i));
    case SQLITE_FLOAT: return sqlite3_column_double(s, i);
    case SQLITE_TEXT:
    case SQLITE_BLOB: {
      const void* data = sqlite3_column_blob(s, i);
      const auto size = static_cast<size_t>(sqlite3_column_bytes(s, i));
      return data ? std::string(static_cast<const char*>(data), size) : std::string();
    }
    default: return std::monostate();
  }
}

int bind(sqlite3_stmt* s, int i, const Database::Value& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) return sqlite3_bind_int64(s, i, *n);
  if (const auto* d = std::get_if<double>(&value)) return sqlite3_bind_double(s, i, *d);
  if (const auto* t = std::get_if<std::string>(&value))
    return sqlite3_bind_blob64(s, i, t->data(), t->size(), SQLITE_TRANSIENT);
  return sqlite3_bind_null(s, i);
}

}  // namespace

Database::Database() = default;
Database::~Database() { close(); }

void Database::close() {
  if (db_) sqlite3_close_v2(db_);
  db_ = nullptr;
}

Fault Database::fault(int code) {
  message_ = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
  return fault_of(code);
}

Fault Database::open(const std::string& path, bool write) {
  close();
  const int flags = (write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_FULLMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &db_, flags, nullptr);
  if (code != SQLITE_OK) {
    const Fault f = fault(code);
    close();
    return f;
  }
  sqlite3_busy_timeout(db_, kWaitMilliseconds);
  // The file may come from anywhere: it holds data, and nothing in it is executed.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  return Fault::None;
}

Fault Database::run(std::string_view sql, const Row& values, const std::function<void(const Row&)>& row) {
  if (!db_) return Fault::Other;
  // SQLite's own waiting leaves out what might be a deadlock, such as two processes that begin a file together.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMilliseconds);
  for (;;) {
    bool answered = false;
    const Fault f = run_once(sql, values, row, answered);
    const bool again = f == Fault::Busy && !answered && sqlite3_get_autocommit(db_);
    if (!again || std::chrono::steady_clock::now() >= end) return f;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Fault Database::run_once(std::string_view sql, const Row& values, const std::function<void(const Row&)>& row,
                         bool& answered) {
  sqlite3_stmt* s = nullptr;
  int code = sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &s, nullptr);
  for (size_t i = 0; code == SQLITE_OK && i < values.size(); ++i) code = bind(s, static_cast<int>(i) + 1, values[i]);
  if (code == SQLITE_OK) {
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
      answered = true;
      if (!row) continue;
      Row out;
      for (int i = 0; i < sqlite3_column_count(s); ++i) out.push_back(column(s, i));
      row(out);
    }
  }
  const Fault f = fault(code);
  sqlite3_finalize(s);
  return f;
}

int64_t Database::changes() const { return db_ ? sqlite3_changes64(db_) : 0; }

}  // namespace isomer::cost
