// Old ONNX forms that many operators share, as importers: each takes a node of an older opset and adds the newest form.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ops/legacy_inputs.h"

namespace isomer::ops {

using Imported = Expected<std::vector<ir::Value>>;

// Opset 1 notes which inputs may be overwritten (`consumed_inputs`), which has no meaning here.
Imported import_without_consumed(ir::ForeignNode& node, ir::GraphBuilder& builder);

// Below opset 7 the second operand broadcasts only when `broadcast` says so, its axes aligned with the first operand's
// from `axis` on (absent: at the end, as today).
Imported import_broadcast(ir::ForeignNode& node, ir::GraphBuilder& builder);

// `axes` was an attribute and is now input 1.
Imported import_axes(ir::ForeignNode& node, ir::GraphBuilder& builder);

// Below opset 13 the softmax family flattens its input to a matrix at `axis` (1 when absent) and works on the rows.
Imported import_rows(ir::ForeignNode& node, ir::GraphBuilder& builder);

// The value with `count` axes of extent 1 appended.
Expected<ir::Value> append_unit_axes(ir::GraphBuilder& builder, ir::Value value, size_t count);

}  // namespace isomer::ops
