#include "driver/considered_json.h"

#include <string>

#include <nlohmann/json.hpp>

namespace isomer::driver {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<search::Considered>& all) {
  Json out = Json::array();
  for (const search::Considered& c : all) {
    Json best = Json::array();
    for (const search::LeftCase& l : c.best)
      best.push_back({{"why", name(l.why)},
                      {"regions", l.regions},
                      {"before", l.before},
                      {"best", l.best},
                      {"change", l.change},
                      {"with", l.with},
                      {"nodes", l.nodes}});
    out.push_back({{"rule", c.rule}, {"places", c.places}, {"regions", c.regions}, {"best", best}});
  }
  return out;
}

std::vector<search::Considered> considered_of(const Json& json) {
  std::vector<search::Considered> out;
  for (const Json& c : json) {
    search::Considered one{
        c.at("rule").get<std::string>(), c.at("places").get<size_t>(), c.at("regions").get<size_t>(), {}};
    for (const Json& l : c.at("best"))
      one.best.push_back({search::why_not_of(l.at("why").get<std::string>()).value_or(search::WhyNot::NoTime),
                          l.at("regions").get<size_t>(), l.at("before").get<double>(), l.at("best").get<double>(),
                          l.at("change").get<double>(), l.at("with").get<std::vector<std::string>>(),
                          l.at("nodes").get<std::vector<std::string>>()});
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace isomer::driver
