#include "propose/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace isomer::propose {
namespace {

using Kind = OperandSpec::Kind;

Dim of_operands(const Dim& d, const std::vector<std::vector<Dim>>& operands) {
  return d.substitute([&](const std::string& name) -> std::optional<Dim> {
    if (name.size() < 4 || name[0] != '$') return std::nullopt;
    const auto o = static_cast<size_t>(name[1] - '0'), axis = static_cast<size_t>(name[3] - '0');
    return o < operands.size() && axis < operands[o].size() ? operands[o][axis] : Dim::invalid();
  });
}

bool valid(const std::vector<Dim>& dims) {
  return std::none_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_invalid(); });
}

Dim product(const Dim::Product& p) {
  Dim d(1);
  for (const Dim::Factor& f : p.factors) {
    if (f.kind == Dim::Factor::Kind::Symbol) d = d * Dim::symbol(f.name);
    if (f.kind == Dim::Factor::Kind::FloorDiv) d = d * floor_div(f.a, f.b);
    if (f.kind == Dim::Factor::Kind::Max) d = d * max(f.a, f.b);
    if (f.kind == Dim::Factor::Kind::Min) d = d * min(f.a, f.b);
  }
  return d;
}

}  // namespace

std::vector<std::array<Dim, 2>> cuts(const Dim& extent) {
  std::vector<Dim> terms;
  for (const Dim::Product& p : extent.terms()) {
    if (p.coefficient < 1 || p.coefficient > 3 || p.factors.empty()) return {};
    for (int64_t i = 0; i < p.coefficient; ++i) terms.push_back(product(p));
  }
  if (terms.size() < 2 || terms.size() > 3) return {};
  std::vector<std::array<Dim, 2>> out;
  for (size_t mask = 1; mask + 1 < (size_t{1} << terms.size()); ++mask) {
    std::array<Dim, 2> parts{Dim(0), Dim(0)};
    for (size_t i = 0; i < terms.size(); ++i) {
      Dim& part = parts[(mask >> i) & 1];
      part = part + terms[i];
    }
    if (std::none_of(out.begin(), out.end(), [&](const auto& p) { return p[0] == parts[0]; })) out.push_back(parts);
  }
  return out;
}

std::optional<std::vector<ResolvedCall>> resolve(const Template& t, const std::vector<std::vector<Dim>>& operands) {
  std::vector<ResolvedCall> out;
  for (const CallSpec& spec : t.calls) {
    ResolvedCall c;
    c.spec = &spec;
    for (const OperandSpec& o : spec.operands) {
      std::vector<Dim> sizes;
      if (o.kind == Kind::Parts) {
        if (o.index >= operands[0].size()) return std::nullopt;
        const auto ways = cuts(operands[0][o.index]);
        if (t.cut >= ways.size()) return std::nullopt;
        sizes.assign(ways[t.cut].begin(), ways[t.cut].end());
      }
      for (const Dim& d : o.sizes) sizes.push_back(of_operands(d, operands));
      if (!valid(sizes)) return std::nullopt;
      c.operand_sizes.push_back(std::move(sizes));
    }
    for (const auto& [name, size] : spec.sizes) c.attr_sizes.push_back(of_operands(size, operands));
    if (!valid(c.attr_sizes)) return std::nullopt;
    out.push_back(std::move(c));
  }
  return out;
}

Expected<std::vector<ir::Value>> build(const Template& t, const std::vector<ResolvedCall>& calls,
                                       const std::vector<ir::Value>& operands, const SizeOf& value_of,
                                       ir::GraphBuilder& builder) {
  std::vector<std::vector<ir::Value>> results;
  for (size_t i = 0; i < calls.size(); ++i) {
    const CallSpec& spec = *calls[i].spec;
    std::vector<ir::Value> in;
    for (size_t k = 0; k < spec.operands.size(); ++k) {
      const OperandSpec& o = spec.operands[k];
      switch (o.kind) {
        case Kind::Operand: in.push_back(operands[o.index]); break;
        case Kind::Call: in.push_back(results[o.index][0]); break;
        case Kind::Number: in.push_back(builder.constant(Tensor::scalar(DType::F32, o.number))); break;
        case Kind::Sizes:
        case Kind::Parts: {
          std::vector<Dim> sizes;
          for (const Dim& d : calls[i].operand_sizes[k]) sizes.push_back(value_of(d));
          const bool numbers = std::all_of(sizes.begin(), sizes.end(), [](const Dim& d) { return d.is_const(); });
          if (!numbers) {
            in.push_back(builder.sizes(std::move(sizes)));
            break;
          }
          std::vector<int64_t> values;
          for (const Dim& d : sizes) values.push_back(d.value());
          in.push_back(
              builder.constant(Tensor::of<int64_t>(DType::I64, {static_cast<int64_t>(values.size())}, values)));
        }
      }
    }
    ir::Attrs attrs = spec.attrs;
    for (size_t k = 0; k < spec.sizes.size(); ++k) {
      const Dim d = value_of(calls[i].attr_sizes[k]);
      attrs.set(spec.sizes[k].first, d.is_const() ? ir::AttrValue(d.value()) : ir::AttrValue(ir::Sizes({d})));
    }
    const bool last = i + 1 == calls.size();
    ISOMER_TRY(auto made, builder.add(spec.op, std::move(in), std::move(attrs), {}, last ? t.results : 1));
    results.push_back(std::move(made));
  }
  return results.back();
}

