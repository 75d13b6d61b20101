#include "driver/verdict.h"

#include <nlohmann/json.hpp>

namespace isomer::driver {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kVerdictFormat = "isomer verdict";
constexpr int kVerdictVersion = 2;

Json written(const Figures& f) {
  return {f.operators, f.parameters, f.kernels, f.estimated, f.priced, f.measured, f.weight_bytes, f.arena_bytes};
}

Json written(const std::vector<OutputError>& errors) {
  Json out = Json::array();
  for (const OutputError& e : errors) out.push_back({e.name, e.of_largest, e.exact});
  return out;
}

std::vector<OutputError> read_errors(const Json& j) {
  std::vector<OutputError> out;
  for (const Json& e : j) out.push_back({e.at(0).get<std::string>(), e.at(1).get<double>(), e.at(2).get<bool>()});
  return out;
}

Figures read_figures(const Json& j) {
  Figures f;
  f.operators = j.at(0).get<int64_t>();
  f.parameters = j.at(1).get<int64_t>();
  f.kernels = j.at(2).get<size_t>();
  f.estimated = j.at(3).get<double>();
  f.priced = j.at(4).get<double>();
  f.measured = j.at(5).get<double>();
  f.weight_bytes = j.at(6).get<uint64_t>();
  f.arena_bytes = j.at(7).get<uint64_t>();
  return f;
}

}  // namespace

std::string print(const Verdict& v) {
  return Json{{"format", kVerdictFormat},
              {"version", kVerdictVersion},
              {"result", v.result},
              {"when", v.when},
              {"changed", v.changed},
              {"why_not", v.why_not},
              {"sets", v.input_sets},
              {"errors", written(v.errors)},
              {"own_errors", written(v.own_errors)},
              {"before", written(v.before)},
              {"after", written(v.after)}}
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

// The library throws where a text has another shape than asked for; nothing of that leaves this function.
std::optional<Verdict> parse_verdict(const std::string& text) {
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded() || !j.is_object() || j.value("format", Json()) != kVerdictFormat ||
      j.value("version", Json()) != kVerdictVersion)
    return std::nullopt;
  Verdict v;
  try {
    v.result = j.at("result").get<std::string>();
    v.when = j.at("when").get<int64_t>();
    v.changed = j.at("changed").get<bool>();
    v.why_not = j.at("why_not").get<std::string>();
    v.input_sets = j.at("sets").get<size_t>();
    v.errors = read_errors(j.at("errors"));
    v.own_errors = read_errors(j.at("own_errors"));
    v.before = read_figures(j.at("before"));
    v.after = read_figures(j.at("after"));
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return v;
}

}  // namespace isomer::driver
