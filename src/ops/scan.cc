#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"
#include "ops/body.h"

namespace isomer::ops {
namespace {

// A scan node: its inputs are the states, the scanned sequences, the captures; its body takes the states, one element
// of each sequence, the captures, and gives the states and one element of each result.
struct ScanParts {
  ir::GraphRef body;
  size_t captures = 0, states = 0, inputs = 0, outputs = 0;
  std::vector<int64_t> input_axes, output_axes, input_directions, output_directions;
};

Expected<std::vector<int64_t>> per_value(const ir::OpContext& c, std::string_view attr, size_t count) {
  std::vector<int64_t> v = c.ints(attr);
  if (v.empty()) v.assign(count, 0);
  if (v.size() != count)
    return c.error(fmt::format("attribute '{}' has {} elements, expected {}", attr, v.size(), count));
  return v;
}

Expected<ScanParts> scan_parts(const ir::OpContext& c) {
  ScanParts p;
  ISOMER_TRY(p.captures, capture_count(c));
  const size_t own = c.input_count() - p.captures;
  const int64_t scanned = c.integer("num_scan_inputs");
  if (scanned < 1 || static_cast<uint64_t>(scanned) > own)
    return c.error(fmt::format("'num_scan_inputs' is {}, expected 1 to {}", scanned, own));
  p.inputs = static_cast<size_t>(scanned);
  p.states = own - p.inputs;
  for (size_t i = 0; i < own; ++i)
    if (!c.has(i)) return c.error(fmt::format("input {} is missing", i));
  ISOMER_TRY(p.body, body_of(c, "body", own, p.captures, p.states));
  p.outputs = p.body->outputs().size() - p.states;
  if (c.output_count() > p.states + p.outputs)
    return c.error(fmt::format("has {} outputs, its body gives {}", c.output_count(), p.states + p.outputs));
  ISOMER_TRY(p.input_axes, per_value(c, "scan_input_axes", p.inputs));
  ISOMER_TRY(p.output_axes, per_value(c, "scan_output_axes", p.outputs));
  ISOMER_TRY(p.input_directions, per_value(c, "scan_input_directions", p.inputs));
  ISOMER_TRY(p.output_directions, per_value(c, "scan_output_directions", p.outputs));
  for (const auto* directions : {&p.input_directions, &p.output_directions})
    for (int64_t d : *directions)
      if (d != 0 && d != 1) return c.error(fmt::format("a direction is {}, expected 0 or 1", d));
  return p;
}

// The sequences' common length. All of one rank are checked to be of one length.
Expected<Dim> length_of(const ir::OpContext& c, const ScanParts& p) {
  Dim length = Dim::invalid();
  for (size_t k = 0; k < p.inputs; ++k) {
    const Shape& s = c.shape(p.states + k);
    if (!s.has_rank()) continue;
    ISOMER_TRY(const size_t axis, c.axis(p.input_axes[k], s.rank()));
    if (length.is_const() && s[axis].is_const() && !(length == s[axis]))
      return c.error(fmt::format("scanned inputs have the lengths {} and {}, expected one length", length.value(),
                                 s[axis].value()));
    if (length.is_invalid() || s[axis].is_const()) length = s[axis];
  }
  return length;
}

// What the body gets of scanned input k.
Expected<Type> element_type(const ir::OpContext& c, const ScanParts& p, size_t k) {
  Type t = c.type(p.states + k);
  if (!t.shape.has_rank()) return t;
  ISOMER_TRY(const size_t axis, c.axis(p.input_axes[k], t.shape.rank()));
  std::vector<Dim> dims = t.shape.dims();
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis));
  t.shape = Shape(std::move(dims));
  return t;
}

