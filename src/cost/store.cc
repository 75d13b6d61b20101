#include "cost/store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <unordered_map>

#include "cost/database.h"
#include "cost/store_file.h"

namespace isomer::cost {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDay = 86400;
constexpr int64_t kMostAnswers = 1000;
constexpr size_t kLongestAnswer = size_t{4} << 20;

uint64_t file_number(const std::string& path) {
  struct stat s = {};
  return stat(path.c_str(), &s) == 0 ? s.st_ino : 0;
}

}  // namespace

std::string standard_store() {
  const auto set = [](const char* name) {
    const char* v = std::getenv(name);
    return v && *v ? std::string(v) : std::string();
  };
  if (const std::string own = set("ISOMER_STORE"); !own.empty()) return own == "-" ? own : own + "/kernels.db";
  if (const std::string cache = set("XDG_CACHE_HOME"); !cache.empty()) return cache + "/isomer/kernels.db";
  if (const std::string home = set("HOME"); !home.empty()) return home + "/.cache/isomer/kernels.db";
  return "-";
}

struct Store::Impl {
  std::string path, setting_text;
  StoreLimits limits;
  mutable std::mutex mutex;
  Database db;
  bool writable = true;
  bool stale = false;  // the file was set aside once: a second time it is given up
  uint64_t file = 0;
  int64_t setting = -1;
  std::unordered_map<std::string, Timing> memory;
  std::unordered_map<std::string, double> facts;
  std::unordered_map<std::string, std::string> answers;
  bool keeps_answers = false;  // the file has a table of them
  std::set<int64_t> touched;   // rows whose last use is to be written down
  int64_t added = 0;
  std::vector<Diagnostic> warnings;
  std::set<Fault> warned;

  void start();
  Fault connect();
  Fault find_setting();
  Fault insert(const std::string& key, const Timing& timing);
  void shrink();
  void flush();
  void set_aside(Fault f);
  void handle(Fault f);
  void warn(Fault f, const std::string& consequence);
};

void Store::Impl::warn(Fault f, const std::string& consequence) {
  if (!warned.insert(f).second) return;
  warnings.emplace_back(
      "E-store", fmt::format("the profile store {} {}; {}", isomer::quoted(path), why(f, db.message()), consequence));
}

Fault Store::Impl::connect() {
  std::error_code ignored;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, ignored);
  file = file_number(path);
  if (const Fault f = db.open(path, true); f != Fault::None) return f;
  if (const Fault f = prepare(db, true); f != Fault::None) return f;
  db.run("PRAGMA synchronous = NORMAL");
  file = file_number(path);
  // A table of its own, which files of this version may lack.
  keeps_answers = db.run(
                      "CREATE TABLE IF NOT EXISTS answers (id INTEGER PRIMARY KEY, setting INTEGER, hash TEXT,"
                      " question BLOB, text BLOB)") == Fault::None &&
                  db.run("SELECT id, setting, hash, question, text FROM answers LIMIT 1") == Fault::None;
  return find_setting();
}

Fault Store::Impl::find_setting() {
  setting = -1;
  const auto look = [&] {
    return db.run("SELECT id FROM settings WHERE text = ?", {setting_text},
                  [&](const Database::Row& r) { setting = integer(r[0]); });
  };
  Fault f = look();
  if (f != Fault::None || setting >= 0) return f;
  f = db.run("INSERT OR IGNORE INTO settings (text) VALUES (?)", {setting_text});
  if (f == Fault::ReadOnly) {
    writable = false;
    return Fault::None;
  }
  return f == Fault::None ? look() : f;
}

void Store::Impl::start() {
  Fault f = connect();
  if (f == Fault::Damaged || f == Fault::Version) {
    set_aside(f);
    return;
  }
  if (f == Fault::None) return;
  warn(f, "times are kept in memory");
  db.close();
}

