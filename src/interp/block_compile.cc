#include "interp/block_compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/arithmetic.h"
#include "interp/block_builder.h"
#include "interp/contract_plan.h"
#include "interp/stage_facts.h"
#include "te/scalar.h"

namespace isomer::interp {
namespace {

using te::Expr;
using te::Kind;
using te::Node;

class Compiler {
 public:
  Compiler(const te::Stage& stage, const std::vector<int64_t>& dims, const std::vector<const Tensor*>& slots,
           const CompileOptions& options)
      : stage_(stage), dims_(dims), options_(options), facts_(stage, dims, slots) {}

  Expected<BlockProgram> compile() {
    out_.slots = static_cast<int>(dims_.size());
    out_.lane_axis = facts_.lane_axis();
    if (!facts_.hides_axis())
      facts_.affine.quotient = [this](const Affine& x, int64_t divisor, bool remainder) {
        return quotient(x, divisor, remainder);
      };
    Reg r;
    if (facts_.why().empty()) r = emit(stage_.body, {});
    if (!facts_.why().empty()) return Diagnostic("E-eval", facts_.why());
    return std::move(b_).finish(r);
  }

 private:
  Reg fail(std::string why) {
    facts_.fail(std::move(why));
    return {};
  }

  // x / divisor or x % divisor as an axis of its own, when it is the same in all lanes but for a remainder's last part.
  std::optional<Affine> quotient(const Affine& x, int64_t divisor, bool remainder) {
    Affine rest{x.constant, {}}, lanes;
    int64_t unit = std::gcd(divisor, x.constant);
    for (const auto& [axis, k] : x.terms) {
      const int i = facts_.axis(axis);
      if (i < 0 && !invented_.count(axis)) return std::nullopt;
      if (i >= 0 && i == out_.lane_axis) {
        lanes.terms.emplace_back(axis, k);
      } else {
        rest.terms.emplace_back(axis, k);
        unit = std::gcd(unit, k);
      }
    }
    if (lanes.terms.empty()) unit = 1;
    const auto part = range_of(lanes, facts_.extents), all = range_of(rest, facts_.extents);
    if (!part || !all || part->low < 0 || part->high >= unit || all->low < 0) return std::nullopt;
    const int axis = invent({rest, divisor, remainder, remainder ? unit : 1}, *all);
    Affine out{0, {{axis, remainder ? unit : 1}}};
    return remainder ? add(out, lanes) : out;
  }
  struct Quotient {
    Affine x;
    int64_t divisor;
    bool remainder;
    int64_t unit;
    bool operator==(const Quotient&) const = default;
  };
  // The axis that stands for a quotient; equal ones share it, so that equal forms stay equal.
  int invent(const Quotient& q, const Range& range) {
    for (const auto& [id, known] : quotients_)
      if (known == q) return id;
    const int id = -2 - static_cast<int>(quotients_.size());
    Derived d{out_.slots++, *resolve(q.x), q.divisor, q.remainder, q.unit};
    facts_.extents[id] = (q.remainder ? std::min(range.high, q.divisor - 1) : range.high / q.divisor) / q.unit + 1;
    invented_[id] = d.slot;
    quotients_.emplace_back(id, q);
    out_.derived.push_back(std::move(d));
    return id;
  }

  int level_of(const Node& n) {
    int level = 0;
    for (int v : facts_.free(n)) level = std::max(level, b_.level_of_axis(v));
    return level;
  }
  // The slot of an axis, or -1 when no loop has it.
  int slot_of(int id) const {
    if (const int slot = b_.slot_of_axis(id); slot >= 0) return slot;
    if (const auto it = invented_.find(id); it != invented_.end()) return it->second;
    return facts_.axis(id);
  }
  std::optional<Form> resolve(const Affine& a) {
    Form f{a.constant, {}, 0};
    for (const auto& [axis, k] : a.terms) {
      const int slot = slot_of(axis);
      if (slot < 0) {
        fail(fmt::format("stage {} uses an axis that no loop has", quoted(stage_.name)));
        return std::nullopt;
      }
      f.terms.emplace_back(slot, k);
      if (slot == out_.lane_axis) f.lane = k;
    }
    return f;
  }