// The types of the body's results, in the caller's sizes.
Expected<std::vector<Type>> results_of(const ir::OpContext& c, const ScanParts& p) {
  const auto inner = [&](size_t i) { return p.body->inputs()[i].types[0]; };
  const auto result = [&](size_t i) { return p.body->type(p.body->outputs()[i].value); };
  BodySizes sizes;
  for (size_t k = 0; k < p.inputs + p.captures; ++k) {
    const size_t i = p.states + k;
    Type outer = c.type(i);
    if (k < p.inputs) {
      ISOMER_TRY(outer, element_type(c, p, k));
    }
    ISOMER_CHECK_OK(check_passes(c, fmt::format("input {}", i), inner(i), outer));
    sizes.bind(inner(i), outer);
  }
  for (size_t k = 0; k < p.states; ++k) {
    ISOMER_CHECK_OK(check_passes(c, fmt::format("state {}", k), inner(k), c.type(k)));
    ISOMER_CHECK_OK(check_passes(c, fmt::format("state {}", k), inner(k), result(k)));
    if (inner(k).shape == result(k).shape) sizes.bind(inner(k), c.type(k));
  }
  std::vector<Type> types;
  for (size_t k = 0; k < p.states + p.outputs; ++k) types.push_back(sizes.outside(result(k)));
  return types;
}

Expected<std::vector<Type>> infer_scan(const ir::OpContext& c) {
  ISOMER_TRY(const ScanParts p, scan_parts(c));
  ISOMER_TRY(const Dim length, length_of(c, p));
  ISOMER_TRY(std::vector<Type> types, results_of(c, p));
  types.resize(c.output_count());
  for (size_t k = 0; k < types.size(); ++k) {
    Type& t = types[k];
    if (k < p.states) {
      ISOMER_TRY(t, join(c, c.type(k), t));
    } else if (t.shape.has_rank()) {
      ISOMER_TRY(const size_t axis, c.axis(p.output_axes[k - p.states], t.shape.rank() + 1));
      t.shape = with_axis(t.shape, axis, length);
    }
  }
  return types;
}

Expected<std::vector<Tensor>> run_scan(const ir::OpContext& c) {
  ISOMER_TRY(const ScanParts p, scan_parts(c));
  ISOMER_TRY(const Dim length, length_of(c, p));
  std::vector<Tensor> states, captured = captured_values(c, p.captures);
  for (size_t k = 0; k < p.states; ++k) states.push_back(*c.value(k));
  std::vector<Stacker> outputs(p.outputs);
  for (int64_t i = 0; i < length.value(); ++i) {
    std::vector<Tensor> in = states;
    for (size_t k = 0; k < p.inputs; ++k) {
      const Tensor& t = *c.value(p.states + k);
      ISOMER_TRY(const size_t axis, c.axis(p.input_axes[k], t.rank()));
      in.push_back(slice_at(t, axis, p.input_directions[k] == 0 ? i : length.value() - 1 - i));
    }
    in.insert(in.end(), captured.begin(), captured.end());
    ISOMER_TRY(std::vector<Tensor> out, c.run(*p.body, std::move(in)));
    for (size_t k = 0; k < p.states; ++k) states[k] = std::move(out[k]);
    for (size_t k = 0; k < p.outputs; ++k) ISOMER_CHECK_OK(outputs[k].push(c, out[p.states + k]));
  }
  ISOMER_TRY(const std::vector<Type> types, results_of(c, p));
  std::vector<Tensor> results = std::move(states);
  for (size_t k = 0; k < p.outputs; ++k) {
    ISOMER_TRY(Tensor t, outputs[k].stack(c, p.output_axes[k], p.output_directions[k] != 0, types[p.states + k]));
    results.push_back(std::move(t));
  }
  results.resize(c.output_count());
  return results;
}

// The body of the scan over the batch: one scan over the sequence, for one element of the batch.
Expected<ir::Graph> batch_body(const ir::ForeignNode& n, const ir::GraphBuilder& outer, size_t states, size_t scanned,
                               const ir::Attrs& attrs) {
  ir::GraphBuilder b(outer.table(), "batch");
  std::vector<ir::Value> in;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    Type t = outer.type(n.inputs[i]);
    if (i < states + scanned && t.shape.has_rank()) {
      std::vector<Dim> dims = t.shape.dims();
      if (!dims.empty()) dims.erase(dims.begin());
      t.shape = Shape(std::move(dims));
    }
    ISOMER_TRY(const ir::Value v, b.input(fmt::format("in{}", i), std::move(t)));
    in.push_back(v);
  }
  ISOMER_TRY(const std::vector<ir::Value> out, b.add(*n.op, std::move(in), attrs, {}, n.outputs));
  for (size_t k = 0; k < out.size(); ++k) b.output(fmt::format("out{}", k), out[k]);
  return std::move(b).finish();
}

