#include "driver/rule_files.h"

#include <cstdlib>
#include <filesystem>

#include "ops/table.h"

namespace isomer::driver {

std::string rules_folder() {
  namespace fs = std::filesystem;
  if (const char* set = std::getenv("ISOMER_RULES"); set && *set) return set;
  std::error_code error;
  const fs::path tool = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path shared = tool.parent_path().parent_path() / "share" / "isomer" / "rules";
    if (fs::is_directory(shared, error)) return shared.string();
  }
  return ISOMER_RULES_DIR;
}

Expected<rewrite::RuleLibrary> load_rule_library(const std::string& path, rewrite::Trust trust) {
  return rewrite::load_rules(path.empty() ? rules_folder() : path, ops::table(), trust);
}

}  // namespace isomer::driver