// Another process may have done the same already: only the file that was found bad is renamed.
void Store::Impl::set_aside(Fault f) {
  db.close();
  if (stale) return warn(f, "times are kept in memory");
  stale = true;
  std::string name;
  for (int i = 1; i < 1000; ++i) {
    name = fmt::format("{}.aside-{}", path, i);
    if (!fs::exists(name)) break;
  }
  std::error_code failed;
  if (file_number(path) == file) {
    fs::rename(path, name, failed);
    std::error_code ignored;
    if (!failed)
      for (const char* end : {"-wal", "-shm"}) fs::rename(path + end, name + end, ignored);
  }
  if (failed) return warn(f, "it cannot be renamed, and times are kept in memory");
  warn(f, fmt::format("it is now {}, and a new one is begun", isomer::quoted(name)));
  if (const Fault again = connect(); again != Fault::None) {
    warn(again, "times are kept in memory");
    return db.close();
  }
  for (const auto& [key, timing] : memory) insert(key, timing);
}

void Store::Impl::handle(Fault f) {
  switch (f) {
    case Fault::None: return;
    case Fault::Busy: return warn(f, "some times are not kept");
    case Fault::ReadOnly:
    case Fault::Full: writable = false; return warn(f, "new times are kept in memory");
    case Fault::Damaged:
    case Fault::Version: return set_aside(f);
    case Fault::Other: warn(f, "times are kept in memory"); return db.close();
  }
}

Fault Store::Impl::insert(const std::string& key, const Timing& t) {
  return db.run("INSERT INTO kernels (setting, hash, key, seconds, spread, runs, used) VALUES (?, ?, ?, ?, ?, ?, ?)",
                {setting, hash_text(key), key, t.seconds, t.spread, static_cast<int64_t>(t.runs),
                 static_cast<int64_t>(std::time(nullptr))});
}

// What was used longest ago goes, and some more, so that this is rare.
void Store::Impl::shrink() {
  int64_t count = 0, bytes = 0;
  handle(db.run("SELECT count(*), total(length(key)) FROM kernels", {}, [&](const Database::Row& r) {
    count = integer(r[0]);
    bytes = static_cast<int64_t>(real(r[1]));
  }));
  if (count <= limits.entries && bytes <= limits.bytes) return;
  int64_t keep = std::min(count, limits.entries);
  if (bytes > limits.bytes)
    keep = std::min(keep, static_cast<int64_t>(static_cast<double>(count) * static_cast<double>(limits.bytes) /
                                               static_cast<double>(bytes)));
  keep = keep - keep / 8;
  handle(db.run("DELETE FROM kernels WHERE id IN (SELECT id FROM kernels ORDER BY used, id LIMIT ?)", {count - keep}));
  handle(db.run("PRAGMA incremental_vacuum"));
}

