// Graphs on disk: PATH holds the graph text, PATH.weights its large constants. docs/ir.md has both formats.
#pragma once

#include <string>

#include "base/expected.h"
#include "ir/graph.h"
#include "ir/text.h"

namespace isomer::ir {

// Both files are complete under their names or not there: they are written beside and renamed.
Expected<void> save_text(const Graph& graph, const std::string& path);
// Constants stay in the mapped file; nothing is copied.
Expected<Graph> load_text(const std::string& path, const OpTable& table);

Expected<void> save_weights(const ConstantPool& pool, const std::string& path);
Expected<ConstantPool> load_weights(const std::string& path);

}  // namespace isomer::ir
