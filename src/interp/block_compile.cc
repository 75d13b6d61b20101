#include "interp/block_compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/arithmetic.h"
#include "interp/contract_plan.h"
#include "interp/stage_facts.h"
#include "te/scalar.h"

namespace isomer::interp {
namespace {

using te::Expr;
using te::Kind;
using te::Node;

struct Reg {
  int id = -1;
  bool uniform = true;
  int level = 0;
};

// Lanes on which an expression is evaluated; id -1: all.
struct Mask {
  int id = -1;
  bool uniform = true;
  int level = 0;
};

// Level 0 runs once, level 1 per block, each further level is a reduction's loop. While a reduction that depends on
// nothing is compiled, its loops follow level 0 at once.
struct Scope {
  int axis = -1;
  int slot = -1;
  int64_t extent = 1;
  std::vector<Instruction> body;
  std::map<std::pair<const Node*, int>, Reg> known;  // by expression and mask
  std::map<std::pair<bool, int>, Reg> splats;        // by kind and register
};

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
    scopes_.resize(2);
    Reg r;
    if (facts_.why().empty()) r = emit(stage_.body, {});
    if (!facts_.why().empty()) return Diagnostic("E-eval", facts_.why());
    out_.result = r.id;
    out_.result_uniform = r.uniform;
    out_.once = std::move(scopes_[0].body);
    out_.block = std::move(scopes_[1].body);
    out_.point_cost = cost(out_.block);
    return std::move(out_);
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

