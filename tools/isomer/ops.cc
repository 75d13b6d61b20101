#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "driver/meaning.h"
#include "ir/sample.h"
#include "isomer/command.h"
#include "onnx/onnx.h"
#include "ops/table.h"

namespace isomer::tool {
namespace {

std::vector<std::string> type_names(DTypeSet set) {
  std::vector<std::string> out;
  for (DType t : kAllDTypes)
    if (set.contains(t)) out.emplace_back(name(t));
  return out;
}

const char* meaning(const ir::OpDef& op) {
  return op.compute ? "expression" : op.kernel ? "kernel" : op.expand || !op.expand_text.empty() ? "composite" : "none";
}

nlohmann::ordered_json describe(const ir::OpDef& op) {
  nlohmann::ordered_json j{{"name", op.name}, {"doc", op.doc}, {"meaning", meaning(op)}};
  j["inputs"] = nlohmann::json::array();
  for (const ir::InputDef& i : op.inputs)
    j["inputs"].push_back({{"name", i.name},
                           {"types", type_names(i.types)},
                           {"variadic", i.arity == ir::Arity::Variadic},
                           {"optional", i.arity == ir::Arity::Optional}});
  j["outputs"] = nlohmann::json::array();
  for (const ir::OutputDef& i : op.outputs) j["outputs"].push_back({{"name", i.name}, {"type", i.type}});
  j["attributes"] = nlohmann::json::array();
  for (const ir::AttrDef& d : op.attrs)
    j["attributes"].push_back({{"name", d.name}, {"kind", name(d.kind)}, {"required", d.required}});
  j["onnx"] = nlohmann::json::array();
  for (const ir::OnnxForm& f : op.onnx)
    j["onnx"].push_back({{"domain", f.domain}, {"type", f.type}, {"opsets", f.since}});
  return j;
}

std::string row(const ir::OpDef& op) {
  std::string onnx, types;
  if (!op.onnx.empty()) {
    const ir::OnnxForm& f = op.onnx[0];
    onnx = fmt::format("{}{}{} {}", f.domain, f.domain.empty() ? "" : "::", f.type, fmt::join(f.since, ","));
  }
  if (!op.inputs.empty()) types = fmt::format("{}", fmt::join(type_names(op.inputs[0].types), " "));
  return fmt::format("{:<36}{:<60}{}\n", op.name, onnx, types);
}

std::string page(const ir::OpDef& op) {
  std::string out = fmt::format("{}: {}\n", op.name, op.doc);
  for (const ir::InputDef& i : op.inputs)
    out += fmt::format("  input     {:<20}{}{}\n", i.name, fmt::join(type_names(i.types), " "),
                       i.arity == ir::Arity::Optional   ? " (optional)"
                       : i.arity == ir::Arity::Variadic ? " (any number)"
                                                        : "");
  for (const ir::OutputDef& o : op.outputs)
    out += fmt::format("  output    {:<20}{}{}\n", o.name, o.type, o.arity == ir::Arity::Optional ? " (optional)" : "");
  for (const ir::AttrDef& d : op.attrs)
    out += fmt::format("  attribute {:<20}{}{}\n", d.name, name(d.kind), d.required ? " (required)" : "");
  for (const ir::OnnxForm& f : op.onnx)
    out += fmt::format("  onnx      {}{}{} in opsets {}\n", f.domain, f.domain.empty() ? "" : "::", f.type,
                       fmt::join(f.since, ", "));
  for (const std::string& l : op.laws) out += fmt::format("  law       {}\n", l);
  for (const std::string& s : op.samples) out += fmt::format("  example   {}\n", s);
  if (op.samples.empty()) return out;
  const auto text = driver::meaning_of_sample(op, op.samples[0]);
  return out + fmt::format("\nmeaning ({}) of {}:\n{}", meaning(op), op.samples[0],
                           text.ok() ? *text : text.error().to_string() + "\n");
}

// FOLDER/NAME.K/model.onnx and input_N.pb for the K-th example: what other runtimes can be asked about it.
Expected<void> write_examples(const ir::OpDef& op, const std::string& folder) {
  for (size_t k = 0; k < op.samples.size(); ++k) {
    ISOMER_TRY(const ir::Sample sample, ir::make_sample(op.samples[k], ops::table(), 1));
    const std::filesystem::path to = std::filesystem::path(folder) / fmt::format("{}.{}", op.name, k);
    std::error_code failed;
    std::filesystem::create_directories(to, failed);
    if (failed)
      return Diagnostic("E-file",
                        fmt::format("cannot make the folder {}: {}", isomer::quoted(to.string()), failed.message()));
    ISOMER_CHECK_OK(onnx::save(sample.graph, (to / "model.onnx").string()));
    for (size_t i = 0; i < sample.inputs.size(); ++i)
      ISOMER_CHECK_OK(onnx::save_tensor(sample.inputs[i], (to / fmt::format("input_{}.pb", i)).string()));
  }
  return {};
}

}  // namespace

Action declare_ops(CLI::App& app) {
  auto wanted = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  app.add_option("NAME", *wanted, "One operator, by Isomer's name or ONNX's");
  app.add_option("--write", *folder, "Write every example as FOLDER/NAME.K/model.onnx with inputs");
  return [wanted, folder]() -> Expected<Answer> {
    Answer a;
    a.json = {{"operators", nlohmann::json::array()}};
    for (const ir::OpDef& op : ops::table().records()) {
      bool match = wanted->empty() || op.name == *wanted;
      for (const ir::OnnxForm& f : op.onnx) match |= f.type == *wanted;
      if (!match) continue;
      if (!folder->empty()) ISOMER_CHECK_OK(write_examples(op, *folder));
      a.json["operators"].push_back(describe(op));
      a.text += wanted->empty() ? row(op) : page(op);
    }
    if (a.text.empty())
      return Diagnostic("E-unknown-operator",
                        fmt::format("there is no operator {}; `isomer ops` lists them", isomer::quoted(*wanted)));
    if (wanted->empty()) {
      a.text = fmt::format("{:<36}{:<60}{}\n", "operator", "ONNX type and opsets", "element types of the first input") +
               a.text;
      a.text += fmt::format("{} operators\n", a.json["operators"].size());
    }
    return a;
  };
}

}  // namespace isomer::tool
