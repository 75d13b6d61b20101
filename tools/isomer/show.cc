#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "driver/executor.h"
#include "driver/model.h"
#include "driver/summary.h"
#include "ir/text.h"
#include "isomer/command.h"
#include "isomer/model_options.h"
#include "isomer/node_list.h"
#include "isomer/units.h"

namespace isomer::tool {
namespace {

std::string opsets(const ir::Metadata& m) {
  std::string out;
  for (const auto& [domain, version] : m.opsets)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : printable(domain), version);
  return out.empty() ? "-" : out;
}

std::vector<std::pair<std::string, int64_t>> by_count(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return rows;
}

std::string text(const driver::Model& model, const driver::Summary& s) {
  const ir::Graph& g = model.graph;
  int64_t total = 0;
  for (const auto& [op, n] : s.operators) total += n;
  std::string out = fmt::format("model       {} (graph {})\n", printable(model.source), isomer::quoted(g.name()));
  const ir::Metadata& m = g.metadata();
  out += fmt::format("opset       {}   IR {}   producer {}\n", opsets(m), m.ir_version,
                     m.producer.empty() ? "-" : printable(m.producer));
  for (const ir::Node& n : g.inputs())
    out += fmt::format("input       {:<23} {}\n", printable(n.names[0]), printable(n.types[0].to_string()));
  for (const ir::Output& o : g.outputs())
    out += fmt::format("output      {:<23} {}\n", printable(o.name), printable(g.type(o.value).to_string()));
  out += fmt::format("nodes       {} operators, {} constants\n", total, s.constants);
  out += fmt::format("parameters  {} ({})\n", count(s.parameters), bytes(s.parameter_bytes));
  out += fmt::format("arithmetic  {}\n",
                     s.macs ? count(*s.macs) + " multiply-accumulates" : "open: depends on dynamic dimensions");
  out += fmt::format("activations {}\n", s.activation_bytes ? bytes(*s.activation_bytes) + " alive at most"
                                                            : "open: depends on dynamic dimensions");
  std::vector<std::string> dims;
  for (const std::string& d : s.dynamic_dims) dims.push_back(printable(d));
  out += fmt::format(
      "dynamic     {}\n",
      dims.empty() ? "none" : fmt::format("{}   (set with --dim NAME=N or --shape)", fmt::join(dims, ", ")));
  out += "operators\n";
  for (const auto& [op, n] : by_count(s.operators)) out += fmt::format("  {:<36}{:>7}\n", printable(op), n);
  out += s.unsupported.empty() ? "unsupported none\n" : fmt::format("unsupported {} nodes\n", s.unsupported.size());
  for (const driver::Unsupported& u : s.unsupported)
    out += fmt::format("  {} ({}): {}\n", isomer::quoted(u.node), printable(u.op), u.reason);
  return out;
}

nlohmann::ordered_json data(const driver::Model& model, const driver::Summary& s) {
  const ir::Graph& g = model.graph;
  nlohmann::ordered_json j{{"model", model.source}, {"graph", g.name()}, {"ir_version", g.metadata().ir_version}};
  j["opsets"] = nlohmann::ordered_json::object();
  for (const auto& [domain, version] : g.metadata().opsets) j["opsets"][domain] = version;
  j["inputs"] = nlohmann::json::array();
  for (const ir::Node& n : g.inputs()) j["inputs"].push_back({{"name", n.names[0]}, {"type", n.types[0].to_string()}});
  j["outputs"] = nlohmann::json::array();
  for (const ir::Output& o : g.outputs())
    j["outputs"].push_back({{"name", o.name}, {"type", g.type(o.value).to_string()}});
  j["operators"] = s.operators;
  j["constants"] = s.constants;
  j["parameters"] = s.parameters;
  j["parameter_bytes"] = s.parameter_bytes;
  j["macs"] = s.macs ? nlohmann::json(*s.macs) : nlohmann::json();
  j["activation_bytes"] = s.activation_bytes ? nlohmann::json(*s.activation_bytes) : nlohmann::json();
  j["dynamic_dims"] = s.dynamic_dims;
  j["unsupported"] = nlohmann::json::array();
  for (const driver::Unsupported& u : s.unsupported)
    j["unsupported"].push_back({{"node", u.node}, {"operator", u.op}, {"reason", u.reason}});
  j["content_hash"] = g.content_hash().hex();
  return j;
}

}  // namespace

Action declare_show(CLI::App& app) {
  struct Options {
    ModelOptions model;
    bool text = false;
  };
  auto o = std::make_shared<Options>();
  declare_model(app, o->model);
  app.add_flag("--text", o->text, "Print the graph as .iso text, constants written out");
  return [o]() -> Expected<Answer> {
    ISOMER_TRY(const driver::Model model, load(o->model));
    Answer a;
    if (o->text) {
      a.text = ir::print(model.graph);
      a.json = {{"text", a.text}};
      return a;
    }
    const driver::Summary s = driver::summarise(model.graph);
    const std::vector<driver::NodeReport> report = driver::plan_report(model.graph);
    a.text = text(model, s);
    const char* const sizes = s.dynamic_dims.empty() ? "" : ", at the sizes that a run brings";
    a.text += report.empty() ? fmt::format("compiled    all nodes{}\n", sizes)
                             : fmt::format("compiled    all but {}\n{}", node_counts(report), node_lines(report));
    a.json = data(model, s);
    a.json["reference_nodes"] = node_list(report);
    return a;
  };
}

}  // namespace isomer::tool