  Reg emit(const Expr& e, Mask mask) {
    if (!facts_.why().empty()) return {};
    if (!facts_.can_fail(e)) mask = {};
    const int level = std::max(level_of(*e), mask.level);
    if (const Reg* known = b_.known(&*e, mask, level)) return *known;
    const Reg r = emit_new(e, mask, level);
    if (facts_.why().empty()) b_.remember(&*e, mask, level, r);
    return r;
  }

  Reg emit_new(const Expr& e, const Mask& mask, int level) {
    if (const auto& a = facts_.affine.read(e)) return emit_affine(*a, level);
    switch (e->kind) {
      case Kind::Int: return b_.constant_int(e->integer);
      case Kind::Real: return b_.constant_real(e->real);
      case Kind::Var: return fail(fmt::format("stage {} uses an axis that no loop has", quoted(stage_.name)));
      case Kind::Size: return fail("the size " + e->size.to_string() + " is not known");
      case Kind::Read: return emit_read(*e, mask, level);
      case Kind::Unary: return emit_unary(*e, mask, level);
      case Kind::Binary: return emit_binary(e, mask, level);
      case Kind::Select: return emit_select(*e, mask, level);
      case Kind::Cast: return emit_cast(*e, mask, level);
      case Kind::Reduce: return emit_reduce(e, mask, level);
    }
    return {};
  }

  Reg emit_affine(const Affine& a, int level, Code code = Code::Affine) {
    const auto f = resolve(a);
    if (!f) return {};
    Instruction i = b_.instruction(code, f->lane == 0);
    i.extra = b_.form(*f);
    return b_.put(std::move(i), false, level);
  }

  Reg emit_read(const Node& n, const Mask& mask, int level) {
    const Tensor* t = facts_.tensor(n);
    if (!t) return {};
    Read read;
    read.tensor = t;
    // An empty tensor has no valid index; its strides do not matter, and their products might overflow.
    std::vector<int64_t> strides(t->rank(), t->size() == 0 ? 0 : 1);
    for (size_t i = t->size() == 0 ? 0 : t->rank(); i-- > 1;) strides[i - 1] = strides[i] * t->dims()[i];
    std::optional<Affine> address = Affine{};
    for (size_t i = 0; i < n.args.size() && address; ++i) {
      const auto& a = facts_.affine.read(n.args[i]);
      const auto part = a ? scale(*a, strides[i]) : std::nullopt;
      address = part ? add(*address, *part) : std::nullopt;
    }
    if (address && !range_of(*address, facts_.extents)) address.reset();
    bool uniform = true;
    if (address) {
      const auto f = resolve(*address);
      if (!f) return {};
      read.affine = true;
      read.address = *f;
      uniform = f->lane == 0;
      for (size_t i = 0; i < n.args.size(); ++i) {
        const Affine& a = *facts_.affine.read(n.args[i]);
        const auto r = range_of(a, facts_.extents);
        if (r && r->low >= 0 && r->high < t->dims()[i]) continue;
        read.checks.push_back({*resolve(a), t->dims()[i]});
        uniform = uniform && read.checks.back().index.lane == 0;
      }
    } else {
      for (size_t i = 0; i < n.args.size(); ++i) {
        const Reg r = emit(n.args[i], mask);
        read.indices.push_back({r.id, r.uniform, t->dims()[i], strides[i]});
        uniform = uniform && r.uniform;
      }
    }
    out_.reads.push_back(std::move(read));
    const bool real = is_float(n.dtype);
    Instruction i = b_.instruction(real ? Code::ReadReal : Code::ReadInt, uniform, mask);
    i.extra = static_cast<int>(out_.reads.size()) - 1;
    return b_.put(std::move(i), real, level);
  }

  Reg emit_unary(const Node& n, const Mask& mask, int level) {
    const Reg x = emit(n.args[0], mask);
    const bool real_in = is_float(n.args[0].dtype()), real = is_float(n.dtype);
    Instruction i = b_.instruction(real ? Code::RealUnary : real_in ? Code::RealTest : Code::IntUnary, x.uniform);
    i.op = static_cast<uint8_t>(n.unary);
    i.type = n.args[0].dtype();
    i.a = x.id;
    return b_.put(std::move(i), real, level);
  }

