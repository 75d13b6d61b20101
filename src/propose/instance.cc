#include "propose/instance.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/literal.h"
#include "propose/values.h"
#include "te/field_domain.h"

namespace isomer::propose {
namespace {

using Kind = OperandSpec::Kind;

std::string attr_text(const ir::AttrValue& v) {
  if (const auto* i = std::get_if<int64_t>(&v)) return fmt::format("{}", *i);
  if (const auto* l = std::get_if<std::vector<int64_t>>(&v)) return fmt::format("[{}]", fmt::join(*l, ", "));
  if (const auto* s = std::get_if<std::string>(&v)) return "\"" + *s + "\"";
  if (const auto* t = std::get_if<Tensor>(&v)) return fmt::format("T {}", t->real(0));
  if (const auto* d = std::get_if<double>(&v)) {
    std::string s;
    ir::append_real(s, *d, true);
    return s;
  }
  return "?";
}

}  // namespace

bool Instance::resolve() { return resolve(candidate_->left, left_) && resolve(candidate_->right, right_); }

bool Instance::resolve(const Sketch& s, ResolvedSide& side) {
  side = {};
  ir::GraphBuilder builder(kernels_->table(), "side");
  std::vector<ir::Value> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto v = builder.input(fmt::format("x{}", i), {DType::F32, Shape(inputs[i]), nullptr});
    if (!v.ok()) return false;
    in.push_back(*v);
  }
  std::vector<std::vector<ir::Value>> made;
  const auto value = [&](Ref r) { return is_result(r) ? made[step_of(r)][result_of(r)] : in[r]; };
  const auto same = [&](const Dim& d) { return d; };
  for (size_t i = 0; i < s.count; ++i) {
    Template t = family_->templates[s.steps[i].op];
    if (t.results > 1) t.cut = cut[&s == &candidate_->right][i];
    std::vector<ir::Value> operands;
    std::vector<std::vector<Dim>> dims;
    for (size_t k = 0; k < t.operands; ++k) {
      operands.push_back(value(s.steps[i].args[k]));
      dims.push_back(builder.type(operands.back()).shape.dims());
    }
    auto calls = propose::resolve(family_->templates[s.steps[i].op], dims);
    if (t.results > 1) calls = propose::resolve(t, dims);
    if (!calls) return false;
    for (ResolvedCall& c : *calls) {
      const auto rename = [&](Dim& d) {
        d = d.substitute([&](const std::string& name) -> std::optional<Dim> {
          const auto it = constants.find(name);
          return t.operands > 0 || it == constants.end() ? std::nullopt : std::optional(Dim::symbol(it->second));
        });
      };
      for (auto& list_sizes : c.operand_sizes)
        for (Dim& d : list_sizes) rename(d);
      // The specification in the family's table outlives the copy of the template.
      c.spec = &family_->templates[s.steps[i].op].calls[static_cast<size_t>(&c - calls->data())];
    }
    auto results = build(t, *calls, operands, same, builder);
    if (!results.ok()) return false;
    made.push_back(*std::move(results));
    side.templates.push_back(std::move(t));
    side.calls.push_back(*std::move(calls));
  }
  for (size_t i = 0; i < s.outs; ++i) side.outputs.push_back(builder.type(value(s.out[i])).shape);
  return true;
}

std::vector<std::string> Instance::symbols() const {
  std::vector<std::string> out;
  for (const auto& shape : inputs)
    for (const Dim& d : shape) d.symbols(out);
  return out;
}

