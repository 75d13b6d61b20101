#include "isomer/model_options.h"

#include "isomer/command.h"

namespace isomer::tool {

void declare_bindings(CLI::App& app, ModelOptions& o) {
  app.add_option("--shape", o.shapes, "Shape of an input: NAME:1x3x224x224 (repeatable)")->allow_extra_args(false);
  app.add_option("--dim", o.dims, "Value of a dynamic dimension: NAME=N (repeatable)")->allow_extra_args(false);
}

void declare_model(CLI::App& app, ModelOptions& o) {
  app.add_option("MODEL", o.spec, "An .onnx file, an .iso file or zoo:NAME")->required();
  declare_bindings(app, o);
  app.add_option("--outputs", o.outputs, "Compute this output or inner value and no other (repeatable)")
      ->allow_extra_args(false);
}

Expected<driver::Bindings> bindings(const ModelOptions& o) {
  driver::Bindings b;
  for (const std::string& s : o.shapes) {
    ISOMER_TRY(auto item, driver::parse_shape(s));
    b.shapes[item.first] = std::move(item.second);
  }
  for (const std::string& s : o.dims) {
    ISOMER_TRY(auto item, driver::parse_dim(s));
    b.dims[item.first] = item.second;
  }
  return b;
}

Expected<driver::Model> load(const ModelOptions& o) {
  ISOMER_TRY(const driver::Bindings b, bindings(o));
  ISOMER_TRY(driver::Model model, driver::load_model(o.spec));
  print_warnings(model.warnings);
  if (!o.outputs.empty()) {
    ISOMER_TRY(model.graph, driver::with_outputs(model.graph, o.outputs));
  }
  if (!b.dims.empty() || !b.shapes.empty()) {
    ISOMER_TRY(model.graph, driver::bind(model.graph, b));
  }
  return model;
}

}  // namespace isomer::tool