// Opset 8 scans whole batches: all values have a leading batch axis, and an optional input of sequence lengths is first.
Expected<std::vector<ir::Value>> import_scan(ir::ForeignNode& n, ir::GraphBuilder& b) {
  if (n.version >= 9) return ir::add_as_is(n, b);
  const auto wrong = [](std::string message) { return Diagnostic("E-op", "scan: " + message); };
  if (n.inputs.empty()) return wrong("input 0, the sequence lengths, is missing");
  if (!n.inputs[0].is_none())
    return wrong("sequence lengths of opset 8 are not supported; pass sequences of one length without them");
  n.inputs.erase(n.inputs.begin());
  const int64_t* scanned = n.attrs.get<int64_t>("num_scan_inputs");
  const int64_t* captures = n.attrs.get<int64_t>("captures");
  const auto total = static_cast<int64_t>(n.inputs.size());
  if (captures && (*captures < 0 || *captures > total)) return wrong("'captures' must be a number of its inputs");
  const int64_t own = total - (captures ? *captures : 0);
  if (!scanned || *scanned < 1 || *scanned > own)
    return wrong("'num_scan_inputs' must be from 1 to the number of inputs");
  for (const ir::Value& v : n.inputs)
    if (v.is_none()) return wrong("an input is missing");
  ir::Attrs inner = n.attrs;
  inner.erase("directions");
  if (const ir::AttrValue* d = n.attrs.find("directions")) inner.set("scan_input_directions", *d);
  const auto states = static_cast<size_t>(own - *scanned);
  ISOMER_TRY(ir::Graph body, batch_body(n, b, states, static_cast<size_t>(*scanned), inner));
  ir::Attrs attrs{{"body", std::make_shared<const ir::Graph>(std::move(body))}, {"num_scan_inputs", own}};
  if (captures) attrs.set("captures", *captures);
  return b.add(*n.op, n.inputs, std::move(attrs), n.info, n.outputs);
}

}  // namespace

ir::OpDef op_scan() {
  ir::OpDef op;
  op.name = "scan";
  op.doc = "Runs a body over the elements of sequences, handing states on and stacking results.";
  op.inputs = {{"initial_state_and_scan_inputs", "", kCarried, ir::Arity::Variadic, 1}};
  op.outputs = {{"final_state_and_scan_outputs", "V", ir::Arity::Variadic}};
  op.attrs = {{.name = "body", .kind = ir::AttrKind::Graph, .required = true},
              captures_attr(),
              {.name = "num_scan_inputs", .kind = ir::AttrKind::Int, .required = true},
              {.name = "scan_input_axes", .kind = ir::AttrKind::Ints},
              {.name = "scan_input_directions", .kind = ir::AttrKind::Ints},
              {.name = "scan_output_axes", .kind = ir::AttrKind::Ints},
              {.name = "scan_output_directions", .kind = ir::AttrKind::Ints}};
  op.infer = infer_scan;
  op.infer_unranked = true;
  op.kernel = run_scan;
  op.samples = {
      R"(scan(f32[2], f32[3,2]){body=graph @b(%s: f32[2], %x: f32[2]) { return "next"=%x, "each"=%s }, num_scan_inputs=1} -> 2)",
      R"(scan(i64[2], f32[2,3]){body=graph @b(%s: i64[2], %x: f32[2]) { return %s, %x }, num_scan_inputs=1, scan_input_axes=[1], scan_output_directions=[1]} -> 2)"};
  op.onnx = {{.type = "Scan", .since = {8, 9, 11, 16, 19, 21, 23}, .stable = 9, .import = import_scan}};
  return op;
}

}  // namespace isomer::ops