Expected<ir::Graph> Instance::build_side(const Sketch& s, const ResolvedSide& side, const Sizes& sizes) const {
  ir::GraphBuilder builder(kernels_->table(), "side");
  std::vector<ir::Value> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<Dim> dims;
    for (const Dim& d : inputs[i]) dims.push_back(at(d, sizes));
    ISOMER_TRY(const ir::Value v, builder.input(fmt::format("x{}", i), {DType::F32, Shape(dims), nullptr}));
    in.push_back(v);
  }
  std::vector<std::vector<ir::Value>> made;
  const auto value = [&](Ref r) { return is_result(r) ? made[step_of(r)][result_of(r)] : in[r]; };
  for (size_t i = 0; i < s.count; ++i) {
    std::vector<ir::Value> operands;
    for (size_t k = 0; k < side.templates[i].operands; ++k) operands.push_back(value(s.steps[i].args[k]));
    ISOMER_TRY(auto results,
               build(side.templates[i], side.calls[i], operands, [&](const Dim& d) { return at(d, sizes); }, builder));
    made.push_back(std::move(results));
  }
  for (size_t i = 0; i < s.outs; ++i) builder.output(fmt::format("y{}", i), value(s.out[i]));
  return std::move(builder).finish();
}

std::optional<std::vector<uint64_t>> Instance::run(const Sketch& s, const ResolvedSide& side, const Sizes& sizes,
                                                   uint64_t seed) const {
  struct Contents {
    std::vector<int64_t> dims;
    std::vector<uint64_t> data;
  };
  std::vector<Contents> in(inputs.size());
  Random random(seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t count = Tape::kLanes;
    for (const Dim& d : inputs[i]) {
      in[i].dims.push_back(at(d, sizes).constant().value_or(0));
      count *= static_cast<size_t>(std::max<int64_t>(0, in[i].dims.back()));
    }
    in[i].data.resize(count);
    for (uint64_t& w : in[i].data) w = random.below(te::FieldElement::kPrime);
  }
  std::array<std::array<Contents, 2>, kMaxSteps> made;
  const auto value = [&](Ref r) -> const Contents& { return is_result(r) ? made[step_of(r)][result_of(r)] : in[r]; };
  std::vector<uint64_t> registers;
  for (size_t i = 0; i < s.count; ++i) {
    registers.clear();
    std::vector<std::vector<int64_t>> dims;
    for (size_t k = 0; k < side.templates[i].operands; ++k) {
      const Contents& c = value(s.steps[i].args[k]);
      dims.push_back(c.dims);
      registers.insert(registers.end(), c.data.begin(), c.data.end());
    }
    const auto kernel = kernels_->find(side.templates[i], side.calls[i], dims, sizes);
    if (!kernel->ok) return std::nullopt;
    kernel->tape.run(registers);
    const uint32_t* at = kernel->tape.outputs.data();
    for (size_t o = 0; o < kernel->results.size(); ++o) {
      Contents& c = made[i][o];
      c.dims = kernel->results[o];
      size_t count = 1;
      for (const int64_t d : c.dims) count *= static_cast<size_t>(d);
      for (size_t e = 0; e < count; ++e, ++at)
        for (size_t l = 0; l < Tape::kLanes; ++l) c.data.push_back(registers[*at * Tape::kLanes + l]);
    }
  }
  std::vector<uint64_t> out;
  for (size_t i = 0; i < s.outs; ++i) {
    const Contents& c = value(s.out[i]);
    out.push_back(c.dims.size());
    out.insert(out.end(), c.dims.begin(), c.dims.end());
    out.insert(out.end(), c.data.begin(), c.data.end());
  }
  return out;
}

Instance::Answer Instance::test(const Sizes& sizes, uint64_t seed) const {
  const auto l = run(candidate_->left, left_, sizes, seed);
  if (!l) return Answer::NotApplicable;
  const auto r = run(candidate_->right, right_, sizes, seed);
  return r && *l == *r ? Answer::Holds : Answer::Fails;
}

