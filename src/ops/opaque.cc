// The operator Isomer does not know: it is carried from file to file with everything its node had, and never run.
#include "ir/op.h"

#include <fmt/format.h>

namespace isomer::ops {
namespace {

// Splits "f32[N,floordiv(M,2)]" into the element type and the dims, at commas outside parentheses and quotes.
Expected<Type> parse_declared(const ir::OpContext& c, std::string_view text) {
  const auto wrong = [&] { return c.error(fmt::format("{} is no type", quoted(text))); };
  const size_t bracket = text.find('[');
  if (bracket == std::string_view::npos || !text.ends_with(']')) return wrong();
  const std::string_view dtype_text = text.substr(0, bracket);
  const auto dtype = dtype_text == name(DType::Opaque) ? std::optional(DType::Opaque) : dtype_from_name(dtype_text);
  if (!dtype) return wrong();
  const std::string_view inside = text.substr(bracket + 1, text.size() - bracket - 2);
  if (inside == "*") return Type{*dtype, Shape::unknown(), nullptr};
  std::vector<Dim> dims;
  size_t from = 0;
  int depth = 0;
  bool in_quotes = false;
  for (size_t i = 0; i <= inside.size() && !inside.empty(); ++i) {
    const char ch = i < inside.size() ? inside[i] : ',';
    if (in_quotes) {
      if (ch == '\\') ++i;
      in_quotes = ch != '"' && i < inside.size();
      continue;
    }
    in_quotes = ch == '"';
    depth += (ch == '(') - (ch == ')');
    if (ch != ',' || (depth > 0 && i < inside.size())) continue;
    const std::string_view part = inside.substr(from, i - from);
    from = i + 1;
    ISOMER_TRY(Dim d, Dim::parse(part));
    if (d.is_const() && d.value() < 0) return wrong();
    dims.push_back(std::move(d));
  }
  return Type{*dtype, Shape(std::move(dims)), nullptr};
}

}  // namespace

// What the node was lies in op_type, op_domain, op_version, op_captures; the types its file declares for the results in
// op_types, and the bytes of those that are no tensors in op_foreign. All other attributes are the node's own.
ir::OpDef op_opaque() {
  ir::OpDef op;
  op.name = "opaque";
  op.doc = "An operator of a source file that Isomer does not know; carried unchanged, never run.";
  const DTypeSet any = kAllTypes | DType::Opaque;
  op.inputs = {{"inputs", "", any, ir::Arity::Variadic}};
  op.outputs = {{"outputs", "opaque", ir::Arity::Variadic}};
  op.attrs = {{.name = "op_type", .kind = ir::AttrKind::String, .required = true},
              {.name = "op_domain", .kind = ir::AttrKind::String, .standard = std::string()},
              {.name = "op_version", .kind = ir::AttrKind::Int, .standard = int64_t{1}},
              {.name = "op_captures", .kind = ir::AttrKind::Int, .standard = int64_t{0}},
              {.name = "op_types", .kind = ir::AttrKind::Strings, .standard = std::vector<std::string>()},
              {.name = "op_foreign", .kind = ir::AttrKind::Strings, .standard = std::vector<std::string>()}};
  op.open_attrs = true;
  op.pure = false;
  op.infer_unranked = true;
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    const auto declared = c.strings("op_types"), foreign = c.strings("op_foreign");
    std::vector<Type> types;
    for (size_t i = 0; i < c.output_count(); ++i) {
      Type type{DType::Opaque, Shape::unknown(), nullptr};
      if (i < declared.size()) {
        ISOMER_TRY(type, parse_declared(c, declared[i]));
      }
      if (type.dtype == DType::Opaque && i < foreign.size() && !foreign[i].empty())
        type.foreign = std::make_shared<const std::string>(foreign[i]);
      types.push_back(std::move(type));
    }
    return types;
  };
  op.kernel = [](const ir::OpContext& c) -> Expected<std::vector<Tensor>> {
    const std::string& domain = c.text("op_domain");
    return Diagnostic("E-unsupported",
                      fmt::format("operator {}{}{} cannot be run: Isomer does not know it for these types; "
                                  "--outputs NAME leaves out what needs it",
                                  printable(domain, 60), domain.empty() ? "" : ".", printable(c.text("op_type"), 60)));
  };
  return op;
}

}  // namespace isomer::ops
