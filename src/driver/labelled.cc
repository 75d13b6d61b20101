#include "driver/labelled.h"

#include <algorithm>

#include "compile/labels.h"
#include "ops/table.h"

namespace isomer::driver {

Expected<ir::Graph> with_labels(const ir::Graph& graph, const std::string& labels) {
  ir::Metadata metadata = graph.metadata();
  std::erase_if(metadata.properties, [](const auto& p) { return p.first == compile::kLabelsProperty; });
  if (!labels.empty()) metadata.properties.emplace_back(compile::kLabelsProperty, labels);
  if (metadata == graph.metadata()) return graph;
  ir::GraphBuilder builder(ops::table(), graph.name());
  builder.set_verbatim(true);
  std::vector<std::vector<ir::Value>> values(graph.nodes().size());
  for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::Node& n = graph.node(i);
    if (i < graph.input_count()) {
      ISOMER_TRY(const ir::Value v, builder.input(n.names[0], n.types[0]));
      values[i] = {v};
    } else if (n.op == &ir::const_op()) {
      values[i] = {builder.constant(*n.attrs.get<Tensor>("value"), n.names[0])};
    } else {
      std::vector<ir::Value> inputs;
      for (const ir::Value& v : n.inputs) inputs.push_back(v.is_none() ? v : values[v.node][v.index]);
      ISOMER_TRY(values[i],
                 builder.add(*n.op, std::move(inputs), n.attrs, {n.names, n.label, n.origin}, n.types.size()));
      for (uint32_t k = 0; k < n.types.size(); ++k) ISOMER_CHECK_OK(builder.declare_type(values[i][k], n.types[k]));
    }
  }
  for (const ir::Output& o : graph.outputs()) builder.output(o.name, values[o.value.node][o.value.index]);
  builder.set_metadata(std::move(metadata));
  return std::move(builder).finish();
}

}  // namespace isomer::driver