void Store::Impl::flush() {
  if (!db.is_open() || !writable || touched.empty()) return;
  handle(db.run("BEGIN IMMEDIATE"));
  const auto now = static_cast<int64_t>(std::time(nullptr));
  for (const int64_t id : touched) db.run("UPDATE kernels SET used = ? WHERE id = ?", {now, id});
  db.run("COMMIT");
  touched.clear();
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() {
  const std::lock_guard lock(impl_->mutex);
  impl_->flush();
}

std::unique_ptr<Store> Store::open(const std::string& path, const std::string& setting, StoreLimits limits) {
  auto impl = std::make_unique<Impl>();
  impl->path = path.empty() ? standard_store() : path;
  impl->setting_text = setting;
  impl->limits = limits;
  if (impl->path != "-") impl->start();
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

std::optional<Timing> Store::find(const std::string& key) {
  const std::lock_guard lock(impl_->mutex);
  if (const auto it = impl_->memory.find(key); it != impl_->memory.end()) return it->second;
  if (!impl_->db.is_open() || impl_->setting < 0) return std::nullopt;
  std::optional<Timing> found;
  const auto now = static_cast<int64_t>(std::time(nullptr));
  impl_->handle(impl_->db.run(
      "SELECT id, seconds, spread, runs, used FROM kernels WHERE hash = ? AND setting = ? AND key = ? ORDER BY id DESC",
      {hash_text(key), impl_->setting, key}, [&](const Database::Row& r) {
        const Timing t{real(r[1]), real(r[2]), static_cast<size_t>(std::max<int64_t>(0, integer(r[3])))};
        if (!std::isfinite(t.seconds) || t.seconds <= 0) return;
        found = t;  // the last row is the oldest: everybody takes the same
        if (now - integer(r[4]) > kDay) impl_->touched.insert(integer(r[0]));
      }));
  if (found) impl_->memory.emplace(key, *found);
  if (impl_->touched.size() >= 1024) impl_->flush();
  return found;
}

void Store::add(const std::string& key, const Timing& timing) {
  const std::lock_guard lock(impl_->mutex);
  impl_->memory.insert_or_assign(key, timing);
  if (!impl_->db.is_open() || !impl_->writable || impl_->setting < 0) return;
  const Fault f = impl_->insert(key, timing);
  impl_->handle(f);
  const int64_t interval = std::clamp<int64_t>(impl_->limits.entries / 8, 1, 256);
  if (f == Fault::None && ++impl_->added % interval == 0) impl_->shrink();
}

std::optional<double> Store::fact(const std::string& name) {
  const std::lock_guard lock(impl_->mutex);
  if (const auto it = impl_->facts.find(name); it != impl_->facts.end()) return it->second;
  if (!impl_->db.is_open()) return std::nullopt;
  std::optional<double> found;
  impl_->handle(impl_->db.run("SELECT value FROM facts WHERE setting = ? AND name = ?", {impl_->setting, name},
                              [&](const Database::Row& r) { found = real(r[0]); }));
  return found && std::isfinite(*found) ? found : std::nullopt;
}

void Store::set_fact(const std::string& name, double value) {
  const std::lock_guard lock(impl_->mutex);
  impl_->facts[name] = value;
  if (!impl_->db.is_open() || !impl_->writable) return;
  impl_->handle(impl_->db.run("INSERT OR REPLACE INTO facts (setting, name, value) VALUES (?, ?, ?)",
                              {impl_->setting, name, value}));
}

std::optional<std::string> Store::answer(const std::string& question) {
  const std::lock_guard lock(impl_->mutex);
  if (const auto it = impl_->answers.find(question); it != impl_->answers.end()) return it->second;
  if (!impl_->db.is_open() || !impl_->keeps_answers || impl_->setting < 0) return std::nullopt;
  std::optional<std::string> found;
  impl_->handle(impl_->db.run("SELECT text FROM answers WHERE hash = ? AND setting = ? AND question = ? ORDER BY id",
                              {hash_text(question), impl_->setting, question},
                              [&](const Database::Row& r) { found = text(r[0]); }));
  return found;
}

void Store::set_answer(const std::string& question, const std::string& text) {
  const std::lock_guard lock(impl_->mutex);
  if (question.size() + text.size() > kLongestAnswer) return;
  impl_->answers[question] = text;
  if (!impl_->db.is_open() || !impl_->writable || !impl_->keeps_answers || impl_->setting < 0) return;
  impl_->handle(impl_->db.run("INSERT INTO answers (setting, hash, question, text) VALUES (?, ?, ?, ?)",
                              {impl_->setting, hash_text(question), question, text}));
  impl_->handle(impl_->db.run("DELETE FROM answers WHERE id NOT IN (SELECT id FROM answers ORDER BY id DESC LIMIT ?)",
                              {kMostAnswers}));
}

bool Store::in_memory() const {
  const std::lock_guard lock(impl_->mutex);
  return !impl_->db.is_open();
}

const std::string& Store::path() const { return impl_->path; }

std::vector<Diagnostic> Store::take_warnings() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->warnings, {});
}

namespace {

Diagnostic failure(const std::string& path, Fault f, const std::string& message) {
  return {"E-store", fmt::format("the profile store {} {}", isomer::quoted(path), why(f, message))};
}

}  // namespace

Expected<StoreSummary> Store::summary() {
  const std::lock_guard lock(impl_->mutex);
  StoreSummary s;
  if (!impl_->db.is_open()) {
    s.entries = static_cast<int64_t>(impl_->memory.size());
    return s;
  }
  impl_->flush();
  s.path = impl_->path;
  Fault f = impl_->db.run("SELECT count(*), total(length(key)), min(used), max(used) FROM kernels", {},
                          [&](const Database::Row& r) {
                            s.entries = integer(r[0]);
                            s.key_bytes = static_cast<int64_t>(real(r[1]));
                            s.oldest = integer(r[2]);
                            s.newest = integer(r[3]);
                          });
  if (f == Fault::None)
    f = impl_->db.run(
        "SELECT text, count(kernels.id) FROM settings LEFT JOIN kernels ON kernels.setting = settings.id"
        " GROUP BY settings.id ORDER BY 2 DESC, text",
        {}, [&](const Database::Row& r) { s.settings.push_back({text(r[0]), integer(r[1])}); });
  if (f != Fault::None) return failure(impl_->path, f, impl_->db.message());
  std::error_code none;
  const auto bytes = fs::file_size(impl_->path, none);
  s.file_bytes = none ? 0 : static_cast<int64_t>(bytes);
  return s;
}