KernelTable::KernelTable(const Family& family, const ir::OpTable& table) : family_(family), table_(table) {}

Dim KernelTable::numbered(const Dim& d) const {
  return d.substitute([&](const std::string& name) -> std::optional<Dim> {
    const auto it = family_.sizes.find(name);
    return it == family_.sizes.end() ? std::nullopt : std::optional<Dim>(it->second);
  });
}

ShapeId KernelTable::shape(const std::vector<Dim>& dims) {
  std::string key;
  for (const Dim& d : dims) key += d.to_string() + ";";
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = shape_ids_.find(key); it != shape_ids_.end()) return it->second;
  }
  const std::lock_guard lock(mutex_);
  const auto [it, fresh] = shape_ids_.try_emplace(key, static_cast<ShapeId>(shapes_.size()));
  if (!fresh) return it->second;
  auto s = std::make_unique<ShapeInfo>();
  s->dims = dims;
  s->hash = 0x51ED270B;
  for (const Dim& d : dims) {
    s->numbers.push_back(numbered(d).constant().value_or(-1));
    s->elements *= static_cast<size_t>(std::max<int64_t>(1, s->numbers.back()));
    s->hash = (s->hash ^ static_cast<uint64_t>(s->numbers.back() + 7)) * 0x9E3779B97F4A7C15ULL;
  }
  shapes_view_[it->second] = s.get();
  shapes_.push_back(std::move(s));
  return it->second;
}

bool KernelTable::fits(const Template& t, const ShapeId* operands) const {
  for (size_t i = 0; i < t.operands; ++i) {
    const ShapeInfo& s = info(operands[i]);
    if (i < t.ranks.size() && t.ranks[i] >= 0 && s.dims.size() != static_cast<size_t>(t.ranks[i])) return false;
    if (t.same_shape && !(s.dims == info(operands[0]).dims)) return false;
  }
  return std::all_of(t.extents.begin(), t.extents.end(), [&](const Template::Extent& e) {
    const ShapeInfo& s = info(operands[e.operand]);
    return e.axis < s.dims.size() && s.dims[e.axis] == e.value;
  });
}

Kernel KernelTable::make(uint32_t which, const ShapeId* operands) {
  const Template& t = family_.templates[which];
  Kernel k;
  if (!fits(t, operands)) return k;
  std::vector<std::vector<Dim>> dims;
  for (size_t i = 0; i < t.operands; ++i) dims.push_back(info(operands[i]).dims);
  auto calls = resolve(t, dims);
  if (!calls) return k;
  // Twice: with symbols for the shapes that rules will state, with numbers for the tape.
  std::array<std::optional<ir::Graph>, 2> graphs;
  for (size_t pass = 0; pass < 2; ++pass) {
    ir::GraphBuilder builder(table_, "kernel");
    std::vector<ir::Value> in;
    for (size_t i = 0; i < t.operands; ++i) {
      const ShapeInfo& s = info(operands[i]);
      auto v = builder.input(fmt::format("x{}", i), {DType::F32, pass ? Shape::of(s.numbers) : Shape(s.dims), nullptr});
      if (!v.ok()) return k;
      in.push_back(*v);
    }
    const auto value_of = [&](const Dim& d) { return pass ? numbered(d) : d; };
    auto made = build(t, *calls, in, value_of, builder);
    if (!made.ok()) return k;
    for (size_t o = 0; o < made->size(); ++o) builder.output(fmt::format("y{}", o), (*made)[o]);
    auto graph = std::move(builder).finish();
    if (!graph.ok()) return k;
    graphs[pass] = *std::move(graph);
  }
  for (size_t o = 0; o < t.results; ++o) {
    const Type& symbolic = graphs[0]->type(graphs[0]->outputs()[o].value);
    const Type& concrete = graphs[1]->type(graphs[1]->outputs()[o].value);
    if (!symbolic.shape.has_rank() || !valid(symbolic.shape.dims()) || symbolic.dtype != DType::F32) return k;
    if (!concrete.shape.has_rank() || !concrete.shape.is_static()) return k;
    const ShapeId id = shape(symbolic.shape.dims());
    if (info(id).numbers != concrete.shape.values() || info(id).elements > static_cast<size_t>(kMaxElements)) return k;
    k.results.push_back(id);
  }
  auto tape = record(*graphs[1], table_);
  if (!tape.ok()) return k;
  k.tape = *std::move(tape);
  k.calls = *std::move(calls);
  k.ok = true;
  return k;
}

const Kernel& KernelTable::find(uint32_t t, const ShapeId* operands) {
  static_assert(kMaxOperands <= 7);
  Key key;
  key.words[0] = t;
  for (size_t i = 0; i < family_.templates[t].operands; ++i)
    key.words[(i + 1) / 4] |= static_cast<uint64_t>(operands[i]) << (16 * ((i + 1) % 4));
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = kernels_.find(key); it != kernels_.end()) return *it->second;
  }
  auto made = std::make_unique<Kernel>(make(t, operands));
  const std::lock_guard lock(mutex_);
  return *kernels_.try_emplace(key, std::move(made)).first->second;
}

}  // namespace isomer::propose
