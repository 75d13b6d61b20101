#include "cost/store_file.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace isomer::cost {
namespace {

constexpr int64_t kApplication = 0x49736f6d;  // "Isom"
constexpr int64_t kVersion = 2;

}  // namespace

int64_t integer(const Database::Value& v) {
  const auto* n = std::get_if<int64_t>(&v);
  return n ? *n : 0;
}
double real(const Database::Value& v) {
  if (const auto* d = std::get_if<double>(&v)) return *d;
  return static_cast<double>(integer(v));
}
std::string text(const Database::Value& v) {
  const auto* t = std::get_if<std::string>(&v);
  return t ? *t : std::string();
}

std::string hash_text(const std::string& key) { return hash_bytes(key.data(), key.size()).hex(); }

Fault prepare(Database& db, bool write) {
  int64_t application = 0, version = 0, tables = 0;
  // One state of the file, whoever begins it at the same time.
  Fault f = db.run("BEGIN");
  if (f != Fault::None) return f;
  f = db.run("PRAGMA application_id", {}, [&](const Database::Row& r) { application = integer(r[0]); });
  if (f == Fault::None) f = db.run("PRAGMA user_version", {}, [&](const Database::Row& r) { version = integer(r[0]); });
  if (f == Fault::None)
    f = db.run("SELECT count(*) FROM sqlite_schema", {}, [&](const Database::Row& r) { tables = integer(r[0]); });
  db.run("ROLLBACK");
  if (f != Fault::None) return f;
  if (tables > 0 || application != 0) {
    if (application != kApplication || version != kVersion) return Fault::Version;
    f = db.run("SELECT id, setting, hash, key, seconds, spread, runs, used FROM kernels LIMIT 1");
    if (f == Fault::None) f = db.run("SELECT setting, name, value FROM facts LIMIT 1");
    if (f == Fault::None) f = db.run("SELECT id, text FROM settings LIMIT 1");
    return f == Fault::Other ? Fault::Damaged : f;  // tables of ours without their columns
  }
  if (!write) return Fault::Version;
  const std::string statements[] = {
      "PRAGMA auto_vacuum = INCREMENTAL",
      "PRAGMA journal_mode = WAL",
      "BEGIN IMMEDIATE",
      "CREATE TABLE IF NOT EXISTS settings (id INTEGER PRIMARY KEY, text BLOB UNIQUE)",
      "CREATE TABLE IF NOT EXISTS kernels (id INTEGER PRIMARY KEY, setting INTEGER, hash TEXT, key BLOB,"
      " seconds REAL, spread REAL, runs INTEGER, used INTEGER)",
      "CREATE INDEX IF NOT EXISTS by_hash ON kernels (hash)",
      "CREATE INDEX IF NOT EXISTS by_use ON kernels (used)",
      "CREATE TABLE IF NOT EXISTS facts (setting INTEGER, name BLOB, value REAL, PRIMARY KEY (setting, name))",
      fmt::format("PRAGMA application_id = {}", kApplication),
      fmt::format("PRAGMA user_version = {}", kVersion),
      "COMMIT"};
  for (const std::string& s : statements)
    if (f = db.run(s); f != Fault::None) return f;
  return Fault::None;
}

std::string why(Fault f, const std::string& message) {
  switch (f) {
    case Fault::Busy: return "is locked by another process";
    case Fault::ReadOnly: return "cannot be written";
    case Fault::Full: return "is on a full disk";
    case Fault::Damaged: return "is damaged";
    case Fault::Version: return "is of another version or no profile store";
    case Fault::None:
    case Fault::Other: break;
  }
  return "fails (" + message + ")";
}

}  // namespace isomer::cost
