// Nodes that do not run compiled, as text and as data: grouped by operator and reason, so that a hundred alike are one line.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "driver/executor.h"

namespace isomer::tool {

nlohmann::ordered_json node_list(const std::vector<driver::NodeReport>& report);
// "3 nodes by reference kernels, 1 driven round by round with compiled bodies"; "" of none.
std::string node_counts(const std::vector<driver::NodeReport>& report);
std::string node_lines(const std::vector<driver::NodeReport>& report);

}  // namespace isomer::tool
