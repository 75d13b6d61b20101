#include "zoo/zoo.h"

#include <fmt/format.h>

#include "driver/model.h"
#include "isomer/command.h"
#include "ops/table.h"

namespace isomer::tool {
namespace {

Answer list() {
  Answer a;
  a.json = {{"networks", nlohmann::json::array()}};
  for (const zoo::Network& n : zoo::networks()) {
    std::string standard;
    const auto add = [&](const char* name, int64_t v) {
      if (v) standard += fmt::format("{}{}={}", standard.empty() ? "" : ",", name, v);
    };
    add("image", n.image);
    add("sequence", n.sequence);
    add("layers", n.layers);
    a.text += fmt::format("{:<18}{:<70}{}\n", n.name, n.doc, standard);
    a.json["networks"].push_back(
        {{"name", n.name}, {"doc", n.doc}, {"image", n.image}, {"sequence", n.sequence}, {"layers", n.layers}});
  }
  return a;
}

}  // namespace

Action declare_zoo(CLI::App& app) {
  struct Options {
    std::string name, out;
    zoo::Options zoo;
    bool list = false;
  };
  auto o = std::make_shared<Options>();
  app.add_option("NAME", o->name, "The network; --list shows all");
  app.add_option("-o,--output", o->out, "The file to write: *.onnx or *.iso");
  app.add_option("--batch", o->zoo.batch, "Batch size")->capture_default_str();
  app.add_option("--image", o->zoo.image, "Height and width of the image (0: the network's own)");
  app.add_option("--sequence", o->zoo.sequence, "Length of the sequence (0: the network's own)");
  app.add_option("--layers", o->zoo.layers, "Number of repeated layers (0: the network's own)");
  app.add_option("--seed", o->zoo.seed, "Seed of the weights")->capture_default_str();
  app.add_flag("--fused-norms", o->zoo.fused_norms, "Write layer normalisation as one node");
  app.add_flag("--list", o->list, "List the networks");
  return [o]() -> Expected<Answer> {
    if (o->list) return list();
    if (o->name.empty()) return Diagnostic("E-usage", "expected the NAME of a network; `isomer zoo --list` shows all");
    if (o->out.empty()) return Diagnostic("E-usage", "expected -o FILE: where to write the network");
    ISOMER_TRY(const ir::Graph g, zoo::build(o->name, ops::table(), o->zoo));
    ISOMER_CHECK_OK(driver::save_model(g, o->out));
    Answer a;
    a.text = fmt::format("wrote {} ({} nodes)\n", printable(o->out), g.nodes().size() - g.input_count());
    a.json = {{"name", o->name}, {"out", o->out}, {"nodes", g.nodes().size() - g.input_count()}};
    return a;
  };
}

}  // namespace isomer::tool
