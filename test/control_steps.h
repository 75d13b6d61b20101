// Steps of a random model with bodies of their own: loops, scans and branches.
#pragma once

#include "test/growing_model.h"

namespace isomer::testing::growing {

// A body: one or two operations on its floats, of which the last is handed on.
inline ir::Value inside(Random& r, ir::GraphBuilder& b, const ir::Value& x, const ir::Value& y) {
  static const char* const kOne[] = {"tanh", "sigmoid", "cos", "abs", "neg"};
  static const char* const kTwo[] = {"add", "mul", "sub", "max", "min"};
  const ir::Value both = *b.add1(kTwo[r.below(std::size(kTwo))], {x, y});
  return *b.add1(kOne[r.below(std::size(kOne))], {both});
}

inline void branch(State& s, const Item& x, ir::Value captured) {
  Random& r = s.random;
  ir::Attrs attrs{{"captures", int64_t{2}}};
  for (const char* name : {"then_branch", "else_branch"}) {
    ir::GraphBuilder b(ops::table(), name);
    const ir::Value v = *b.input("v", type(s, x)), k = *b.input("k", s.builder.type(captured));
    const ir::Value made = inside(r, b, v, k);
    b.output("result", b.type(made) == type(s, x) ? made : v);
    attrs.set(name, std::make_shared<const ir::Graph>(*std::move(b).finish()));
  }
  const Item condition = fresh_data(s, Tensor::int_scalar(DType::Bool, r.flip()));
  add(s, "if", {condition.value, x.value, captured}, std::move(attrs), false);
}

// Loops, scans and branches over a value, with one that they capture.
inline void control(State& s, const Item& x) {
  Random& r = s.random;
  const std::vector<int64_t> d = dims(s, x);
  const ir::Value captured = operand(s, r.flip() ? std::vector<int64_t>{} : broadcast(r, d)).value;
  ir::GraphBuilder b(ops::table(), "body");
  const size_t kind = r.below(d.empty() ? 2 : 3);
  const Type whole = type(s, x), other = s.builder.type(captured);
  if (kind == 0) return branch(s, x, captured);
  const Type scalar{DType::I64, Shape(std::vector<Dim>{})}, flag{DType::Bool, Shape(std::vector<Dim>{})};
  if (kind == 1) {
    const ir::Value i = *b.input("i", scalar), c = *b.input("c", flag), v = *b.input("v", whole),
                    k = *b.input("k", other), next = inside(r, b, v, k);
    b.output("c", c);
    b.output("next", b.type(next) == whole ? next : v);
    b.output("each", r.flip() ? i : v);
    add(s, "loop", {s.builder.constant(Tensor::int_scalar(DType::I64, r.between(0, 4))), {}, x.value, captured},
        {{"body", std::make_shared<const ir::Graph>(*std::move(b).finish())}, {"captures", int64_t{1}}}, false, 2);
    return;
  }
  const auto axis = r.below(d.size());
  std::vector<int64_t> one = d;
  one.erase(one.begin() + static_cast<ptrdiff_t>(axis));
  const ir::Value first = operand(s, one).value;
  const Type element = s.builder.type(first);
  const ir::Value v = *b.input("v", element), e = *b.input("e", element), next = inside(r, b, v, e);
  b.output("next", next);
  b.output("each", r.flip() ? next : inside(r, b, e, v));
  add(s, "scan", {first, x.value},
      {{"body", std::make_shared<const ir::Graph>(*std::move(b).finish())},
       {"num_scan_inputs", int64_t{1}},
       {"scan_input_axes", std::vector<int64_t>{static_cast<int64_t>(axis)}},
       {"scan_input_directions", std::vector<int64_t>{r.flip()}},
       {"scan_output_axes", std::vector<int64_t>{r.between(0, static_cast<int64_t>(one.size()))}},
       {"scan_output_directions", std::vector<int64_t>{r.flip()}}},
      false, 2);
}

}  // namespace isomer::testing::growing
