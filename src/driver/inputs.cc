#include "driver/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "onnx/onnx.h"
#include "tensor/npy.h"
#include "tensor/random_fill.h"

namespace isomer::driver {
namespace {

// The static type of a random input, or a diagnostic that says how to set its open dimensions.
Expected<Type> static_type(const ir::Node& input) {
  const Type& t = input.types[0];
  if (t.dtype == DType::Opaque)
    return Diagnostic("E-input-type", fmt::format("input {} is no tensor of a type Isomer computes with",
                                                  isomer::quoted(input.names[0])));
  if (!t.shape.has_rank())
    return Diagnostic("E-dynamic-dim",
                      fmt::format("input {} has no declared rank; give its shape with --shape {}:1x2x3",
                                  isomer::quoted(input.names[0]), printable(input.names[0])));
  for (const Dim& d : t.shape.dims())
    if (!d.is_const())
      return Diagnostic(
          "E-dynamic-dim",
          fmt::format("dimension {} of input {} is dynamic; give it a value with --dim {}=N or --shape",
                      isomer::quoted(d.to_string()), isomer::quoted(input.names[0]), printable(d.to_string())));
  ISOMER_CHECK_OK(checked_elements(t.dtype, t.shape.values()));
  return t;
}

// N of "input_N.pb", or nothing.
std::optional<size_t> numbered(const std::string& file, const std::string& stem) {
  if (!file.starts_with(stem) || !file.ends_with(".pb")) return std::nullopt;
  const std::string digits = file.substr(stem.size(), file.size() - stem.size() - 3);
  if (digits.empty() || digits.size() > 6 ||
      !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); }))
    return std::nullopt;
  return std::stoul(digits);
}

}  // namespace

Expected<std::pair<std::string, std::string>> parse_input(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return Diagnostic("E-input-option",
                      fmt::format("expected an input such as x=image.npy, found {}", isomer::quoted(text)));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Expected<Tensor> load_value(const std::string& path, const std::string& name, const Type& type) {
  if (path.ends_with(".pb")) return onnx::load_tensor(path);
  if (path.ends_with(".npy")) return read_npy(path);
  if (path.ends_with(".npz")) {
    ISOMER_TRY(auto arrays, read_npz(path));
    for (auto& [key, tensor] : arrays)
      if (key == name || arrays.size() == 1) return std::move(tensor);
    return Diagnostic("E-input-file",
                      fmt::format("file {} holds no array {}", isomer::quoted(path), isomer::quoted(name)));
  }
  if (!type.shape.is_static())
    return Diagnostic("E-input-file",
                      fmt::format("raw data in {} needs a static type, input {} is {}; use --shape or --dim",
                                  isomer::quoted(path), isomer::quoted(name), type.to_string()));
  return read_raw(path, type.dtype, type.shape.values());
}

Expected<std::vector<Tensor>> make_inputs(const ir::Graph& g, const InputOptions& o) {
  for (const auto& [name, file] : o.files) {
    const auto inputs = g.inputs();
    if (std::none_of(inputs.begin(), inputs.end(), [&](const ir::Node& n) { return n.names[0] == name; })) {
      std::string all;
      for (const ir::Node& n : inputs) all += (all.empty() ? "" : ", ") + isomer::quoted(n.names[0]);
      return Diagnostic("E-input-name", fmt::format("the model has no input {}; it has {}", isomer::quoted(name),
                                                    all.empty() ? "none" : all));
    }
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < g.input_count(); ++i) {
    const ir::Node& n = g.inputs()[i];
    if (const auto it = o.files.find(n.names[0]); it != o.files.end()) {
      ISOMER_TRY(Tensor t, load_value(it->second, n.names[0], n.types[0]));
      out.push_back(std::move(t));
      continue;
    }
    ISOMER_TRY(const Type type, static_type(n));
    // Small indices are valid for any table, so integers are 0 or 1 unless the user says more.
    FillRange range{.low = -1, .high = 1, .int_low = 0, .int_high = 1};
    if (o.range)
      range = {o.range->first, o.range->second, int_from_real(DType::I64, o.range->first),
               int_from_real(DType::I64, o.range->second)};
    // Each input has its own stream, so that giving one by file leaves the others as they were.
    Random random(o.seed * 1000003 + i);
    out.push_back(random_tensor(type.dtype, type.shape.values(), random, range));
  }
  return out;
}

Expected<DataSet> load_data_set(const std::string& folder, size_t inputs) {
  DataSet set;
  set.inputs.resize(inputs);
  std::map<size_t, std::string> outputs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (const auto n = numbered(file, "output_")) outputs[*n] = entry.path().string();
    const auto n = numbered(file, "input_");
    if (!n) continue;
    if (*n >= inputs)
      return Diagnostic("E-data-set", fmt::format("the data set has {}, but the model has only {} inputs",
                                                  isomer::quoted(file), inputs));
    ISOMER_TRY(set.inputs[*n], onnx::load_tensor(entry.path().string()));
  }
  if (error)
    return Diagnostic("E-data-set",
                      fmt::format("folder {} cannot be read: {}", isomer::quoted(folder), error.message()));
  for (const auto& [n, path] : outputs) {
    if (n != set.outputs.size())
      return Diagnostic("E-data-set",
                        fmt::format("output_{}.pb is missing in {}", set.outputs.size(), isomer::quoted(folder)));
    ISOMER_TRY(Tensor t, onnx::load_tensor(path));
    set.outputs.push_back(std::move(t));
  }
  if (set.outputs.empty())
    return Diagnostic("E-data-set", fmt::format("folder {} holds no output_0.pb", isomer::quoted(folder)));
  return set;
}

}  // namespace isomer::driver
