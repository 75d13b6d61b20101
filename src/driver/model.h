// MODEL as users name it: an .onnx file, an .iso text file, or zoo:NAME with options (zoo:bert_base,layers=2).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"
#include "zoo/zoo.h"

namespace isomer::driver {

struct Model {
  ir::Graph graph;
  std::string source;  // as the user named it
  std::vector<std::string> warnings;
};

Expected<Model> load_model(const std::string& spec);

// Writes .onnx or .iso by the name's ending.
Expected<void> save_model(const ir::Graph& graph, const std::string& path);

// "batch=4,layers=2" as the options of a zoo network.
Expected<zoo::Options> parse_zoo_options(const std::string& text);

// The graph with input symbols replaced by numbers and input shapes by the given ones; types are inferred anew.
struct Bindings {
  std::map<std::string, int64_t> dims;                 // --dim batch=4
  std::map<std::string, std::vector<int64_t>> shapes;  // --shape x:1x3x224x224
};
Expected<ir::Graph> bind(const ir::Graph& graph, const Bindings& bindings);

// The graph with these values as its outputs: outputs of the graph or, where none has the name, values inside. What they do not
// need is left out; the inputs stay.
Expected<ir::Graph> with_outputs(const ir::Graph& graph, const std::vector<std::string>& names);

// "name:1x3x224x224", also "name:[1,3,224,224]" and "name:1,3,224,224"; "name:" or "name:[]" is a scalar.
Expected<std::pair<std::string, std::vector<int64_t>>> parse_shape(const std::string& text);
// "batch=4".
Expected<std::pair<std::string, int64_t>> parse_dim(const std::string& text);

}  // namespace isomer::driver
