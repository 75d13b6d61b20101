// Store: times of kernels that outlive the process, in one SQLite file that any number of processes may use at once. A time
// is found by the whole of its key, never by a hash alone. The file is bounded: what was used longest ago goes first.
// Invariant: nothing that happens to the file stops its user. A file that is damaged or of another version is renamed, never
// deleted, and a new one begun; one that is locked, read-only or on a full disk is left alone. What cannot be kept is kept in
// memory, and a warning says so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "cost/measure.h"

namespace isomer::cost {

struct StoreLimits {
  int64_t entries = 200000;
  int64_t bytes = int64_t{256} << 20;  // of keys
};

// kernels.db in the folder $ISOMER_STORE, else $XDG_CACHE_HOME/isomer, else ~/.cache/isomer; "-" when $ISOMER_STORE is that or
// there is no home.
std::string standard_store();

struct StoreSummary {
  std::string path;  // "" in memory
  int64_t entries = 0, key_bytes = 0, file_bytes = 0;
  int64_t oldest = 0, newest = 0;  // last use, seconds since 1970
  struct Setting {
    std::string text;
    int64_t entries = 0;
  };
  std::vector<Setting> settings;  // machines, compilers and numbers of threads, most entries first
};

class Store {
 public:
  // `setting` is what the times depend on beside the kernel: machine, compiler, threads. Path "-": memory alone.
  static std::unique_ptr<Store> open(const std::string& path, const std::string& setting, StoreLimits limits = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::optional<Timing> find(const std::string& key);
  void add(const std::string& key, const Timing& timing);
  // Facts about the setting itself, by name.
  std::optional<double> fact(const std::string& name);
  void set_fact(const std::string& name, double value);
  // What long work of this setting came to, by a question that says all of it. The last thousand are kept.
  std::optional<std::string> answer(const std::string& question);
  void set_answer(const std::string& question, const std::string& text);

  bool in_memory() const;
  const std::string& path() const;
  std::vector<Diagnostic> take_warnings();

  // For people; these fail where the ones above warn.
  Expected<StoreSummary> summary();
  Expected<int64_t> clear();                             // entries that are gone
  Expected<void> write_to(const std::string& file);      // a new file
  Expected<int64_t> read_from(const std::string& file);  // entries that are new; those that are known keep their times

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isomer::cost
