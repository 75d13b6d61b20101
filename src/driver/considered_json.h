// What a search considered and did not take, as JSON: in answers of the tool and in traces.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "search/considered.h"

namespace isomer::driver {

nlohmann::ordered_json to_json(const std::vector<search::Considered>& all);
// Throws the library's exceptions where the shape is another one.
std::vector<search::Considered> considered_of(const nlohmann::ordered_json& json);

}  // namespace isomer::driver
