// Database: a SQLite connection with the few things the store does with one. Every failure is a code that the store tells
// apart; nothing throws.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct sqlite3;

namespace isomer::cost {

enum class Fault : uint8_t {
  None,
  Busy,      // another process holds it
  ReadOnly,  // cannot be written
  Full,      // no room on the disk
  Damaged,   // not a database, or a broken one
  Version,   // a database, but not of this version
  Other
};

class Database {
 public:
  using Value = std::variant<std::monostate, int64_t, double, std::string>;  // a string is bound and read as a blob
  using Row = std::vector<Value>;

  Database();
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Fault open(const std::string& path, bool write);
  void close();
  bool is_open() const { return db_ != nullptr; }

  Fault run(std::string_view sql, const Row& values = {}, const std::function<void(const Row&)>& row = nullptr);
  int64_t changes() const;
  const std::string& message() const { return message_; }

 private:
  Fault fault(int code);
  Fault run_once(std::string_view sql, const Row& values, const std::function<void(const Row&)>& row, bool& answered);
  sqlite3* db_ = nullptr;
  std::string message_;
};

}  // namespace isomer::cost