bool Instance::same_arithmetic(const Sizes& sizes) const {
  // Recorded as whole graphs, so that constants of one step are folded into the next.
  const auto terms = [&](const Sketch& s, const ResolvedSide& side) -> std::optional<std::vector<uint64_t>> {
    const auto graph = build_side(s, side, sizes);
    if (!graph.ok()) return std::nullopt;
    const auto tape = record(*graph, kernels_->table());
    if (!tape.ok()) return std::nullopt;
    Random random(5);
    std::vector<uint64_t> registers(tape->inputs * Tape::kLanes);
    for (uint64_t& w : registers) w = random.below(te::FieldElement::kPrime);
    tape->run(registers, Algebra::Terms);
    std::vector<uint64_t> out;
    for (const uint32_t o : tape->outputs)
      for (size_t k = 0; k < Tape::kLanes; ++k) out.push_back(registers[o * Tape::kLanes + k]);
    return out;
  };
  const auto a = terms(candidate_->left, left_), b = terms(candidate_->right, right_);
  return a && b && *a == *b;
}

std::string Instance::input_text() const {
  std::string s;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string dims;
    for (const Dim& d : inputs[i]) dims += (dims.empty() ? "" : ", ") + d.to_string();
    s += fmt::format("  ?x{} : T[{}]\n", i, list.empty() || inputs[i].empty() ? dims : list + "...");
  }
  return s;
}

std::string Instance::call_text(const Sketch& s, const ResolvedSide& side, size_t step, size_t call) const {
  const ResolvedCall& c = side.calls[step][call];
  std::string text = c.spec->op + "(";
  for (size_t i = 0; i < c.spec->operands.size(); ++i) {
    const OperandSpec& o = c.spec->operands[i];
    if (i) text += ", ";
    switch (o.kind) {
      case Kind::Operand: text += value_text(s, side, s.steps[step].args[o.index]); break;
      case Kind::Call: text += call_text(s, side, step, o.index); break;
      case Kind::Number: text += fmt::format("{}", o.number); break;
      case Kind::Sizes:
      case Kind::Parts: {
        std::string sizes;
        for (const Dim& d : c.operand_sizes[i]) sizes += (sizes.empty() ? "" : ", ") + d.to_string();
        text += "[" + sizes + "]";
      }
    }
  }
  text += ")";
  std::map<std::string, std::string> attrs;
  for (const auto& [name, value] : c.spec->attrs) attrs[name] = attr_text(value);
  for (size_t i = 0; i < c.spec->sizes.size(); ++i) attrs[c.spec->sizes[i].first] = c.attr_sizes[i].to_string();
  std::string braces;
  for (const auto& [name, value] : attrs) braces += (braces.empty() ? "" : ", ") + name + "=" + value;
  return braces.empty() ? text : text + "{" + braces + "}";
}

std::string Instance::value_text(const Sketch&, const ResolvedSide& side, Ref r) const {
  if (!is_result(r)) return fmt::format("?x{}", r);
  const size_t step = step_of(r);
  return side.templates[step].results > 1 ? fmt::format("%v{}_{}", step, result_of(r)) : fmt::format("%v{}", step);
}

std::string Instance::side_text(bool is_left) const {
  const Sketch& s = is_left ? candidate_->left : candidate_->right;
  const ResolvedSide& side = is_left ? left_ : right_;
  std::string text;
  for (size_t i = 0; i < s.count; ++i) {
    text += fmt::format("  %v{}", i);
    if (side.templates[i].results > 1) {
      text.resize(text.size() - fmt::format("  %v{}", i).size());
      for (size_t k = 0; k < 2; ++k) {
        bool used = false;
        for (size_t j = 0; j < s.count; ++j)
          for (size_t a = 0; a < side.templates[j].operands; ++a) used |= s.steps[j].args[a] == ref(i, k);
        for (size_t j = 0; j < s.outs; ++j) used |= s.out[j] == ref(i, k);
        text += fmt::format("{}{}", k ? ", " : "  ", used ? fmt::format("%v{}_{}", i, k) : "_");
      }
    }
    text += " = " + call_text(s, side, i, side.calls[i].size() - 1) + "\n";
  }
  text += s.outs > 1 ? "  [" : "  ";
  for (size_t i = 0; i < s.outs; ++i) text += (i ? ", " : "") + value_text(s, side, s.out[i]);
  return text + (s.outs > 1 ? "]\n" : "\n");
}

}  // namespace isomer::propose