Expected<int64_t> Store::clear() {
  const std::lock_guard lock(impl_->mutex);
  const auto in_memory = static_cast<int64_t>(impl_->memory.size());
  impl_->memory.clear();
  impl_->facts.clear();
  impl_->answers.clear();
  impl_->touched.clear();
  if (!impl_->db.is_open()) return in_memory;
  Fault f = impl_->db.run("DELETE FROM kernels");
  const int64_t gone = impl_->db.changes();
  if (f == Fault::None) f = impl_->db.run("DELETE FROM facts");
  if (f == Fault::None && impl_->keeps_answers) f = impl_->db.run("DELETE FROM answers");
  if (f == Fault::None) f = impl_->db.run("PRAGMA incremental_vacuum");
  if (f != Fault::None) return failure(impl_->path, f, impl_->db.message());
  return gone;
}

Expected<void> Store::write_to(const std::string& file) {
  const std::lock_guard lock(impl_->mutex);
  if (fs::exists(file))
    return Diagnostic("E-file", fmt::format("{} exists already; name a new file", isomer::quoted(file)));
  if (!impl_->db.is_open()) return Diagnostic("E-store", "there is no profile store to export: it is in memory");
  std::string name;  // as SQL writes a text
  for (const char c : file) name += c == '\'' ? "''" : std::string(1, c);
  const Fault f = impl_->db.run(fmt::format("VACUUM INTO '{}'", name));
  if (f != Fault::None) return failure(file, f, impl_->db.message());
  return {};
}

Expected<int64_t> Store::read_from(const std::string& file) {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->db.is_open()) return Diagnostic("E-store", "there is no profile store to import into: it is in memory");
  if (!fs::is_regular_file(file)) return Diagnostic("E-file", fmt::format("{} is no file", isomer::quoted(file)));
  Database other;
  Fault f = other.open(file, false);
  if (f == Fault::None) f = prepare(other, false);
  if (f != Fault::None) return failure(file, f, other.message());
  Database& db = impl_->db;
  int64_t fresh = 0;
  Fault inner = db.run("BEGIN IMMEDIATE");
  f = other.run(
      "SELECT settings.text, hash, key, seconds, spread, runs, used FROM kernels"
      " JOIN settings ON settings.id = kernels.setting ORDER BY kernels.id",
      {}, [&](const Database::Row& r) {
        const double seconds = real(r[3]);
        if (inner != Fault::None || !std::isfinite(seconds) || seconds <= 0) return;
        const std::string key = text(r[2]);
        inner = db.run("INSERT OR IGNORE INTO settings (text) VALUES (?)", {text(r[0])});
        if (inner == Fault::None)
          inner = db.run(
              "INSERT INTO kernels (setting, hash, key, seconds, spread, runs, used)"
              " SELECT id, ?2, ?3, ?4, ?5, ?6, ?7 FROM settings WHERE text = ?1 AND NOT EXISTS"
              " (SELECT 1 FROM kernels WHERE hash = ?2 AND setting = settings.id AND key = ?3)",
              {text(r[0]), hash_text(key), key, seconds, real(r[4]), integer(r[5]), integer(r[6])});
        fresh += db.changes();
      });
  if (f == Fault::None && inner == Fault::None) inner = db.run("COMMIT");
  if (f == Fault::None && inner == Fault::None) {
    impl_->shrink();
    return fresh;
  }
  const Diagnostic d = f != Fault::None ? failure(file, f, other.message()) : failure(impl_->path, inner, db.message());
  db.run("ROLLBACK");
  return d;
}

}  // namespace isomer::cost