  Reg emit_binary(const Expr& e, const Mask& mask, int level) {
    const Node& n = *e;
    if (n.dtype == DType::Bool && (n.binary == te::BinaryOp::Le || n.binary == te::BinaryOp::Lt))
      if (const auto g = facts_.affine.guards(e); g && g->size() == 1)
        return emit_affine((*g)[0], level, Code::AffineTest);
    const Reg a = emit(n.args[0], mask), b = emit(n.args[1], mask);
    if (!facts_.why().empty()) return {};
    const bool real_in = is_float(n.args[0].dtype()), real = is_float(n.dtype);
    const bool uniform = a.uniform && b.uniform;
    Instruction i = b_.instruction(real      ? Code::RealBinary
                                   : real_in ? Code::RealCompare
                                             : Code::IntBinary,
                                   uniform, mask);
    i.op = static_cast<uint8_t>(n.binary);
    i.type = n.args[0].dtype();
    i.a = b_.wide(a, real_in, uniform);
    i.b = b_.wide(b, real_in, uniform);
    return b_.put(std::move(i), real, level);
  }

  Reg emit_select(const Node& n, const Mask& mask, int level) {
    const Reg c = emit(n.args[0], mask);
    if (!facts_.why().empty()) return {};
    const Reg a = emit(n.args[1], facts_.can_fail(n.args[1]) ? b_.narrow(mask, c, false) : Mask{});
    const Reg b = emit(n.args[2], facts_.can_fail(n.args[2]) ? b_.narrow(mask, c, true) : Mask{});
    if (!facts_.why().empty()) return {};
    const bool real = is_float(n.dtype), uniform = a.uniform && b.uniform && c.uniform;
    Instruction i = b_.instruction(real ? Code::SelectReal : Code::SelectInt, uniform);
    i.c = c.id;
    i.c_uniform = c.uniform;
    i.a = b_.wide(a, real, uniform);
    i.b = b_.wide(b, real, uniform);
    return b_.put(std::move(i), real, std::max({level, a.level, b.level, c.level}));
  }

  Reg emit_cast(const Node& n, const Mask& mask, int level) {
    const DType from = n.args[0].dtype(), to = n.dtype;
    Reg x = emit(n.args[0], mask);
    if (!is_float(to)) {
      Instruction i = b_.instruction(is_float(from) ? Code::RealToInt : Code::Wrap, x.uniform);
      i.type = to;
      i.a = x.id;
      return b_.put(std::move(i), false, level);
    }
    if (!is_float(from)) {
      Instruction i = b_.instruction(Code::IntToReal, x.uniform);
      i.type = from;
      i.a = x.id;
      x = b_.put(std::move(i), true, level);
    }
    if (to == DType::F64 || (to == DType::F32 && !options_.round_f32)) return x;
    Instruction i = b_.instruction(Code::Round, x.uniform);
    i.type = to;
    i.a = x.id;
    return b_.put(std::move(i), true, level);
  }

  Reg emit_reduce(const Expr& e, const Mask& mask, int level) {
    const Node& n = *e;
    const bool real = is_float(n.dtype);
    for (const te::Axis& a : n.axes)
      if (a.extent.value() <= 0)
        return is_arg(n.combiner) ? b_.constant_int(0)
               : real             ? b_.constant_real(real_identity(n.combiner))
                                  : b_.constant_int(int_identity(n.combiner, n.dtype));
    std::optional<int64_t> points = 1;
    for (const te::Axis& a : n.axes) points = points ? checked_mul(*points, a.extent.value()) : points;
    if (!points) return fail(fmt::format("stage {}: a reduction has more than 2^63 points", quoted(stage_.name)));
    if (const ContractionMatch* m = facts_.contraction(e)) return emit_contraction(*m, level);
    std::vector<std::pair<int, int64_t>> axes;
    for (const te::Axis& a : n.axes) axes.emplace_back(a.id, a.extent.value());
    if (axes.empty()) axes.emplace_back(-1, 1);
    return b_.in_loops(axes, level, [&] { return emit_reduction_body(n, mask, level); });
  }

