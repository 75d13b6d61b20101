#include "driver/trace_file.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "driver/considered_json.h"

namespace isomer::driver {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kTraceFormat = "isomer trace";
constexpr int kTraceVersion = 1;

Json written(const search::Application& a) {
  Json inputs = Json::array();
  for (const ir::Value& v : a.inputs) inputs.push_back({v.node, v.index});
  return {{"rule", a.rule}, {"nodes", a.nodes}, {"inputs", inputs}, {"names", a.names}, {"made", a.added}};
}

}  // namespace

// The library throws where a file has another shape than asked for; nothing of that leaves this function.
Expected<Trace> parse_trace(const std::string& text) {
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded() || !j.is_object() || j.value("format", Json()) != kTraceFormat ||
      j.value("version", Json()) != kTraceVersion)
    return Diagnostic("E-trace", "");
  Trace t;
  try {
    t.model = j.at("model").get<std::string>();
    t.start = j.at("start").get<std::string>();
    t.result = j.at("result").get<std::string>();
    t.labels = j.value("labels", std::string());
    t.considered = considered_of(j.value("considered", Json::array()));
    for (const Json& s : j.at("steps")) {
      search::Step step;
      step.before = s.at("before").get<double>();
      step.after = s.at("after").get<double>();
      step.repeated = s.at("repeated").get<bool>();
      for (const Json& a : s.at("applications")) {
        search::Application made{a.at("rule").get<std::string>(),
                                 a.at("nodes").get<std::vector<uint32_t>>(),
                                 {},
                                 a.at("names").get<std::vector<std::string>>(),
                                 a.at("made").get<std::vector<uint32_t>>()};
        for (const Json& v : a.at("inputs")) made.inputs.push_back({v.at(0).get<uint32_t>(), v.at(1).get<uint32_t>()});
        step.applications.push_back(std::move(made));
      }
      t.steps.push_back(std::move(step));
    }
  } catch (const nlohmann::json::exception&) {
    return Diagnostic("E-trace", "");
  }
  return t;
}

Trace trace_of(const std::string& model, const Optimized& optimized) {
  return {model,
          optimized.start.content_hash().hex(),
          optimized.graph.content_hash().hex(),
          optimized.steps,
          optimized.labels,
          optimized.considered};
}

std::string print(const Trace& trace) {
  Json steps = Json::array();
  for (const search::Step& s : trace.steps) {
    Json applications = Json::array();
    for (const search::Application& a : s.applications) applications.push_back(written(a));
    steps.push_back(
        {{"before", s.before}, {"after", s.after}, {"repeated", s.repeated}, {"applications", applications}});
  }
  Json j = {{"format", kTraceFormat}, {"version", kTraceVersion}, {"model", trace.model},
            {"start", trace.start},   {"result", trace.result},   {"steps", steps}};
  if (!trace.labels.empty()) j["labels"] = trace.labels;
  if (!trace.considered.empty()) j["considered"] = to_json(trace.considered);
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Expected<void> save_trace(const Trace& trace, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << print(trace);
  out.close();
  if (!out) return Diagnostic("E-write", fmt::format("trace {} cannot be written", isomer::quoted(path)));
  return {};
}

Expected<Trace> load_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return Diagnostic("E-read", fmt::format("trace {} cannot be read", isomer::quoted(path)));
  auto trace = parse_trace(text.str());
  if (!trace.ok())
    return Diagnostic("E-trace", fmt::format("{} is no trace of `isomer optimize --trace`, or one of another version",
                                             isomer::quoted(path)));
  return trace;
}

}  // namespace isomer::driver
