#include "rewrite/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/mapped_file.h"

namespace isomer::rewrite {
namespace {

Expected<std::vector<std::filesystem::path>> rule_files(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector{path};
  std::vector<fs::path> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".rules") files.push_back(it->path());
  if (error)
    return Diagnostic("E-file",
                      fmt::format("cannot read folder {}: {}", isomer::quoted(path.string()), error.message()));
  if (files.empty())
    return Diagnostic("E-file", fmt::format("folder {} holds no .rules file", isomer::quoted(path.string())));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

const Rule* RuleLibrary::find(std::string_view name) const {
  const auto it = std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == name; });
  return it == rules.end() ? nullptr : &*it;
}

Expected<RuleLibrary> load_rules(const std::filesystem::path& path, const ir::OpTable& table, Trust trust) {
  RuleLibrary library;
  OperatorHashes operators(table);
  std::map<std::string, Location> seen;
  ISOMER_TRY(const auto files, rule_files(path));
  for (const auto& file : files) {
    ISOMER_TRY(const auto mapped, MappedFile::open(file.string()));
    const std::span<const std::byte> bytes = mapped->bytes();
    ISOMER_TRY(std::vector<Rule> rules,
               parse_rules({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, table, file.string(),
                           file.stem().string(), trust == Trust::Judged ? &library.refused : nullptr));
    for (Rule& r : rules) {
      if (const auto [it, fresh] = seen.emplace(r.name, r.where); !fresh) {
        Diagnostic d("E-duplicate-name", fmt::format("two rules are named {}, the other one in {} at line {}",
                                                     isomer::quoted(r.name), it->second.file, it->second.line));
        return std::move(d.at(r.where));
      }
      if (trust == Trust::Proved) ISOMER_CHECK_OK(valid_proof(r, operators));
      library.rules.push_back(std::move(r));
    }
  }
  return library;
}

}  // namespace isomer::rewrite
