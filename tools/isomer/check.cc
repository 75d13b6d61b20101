#include <fmt/format.h>

#include "driver/model.h"
#include "driver/summary.h"
#include "ir/verify.h"
#include "isomer/command.h"
#include "ops/table.h"

namespace isomer::tool {

Action declare_check(CLI::App& app) {
  auto spec = std::make_shared<std::string>();
  app.add_option("MODEL", *spec, "The model to check")->required();
  return [spec]() -> Expected<Answer> {
    ISOMER_TRY(const driver::Model model, driver::load_model(*spec));
    print_warnings(model.warnings);
    ISOMER_CHECK_OK(ir::verify(model.graph, ops::table()));
    const driver::Summary s = driver::take_inventory(model.graph);
    Answer a;
    a.json = {{"model", *spec}, {"well_formed", true}, {"unsupported", nlohmann::json::array()}};
    for (const driver::Unsupported& u : s.unsupported) {
      a.text += fmt::format("unsupported: node {} ({}): {}\n", isomer::quoted(u.node), printable(u.op), u.reason);
      a.json["unsupported"].push_back({{"node", u.node}, {"operator", u.op}, {"reason", u.reason}});
    }
    if (s.unsupported.empty()) {
      a.text = fmt::format("{} is well formed; Isomer runs all of its {} nodes\n", printable(*spec),
                           model.graph.nodes().size() - model.graph.input_count());
    } else {
      a.text +=
          fmt::format("{} is well formed, but {} of its nodes cannot be run\n", printable(*spec), s.unsupported.size());
      a.exit_code = 1;
    }
    return a;
  };
}

}  // namespace isomer::tool
