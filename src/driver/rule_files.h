// Where the rule library lies: $ISOMER_RULES, else share/isomer/rules beside the folder of the tool, else the rules/ of
// the source tree it was built from.
#pragma once

#include <string>

#include "rewrite/library.h"

namespace isomer::driver {

std::string rules_folder();
// `path` may be empty: the folder above.
Expected<rewrite::RuleLibrary> load_rule_library(const std::string& path, rewrite::Trust trust);

}  // namespace isomer::driver