  int axis_level(int id) const {
    for (size_t l = scopes_.size(); l-- > 1;)
      if (scopes_[l].axis == id) return static_cast<int>(l);
    return 1;
  }
  int level_of(const Node& n) {
    int level = 0;
    for (int v : facts_.free(n)) level = std::max(level, axis_level(v));
    return level;
  }
  // The slot of an axis, or -1 when no loop has it.
  int slot_of(int id) const {
    for (size_t l = scopes_.size(); l-- > 1;)
      if (scopes_[l].axis == id) return scopes_[l].slot;
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

  Reg fresh_register(bool real, bool uniform, int level) {
    auto& file = real ? out_.real_uniform : out_.int_uniform;
    file.push_back(uniform);
    return {static_cast<int>(file.size()) - 1, uniform, level};
  }
  Reg put(Instruction i, bool real, int level) {
    const Reg r = fresh_register(real, i.uniform, level);
    i.dst = r.id;
    scopes_[static_cast<size_t>(level)].body.push_back(std::move(i));
    return r;
  }
  Instruction instruction(Code code, bool uniform, const Mask& m = {}) {
    Instruction i{.code = code};
    i.uniform = uniform;
    i.mask = m.id;
    i.mask_uniform = m.uniform;
    return i;
  }
  // The register with a value per lane, when the instruction that reads it has one.
  int wide(const Reg& r, bool real, bool uniform) {
    if (uniform || !r.uniform) return r.id;
    Scope& s = scopes_[static_cast<size_t>(r.level)];
    const auto it = s.splats.find({real, r.id});
    if (it != s.splats.end()) return it->second.id;
    Instruction i = instruction(real ? Code::SplatReal : Code::SplatInt, false);
    i.a = r.id;
    return (s.splats[{real, r.id}] = put(std::move(i), real, r.level)).id;
  }

  Reg emit(const Expr& e, Mask mask) {
    if (!facts_.why().empty()) return {};
    if (!facts_.can_fail(e)) mask = {};
    const int level = std::max(level_of(*e), mask.level);
    const std::pair key(&*e, mask.id);
    const auto& known = scopes_[static_cast<size_t>(level)].known;
    if (const auto it = known.find(key); it != known.end()) return it->second;
    const Reg r = emit_new(e, mask, level);
    if (facts_.why().empty()) scopes_[static_cast<size_t>(level)].known[key] = r;
    return r;
  }

  Reg emit_new(const Expr& e, const Mask& mask, int level) {
    if (const auto& a = facts_.affine.read(e)) return emit_affine(*a, level);
    switch (e->kind) {
      case Kind::Int: return constant_int(e->integer);
      case Kind::Real: return constant_real(e->real);
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

  Reg constant_int(int64_t v) {
    Instruction i = instruction(Code::IntConstant, true);
    i.integer = v;
    return put(std::move(i), false, 0);
  }
  Reg constant_real(double v) {
    Instruction i = instruction(Code::RealConstant, true);
    i.real = v;
    return put(std::move(i), true, 0);
  }
  Reg emit_affine(const Affine& a, int level, Code code = Code::Affine) {
    const auto f = resolve(a);
    if (!f) return {};
    out_.forms.push_back(*f);
    Instruction i = instruction(code, f->lane == 0);
    i.extra = static_cast<int>(out_.forms.size()) - 1;
    return put(std::move(i), false, level);
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
    Instruction i = instruction(real ? Code::ReadReal : Code::ReadInt, uniform, mask);
    i.extra = static_cast<int>(out_.reads.size()) - 1;
    return put(std::move(i), real, level);
  }

  Reg emit_unary(const Node& n, const Mask& mask, int level) {
    const Reg x = emit(n.args[0], mask);
    const bool real_in = is_float(n.args[0].dtype()), real = is_float(n.dtype);
    Instruction i = instruction(real ? Code::RealUnary : real_in ? Code::RealTest : Code::IntUnary, x.uniform);
    i.op = static_cast<uint8_t>(n.unary);
    i.type = n.args[0].dtype();
    i.a = x.id;
    return put(std::move(i), real, level);
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
    Instruction i = instruction(real ? Code::RealBinary : real_in ? Code::RealCompare : Code::IntBinary, uniform, mask);
    i.op = static_cast<uint8_t>(n.binary);
    i.type = n.args[0].dtype();
    i.a = wide(a, real_in, uniform);
    i.b = wide(b, real_in, uniform);
    return put(std::move(i), real, level);
  }

  // The mask of a branch: the context's and the condition (or its opposite).
  Mask narrow(const Mask& mask, const Reg& condition, bool opposite) {
    Reg c = condition;
    if (opposite) {
      Instruction i = instruction(Code::IntUnary, c.uniform);
      i.op = static_cast<uint8_t>(te::UnaryOp::Not);
      i.type = DType::Bool;
      i.a = c.id;
      c = put(std::move(i), false, c.level);
    }
    if (mask.id < 0) return {c.id, c.uniform, c.level};
    const bool uniform = c.uniform && mask.uniform;
    const int level = std::max(c.level, mask.level);
    Instruction i = instruction(Code::IntBinary, uniform);
    i.op = static_cast<uint8_t>(te::BinaryOp::And);
    i.type = DType::Bool;
    i.a = wide(c, false, uniform);
    i.b = wide({mask.id, mask.uniform, mask.level}, false, uniform);
    const Reg r = put(std::move(i), false, level);
    return {r.id, r.uniform, r.level};
  }

  Reg emit_select(const Node& n, const Mask& mask, int level) {
    const Reg c = emit(n.args[0], mask);
    if (!facts_.why().empty()) return {};
    const Reg a = emit(n.args[1], facts_.can_fail(n.args[1]) ? narrow(mask, c, false) : Mask{});
    const Reg b = emit(n.args[2], facts_.can_fail(n.args[2]) ? narrow(mask, c, true) : Mask{});
    if (!facts_.why().empty()) return {};
    const bool real = is_float(n.dtype), uniform = a.uniform && b.uniform && c.uniform;
    Instruction i = instruction(real ? Code::SelectReal : Code::SelectInt, uniform);
    i.c = c.id;
    i.c_uniform = c.uniform;
    i.a = wide(a, real, uniform);
    i.b = wide(b, real, uniform);
    return put(std::move(i), real, std::max({level, a.level, b.level, c.level}));
  }

  Reg emit_cast(const Node& n, const Mask& mask, int level) {
    const DType from = n.args[0].dtype(), to = n.dtype;
    Reg x = emit(n.args[0], mask);
    if (!is_float(to)) {
      Instruction i = instruction(is_float(from) ? Code::RealToInt : Code::Wrap, x.uniform);
      i.type = to;
      i.a = x.id;
      return put(std::move(i), false, level);
    }
    if (!is_float(from)) {
      Instruction i = instruction(Code::IntToReal, x.uniform);
      i.type = from;
      i.a = x.id;
      x = put(std::move(i), true, level);
    }
    if (to == DType::F64 || (to == DType::F32 && !options_.round_f32)) return x;
    Instruction i = instruction(Code::Round, x.uniform);
    i.type = to;
    i.a = x.id;
    return put(std::move(i), true, level);
  }

  Reg emit_reduce(const Expr& e, const Mask& mask, int level) {
    const Node& n = *e;
    const bool real = is_float(n.dtype);
    for (const te::Axis& a : n.axes)
      if (a.extent.value() <= 0)
        return is_arg(n.combiner) ? constant_int(0)
               : real             ? constant_real(real_identity(n.combiner))
                                  : constant_int(int_identity(n.combiner, n.dtype));
    std::optional<int64_t> points = 1;
    for (const te::Axis& a : n.axes) points = points ? checked_mul(*points, a.extent.value()) : points;
    if (!points) return fail(fmt::format("stage {}: a reduction has more than 2^63 points", quoted(stage_.name)));
    if (const ContractionMatch* m = facts_.contraction(e)) return emit_contraction(*m, level);
    std::vector<Scope> tail(std::make_move_iterator(scopes_.begin() + level + 1),
                            std::make_move_iterator(scopes_.end()));
    scopes_.resize(static_cast<size_t>(level) + 1);
    for (const te::Axis& a : n.axes) push_loop(a.id, a.extent.value());
    if (n.axes.empty()) push_loop(-1, 1);
    const Reg r = emit_reduction_body(n, mask, level);
    while (scopes_.size() > static_cast<size_t>(level) + 1) {
      Scope inner = std::move(scopes_.back());
      scopes_.pop_back();
      out_.loops.push_back({inner.slot, inner.extent, std::move(inner.body)});
      Instruction i = instruction(Code::Loop, true);
      i.extra = static_cast<int>(out_.loops.size()) - 1;
      scopes_.back().body.push_back(std::move(i));
    }
    std::move(tail.begin(), tail.end(), std::back_inserter(scopes_));
    return r;
  }
  void push_loop(int axis, int64_t extent) {
    Scope s;
    s.axis = axis;
    s.slot = out_.slots++;
    s.extent = extent;
    scopes_.push_back(std::move(s));
  }

  Reg emit_reduction_body(const Node& n, const Mask& mask, int level) {
    const bool always = n.args[1]->kind == Kind::Int && n.args[1]->integer != 0;
    Mask where;
    if (!always) {
      const Reg w = emit(n.args[1], mask);
      where = {w.id, w.uniform, w.level};
      Instruction skip = instruction(Code::SkipUnless, w.uniform);
      skip.a = w.id;
      scopes_.back().body.push_back(std::move(skip));
    }
    const bool body_fails = facts_.can_fail(n.args[0]);
    const Mask inner = !body_fails ? Mask{}
                       : always    ? mask
                                   : narrow(mask, {where.id, where.uniform, where.level}, false);
    const Reg v = emit(n.args[0], inner);
    if (!facts_.why().empty()) return {};
    const bool uniform = v.uniform && where.uniform, real_in = is_float(n.args[0].dtype());
    const Code code = is_arg(n.combiner) ? (real_in ? Code::ArgReal : Code::ArgInt)
                                         : (real_in ? Code::CombineReal : Code::CombineInt);
    Instruction i = instruction(code, uniform, where);
    i.op = static_cast<uint8_t>(n.combiner);
    i.type = n.args[0].dtype();
    i.a = wide(v, real_in, uniform);
    Reg result;
    if (is_arg(n.combiner)) {
      result = fill(false, uniform, level, 0, 0);
      i.b = fill(real_in, uniform, level, 0, 0).id;
      i.c = fill(false, uniform, level, 0, 0).id;
      i.extra = position_form(n);
    } else {
      result = fill(real_in, uniform, level, real_identity(n.combiner), int_identity(n.combiner, n.dtype));
    }
    i.dst = result.id;
    scopes_.back().body.push_back(std::move(i));
    return result;
  }
  Reg fill(bool real, bool uniform, int level, double r, int64_t v) {
    Instruction i = instruction(real ? Code::FillReal : Code::FillInt, uniform);
    i.real = r;
    i.integer = v;
    return put(std::move(i), real, level);
  }
  // Row-major position over the reduction's axes.
  int position_form(const Node& n) {
    Form f;
    int64_t stride = 1;
    for (size_t k = n.axes.size(); k-- > 0; stride *= n.axes[k].extent.value())
      f.terms.emplace_back(slot_of(n.axes[k].id), stride);
    out_.forms.push_back(std::move(f));
    return static_cast<int>(out_.forms.size()) - 1;
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
    Instruction i = instruction(Code::Contract, uniform);
    i.extra = static_cast<int>(out_.contractions.size()) - 1;
    if (!out_.contractions.back().row_axes.empty()) out_.panel = i.extra;
    return put(std::move(i), true, level);
  }

  double cost(const std::vector<Instruction>& body) const {
    double total = 0;
    for (const Instruction& i : body) {
      total += 1;
      if (i.code == Code::Loop) {
        const Loop& l = out_.loops[static_cast<size_t>(i.extra)];
        total += static_cast<double>(l.extent) * cost(l.body);
      } else if (i.code == Code::Contract) {
        double points = 1;
        for (int64_t x : out_.contractions[static_cast<size_t>(i.extra)].extents) points *= static_cast<double>(x);
        total += points;
      }
    }
    return total;
  }

  const te::Stage& stage_;
  const std::vector<int64_t>& dims_;
  const CompileOptions options_;
  StageFacts facts_;
  std::vector<std::pair<int, Quotient>> quotients_;  // by invented axis
  std::unordered_map<int, int> invented_;            // invented axis -> slot
  std::vector<Scope> scopes_;
  BlockProgram out_;
};

}  // namespace

Expected<BlockProgram> compile_stage(const te::Stage& stage, const std::vector<int64_t>& dims,
                                     const std::vector<const Tensor*>& slots, const CompileOptions& options) {
  return Compiler(stage, dims, slots, options).compile();
}

}  // namespace isomer::interp
