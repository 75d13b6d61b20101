#include <fmt/format.h>

#include "driver/model.h"
#include "isomer/command.h"

namespace isomer::tool {

Action declare_convert(CLI::App& app) {
  struct Options {
    std::string in, out;
  };
  auto o = std::make_shared<Options>();
  app.add_option("IN", o->in, "The model to read")->required();
  app.add_option("OUT", o->out, "The file to write: *.onnx or *.iso")->required();
  return [o]() -> Expected<Answer> {
    ISOMER_TRY(const driver::Model model, driver::load_model(o->in));
    print_warnings(model.warnings);
    ISOMER_CHECK_OK(driver::save_model(model.graph, o->out));
    Answer a;
    a.text =
        fmt::format("wrote {} ({} nodes)\n", printable(o->out), model.graph.nodes().size() - model.graph.input_count());
    a.json = {{"in", o->in}, {"out", o->out}, {"nodes", model.graph.nodes().size() - model.graph.input_count()}};
    return a;
  };
}

}  // namespace isomer::tool