  Reg emit_reduction_body(const Node& n, const Mask& mask, int level) {
    const bool always = n.args[1]->kind == Kind::Int && n.args[1]->integer != 0;
    Mask where;
    if (!always) {
      const Reg w = emit(n.args[1], mask);
      where = w;
      Instruction skip = b_.instruction(Code::SkipUnless, w.uniform);
      skip.a = w.id;
      b_.put_innermost(std::move(skip));
    }
    const bool body_fails = facts_.can_fail(n.args[0]);
    const Mask inner = !body_fails ? Mask{} : always ? mask : b_.narrow(mask, where, false);
    const Reg v = emit(n.args[0], inner);
    if (!facts_.why().empty()) return {};
    const bool uniform = v.uniform && where.uniform, real_in = is_float(n.args[0].dtype());
    const Code code = is_arg(n.combiner) ? (real_in ? Code::ArgReal : Code::ArgInt)
                                         : (real_in ? Code::CombineReal : Code::CombineInt);
    Instruction i = b_.instruction(code, uniform, where);
    i.op = static_cast<uint8_t>(n.combiner);
    i.type = n.args[0].dtype();
    i.a = b_.wide(v, real_in, uniform);
    Reg result;
    if (is_arg(n.combiner)) {
      result = b_.fill(false, uniform, level, 0, 0);
      i.b = b_.fill(real_in, uniform, level, 0, 0).id;
      i.c = b_.fill(false, uniform, level, 0, 0).id;
      i.extra = position_form(n);
    } else {
      result = b_.fill(real_in, uniform, level, real_identity(n.combiner), int_identity(n.combiner, n.dtype));
    }
    i.dst = result.id;
    b_.put_innermost(std::move(i));
    return result;
  }
  // Row-major position over the reduction's axes.
  int position_form(const Node& n) {
    Form f;
    int64_t stride = 1;
    for (size_t k = n.axes.size(); k-- > 0; stride *= n.axes[k].extent.value())
      f.terms.emplace_back(slot_of(n.axes[k].id), stride);
    return b_.form(std::move(f));
  }

  Reg emit_contraction(const ContractionMatch& m, int level) {
    Contraction c;
    for (const te::Axis& a : m.axes) c.extents.push_back(a.extent.value());
    bool uniform = true;
    const auto part = [&](const Affine& a) {
      Contraction::Part p;
      Affine outer{a.constant, {}};
      p.steps.resize(m.axes.size());
      for (const auto& [axis, k] : a.terms) {
        const auto it = std::find_if(m.axes.begin(), m.axes.end(), [&, id = axis](auto& x) { return x.id == id; });
        if (it != m.axes.end())
          p.steps[static_cast<size_t>(it - m.axes.begin())] = k;
        else if (std::find(m.unit_axes.begin(), m.unit_axes.end(), axis) == m.unit_axes.end())
          outer.terms.emplace_back(axis, k);
      }
      if (auto f = resolve(outer)) p.form = *std::move(f);
      uniform = uniform && p.form.lane == 0;
      return p;
    };
    c.a = {m.a, part(m.a_address)};
    c.b = {m.b, part(m.b_address)};
    for (const Affine& g : m.guards) c.guards.push_back(part(g));
    if (level == 1 && out_.panel < 0) plan_rows(c, m, dims_, out_.lane_axis);
    out_.contractions.push_back(std::move(c));
    Instruction i = b_.instruction(Code::Contract, uniform);
    i.extra = static_cast<int>(out_.contractions.size()) - 1;
    if (!out_.contractions.back().row_axes.empty()) out_.panel = i.extra;
    return b_.put(std::move(i), true, level);
  }

  const te::Stage& stage_;
  const std::vector<int64_t>& dims_;
  const CompileOptions options_;
  StageFacts facts_;
  std::vector<std::pair<int, Quotient>> quotients_;  // by invented axis
  std::unordered_map<int, int> invented_;            // invented axis -> slot
  BlockBuilder b_;
  BlockProgram& out_ = b_.program;
};

}  // namespace

Expected<BlockProgram> compile_stage(const te::Stage& stage, const std::vector<int64_t>& dims,
                                     const std::vector<const Tensor*>& slots, const CompileOptions& options) {
  return Compiler(stage, dims, slots, options).compile();
}

}  // namespace isomer::interp
