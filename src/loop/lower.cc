#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "loop/nest.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "tensor/tensor.h"

namespace isomer::loop {
namespace {

using te::Axis;
using te::Combiner;
using te::Expr;
using te::Kind;

constexpr int kMaxDepth = 4000;  // of an expression; deeper ones would exhaust the stack of every reader of the result

int depth_of(const Expr& root) {
  std::unordered_map<const void*, int> depth;
  std::vector<const Expr*> todo = {&root};
  while (!todo.empty()) {
    const Expr* e = todo.back();
    int most = 0;
    bool ready = true;
    for (const Expr& x : (*e)->args) {
      const auto it = depth.find(x.identity());
      if (it == depth.end()) {
        if (ready) ready = false;
        todo.push_back(&x);
      } else {
        most = std::max(most, it->second);
      }
    }
    if (!ready) continue;
    depth.emplace(e->identity(), most + 1);
    todo.pop_back();
  }
  return depth.at(root.identity());
}

bool is_true(const Expr& e) { return e->kind == Kind::Int && e->integer; }
Expr both(const Expr& first, const Expr& then) {
  if (is_true(first)) return then;
  if (is_true(then)) return first;
  return te::select(first, then, te::truth(false));
}

// Rewrites a program so that a Reduce stands only at the top of a stage and is a Sum, Product, Max or Min.
class Lifter {
 public:
  explicit Lifter(const te::Program& p) : in_(p) {
    out_.inputs = p.inputs;
    const auto widest = [&](const Axis& a) { next_axis_ = std::max(next_axis_, a.id + 1); };
    for (const te::Stage& s : p.stages) {
      std::for_each(s.axes.begin(), s.axes.end(), widest);
      te::Expr body = s.body;
      rebuild(body, [&](const Expr& e) {
        std::for_each(e->axes.begin(), e->axes.end(), widest);
        return Expr();
      });
    }
  }

  te::Program run() {
    for (size_t s = 0; s < in_.inputs.size(); ++s) slots_.push_back(static_cast<int>(s));
    for (const te::Stage& s : in_.stages) {
      te::Stage fresh = s;
      fresh.body = moved(apart(s.body));
      rename(fresh.axes, fresh.body);
      slots_.push_back(stage(std::move(fresh)));
    }
    for (const int slot : in_.outputs) out_.outputs.push_back(slots_[static_cast<size_t>(slot)]);
    return std::move(out_);
  }

 private:
  Axis fresh(const Axis& a) { return {next_axis_++, a.name, a.extent}; }

  void rename(std::vector<Axis>& axes, Expr& body) {
    Substitution map;
    for (Axis& a : axes) {
      const Axis old = a;
      a = fresh(a);
      map.emplace(old.id, a);
    }
    body = substitute(body, map);
  }

  // Every Reduce binds axes of its own.
  Expr apart(const Expr& e) {
    return rebuild(e, [&](const Expr& x) {
      if (x->kind != Kind::Reduce) return Expr();
      te::Node n = *x;
      Substitution map;
      for (Axis& a : n.axes) {
        const Axis old = a;
        a = fresh(a);
        map.emplace(old.id, a);
      }
      for (Expr& arg : n.args) arg = substitute(arg, map);
      return Expr::make(std::move(n));
    });
  }

  Expr moved(const Expr& e) {
    return rebuild(e, [&](const Expr& x) {
      if (x->kind != Kind::Read || slots_[static_cast<size_t>(x->tensor)] == x->tensor) return Expr();
      te::Node n = *x;
      n.tensor = slots_[static_cast<size_t>(n.tensor)];
      return Expr::make(std::move(n));
    });
  }

  int add(te::Stage s) {
    out_.stages.push_back(std::move(s));
    return static_cast<int>(out_.inputs.size() + out_.stages.size()) - 1;
  }

  static bool accumulates_wider(const te::Node& r) {
    const bool adds = r.combiner == Combiner::Sum || r.combiner == Combiner::Product;
    return adds && (r.dtype == DType::F16 || r.dtype == DType::BF16);
  }

  int stage(te::Stage s) {
    const bool plain = s.body->kind == Kind::Reduce && !te::is_arg(s.body->combiner) && !accumulates_wider(*s.body);
    memo_.clear();
    const std::vector<Axis> scope = s.axes;
    if (plain) {
      te::Node r = *s.body;
      std::vector<Axis> inner = scope;
      inner.insert(inner.end(), r.axes.begin(), r.axes.end());
      const Expr where = lift(r.args[1], te::truth(true), inner, s.name);
      r.args = {lift(r.args[0], where, inner, s.name), where};
      s.body = Expr::make(std::move(r));
    } else {
      s.body = lift(s.body, te::truth(true), scope, s.name);
    }
    return add(std::move(s));
  }

  // The expression with every Reduce in it replaced by a read of a stage that computes it where `path` holds.
  Expr lift(const Expr& e, const Expr& path, const std::vector<Axis>& scope, const std::string& name) {
    const auto key = std::pair(e.identity(), path.identity());
    if (const auto it = memo_.find(key); it != memo_.end()) return it->second;
    keep_.push_back(e);
    keep_.push_back(path);
    Expr out = e;
    if (e->kind == Kind::Reduce) {
      out = stage_of(e, path, scope, name);
    } else if (e->kind == Kind::Select) {
      const Expr c = lift(e->args[0], path, scope, name);
      const Expr yes = lift(e->args[1], has_reduce(e->args[1]) ? both(path, c) : path, scope, name);
      const Expr no = lift(e->args[2], has_reduce(e->args[2]) ? both(path, !c) : path, scope, name);
      out = te::select(c, yes, no);
    } else if (!e->args.empty()) {
      te::Node n = *e;
      bool changed = false;
      for (Expr& x : n.args) {
        const Expr y = lift(x, path, scope, name);
        changed |= !y.same_node(x);
        x = y;
      }
      if (changed) out = Expr::make(std::move(n));
    }
    memo_.emplace(key, out);
    return out;
  }

  static bool has_reduce(const Expr& e) {
    bool found = false;
    rebuild(e, [&](const Expr& x) {
      found |= x->kind == Kind::Reduce;
      return Expr();
    });
    return found;
  }

  // A stage over those axes in scope that `reduction` depends on, and the read of it.
  Expr stage_of(const Expr& reduction, const Expr& path, const std::vector<Axis>& scope, const std::string& name) {
    te::Node r = *reduction;
    r.args[1] = both(path, r.args[1]);
    std::vector<int> used;
    variables(r.args[0], used);
    variables(r.args[1], used);
    std::vector<Axis> free;
    for (const Axis& a : scope)
      if (std::find(used.begin(), used.end(), a.id) != used.end()) free.push_back(a);
    const auto memo = std::move(memo_);
    Expr out = te::is_arg(r.combiner) ? position(r, free, name) : value(r, free, name);
    memo_ = memo;
    return out;
  }

  Expr read_stage(const std::string& name, std::vector<Axis> axes, Expr body) {
    const std::vector<Expr> at = te::exprs(axes);
    const DType dtype = body.dtype();
    body = apart(body);
    rename(axes, body);
    return Expr::read(stage({name, dtype, std::move(axes), std::move(body)}), dtype, at);
  }

  Expr value(const te::Node& r, const std::vector<Axis>& free, const std::string& name) {
    const std::string own = name + "_" + std::string(te::name(r.combiner));
    if (!accumulates_wider(r)) return read_stage(own, free, Expr::make(r));
    const Expr wide = te::reduce(r.combiner, r.axes, te::cast(DType::F32, r.args[0]), r.args[1]);
    return te::cast(r.dtype, read_stage(own, free, wide));
  }

  // The extremum first, then the least (or greatest) position that has it. Both look at the same stored numbers.
  Expr position(const te::Node& r, const std::vector<Axis>& free, const std::string& name) {
    const bool most = r.combiner == Combiner::ArgMax || r.combiner == Combiner::ArgMaxLast;
    const bool last = r.combiner == Combiner::ArgMaxLast || r.combiner == Combiner::ArgMinLast;
    Expr v = r.args[0];
    if (v->kind != Kind::Read) {
      std::vector<Axis> all = free;
      all.insert(all.end(), r.axes.begin(), r.axes.end());
      const Expr guarded = is_true(r.args[1]) ? v : te::select(r.args[1], v, Expr::literal(v.dtype(), 0));
      v = read_stage(name + "_values", all, guarded);
    }
    const Expr best = read_stage(name + (most ? "_max" : "_min"), free,
                                 te::reduce(most ? Combiner::Max : Combiner::Min, r.axes, v, r.args[1]));
    Expr hit = te::eq(v, best);
    if (is_float(v.dtype())) hit = hit || te::unary(te::UnaryOp::IsNan, v);
    std::vector<Dim> dims;
    for (const Axis& a : r.axes) dims.push_back(a.extent);
    const Expr at = te::flatten(te::exprs(r.axes), dims);
    const Expr found = read_stage(name + "_position", free,
                                  te::reduce(last ? Combiner::Max : Combiner::Min, r.axes, at, both(r.args[1], hit)));
    return te::select(te::eq(found, Expr(last ? INT64_MIN : INT64_MAX)), Expr(0), found);
  }

  const te::Program& in_;
  te::Program out_;
  std::vector<int> slots_;
  int next_axis_ = 0;
  std::map<std::pair<const void*, const void*>, Expr> memo_;
  std::vector<Expr> keep_;  // identities in the memo stay those of living nodes
};

std::string identifier(std::string_view text, std::string_view standard) {
  std::string out;
  for (const char c : text.substr(0, 48)) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty()) return std::string(standard);
  if (std::isdigit(static_cast<unsigned char>(out[0]))) out = "_" + out;
  return out;
}

std::string unique(std::string name, std::set<std::string>& taken) {
  if (taken.insert(name).second) return name;
  for (int k = 1;; ++k)
    if (const std::string next = fmt::format("{}_{}", name, k); taken.insert(next).second) return next;
}

class Maker {
 public:
  explicit Maker(te::Program p) : program_(std::move(p)) {}

  Nest run() {
    const size_t inputs = program_.inputs.size();
    separate_outputs();
    nest_.inputs = static_cast<int>(inputs);
    nest_.outputs = static_cast<int>(program_.outputs.size());
    const std::vector<bool> live = used();
    place_.assign(inputs + program_.stages.size(), -1);
    for (size_t s = 0; s < inputs; ++s) buffer(s, Scope::Argument, false);
    for (const int s : program_.outputs) buffer(static_cast<size_t>(s), Scope::Argument, true);
    for (size_t s = inputs; s < place_.size(); ++s)
      if (live[s] && place_[s] < 0) buffer(s, Scope::Scratch, true);
    for (const te::Stage& s : program_.stages) {
      for (const Axis& a : s.axes) nest_.next_var = std::max(nest_.next_var, a.id + 1);
      if (s.body->kind == Kind::Reduce)
        for (const Axis& a : s.body->axes) nest_.next_var = std::max(nest_.next_var, a.id + 1);
    }
    for (size_t k = 0; k < program_.stages.size(); ++k)
      if (live[inputs + k]) nest_.roots.push_back(block(program_.stages[k], inputs + k));
    return std::move(nest_);
  }

 private:
  // Every output is a stage of its own that nothing else is.
  void separate_outputs() {
    std::set<int> seen;
    for (int& slot : program_.outputs) {
      const bool input = static_cast<size_t>(slot) < program_.inputs.size();
      if (!input && seen.insert(slot).second) continue;
      const size_t s = static_cast<size_t>(slot);
      const std::string name = input ? program_.inputs[s].name : program_.stages[s - program_.inputs.size()].name;
      std::vector<Axis> axes;
      int next = 0;
      for (const te::Stage& t : program_.stages)
        for (const Axis& a : t.axes) next = std::max(next, a.id + 1);
      for (const Dim& d : program_.slot_dims(slot)) {
        axes.push_back({next, fmt::format("i{}", axes.size()), d});
        ++next;
      }
      const DType dtype = program_.slot_dtype(slot);
      const Expr body = Expr::read(slot, dtype, te::exprs(axes));
      program_.stages.push_back({name + "_copy", dtype, std::move(axes), body});
      slot = static_cast<int>(program_.inputs.size() + program_.stages.size()) - 1;
      seen.insert(slot);
    }
  }

  std::vector<bool> used() const {
    std::vector<bool> live(program_.inputs.size() + program_.stages.size());
    for (const int s : program_.outputs) live[static_cast<size_t>(s)] = true;
    for (size_t k = program_.stages.size(); k-- > 0;)
      if (live[program_.inputs.size() + k])
        each_read(program_.stages[k].body, [&](const te::Node& n) { live[static_cast<size_t>(n.tensor)] = true; });
    return live;
  }

  void buffer(size_t slot, Scope scope, bool written) {
    const bool input = slot < program_.inputs.size();
    const std::string& name = input ? program_.inputs[slot].name : program_.stages[slot - program_.inputs.size()].name;
    Buffer b;
    b.name = unique(identifier(name, "t"), names_);
    b.dtype = program_.slot_dtype(static_cast<int>(slot));
    for (const Dim& d : program_.slot_dims(static_cast<int>(slot))) b.dims.push_back(d.value());
    b.scope = scope;
    b.written = written;
    place_[slot] = static_cast<int>(nest_.buffers.size());
    nest_.buffers.push_back(std::move(b));
  }

  Expr placed(const Expr& e) {
    return rebuild(e, [&](const Expr& x) {
      if (x->kind != Kind::Read) return Expr();
      te::Node n = *x;
      n.tensor = place_[static_cast<size_t>(n.tensor)];
      return Expr::make(std::move(n));
    });
  }

  Item block(const te::Stage& s, size_t slot) {
    Block b;
    b.buffer = place_[slot];
    b.name = nest_.buffers[static_cast<size_t>(b.buffer)].name;
    std::vector<Axis> axes = s.axes;
    if (s.body->kind == Kind::Reduce) {
      const te::Node& r = *s.body;
      b.combiner = r.combiner;
      b.init = true;
      b.value = placed(r.args[0]);
      if (!is_true(r.args[1])) b.where = placed(r.args[1]);
      axes.insert(axes.end(), r.axes.begin(), r.axes.end());
    } else {
      b.value = placed(s.body);
    }
    std::vector<Loop> loops;
    std::set<std::string> taken;
    for (size_t k = 0; k < axes.size(); ++k) {
      Loop l;
      l.var = nest_.next_var++;
      l.name = b.name + "." + unique(identifier(axes[k].name, "i"), taken);
      l.extent = axes[k].extent.value();
      b.iters.push_back({axes[k], k >= s.axes.size(), var_expr(l)});
      if (k < s.axes.size()) b.indices.push_back(axes[k]);
      loops.push_back(std::move(l));
    }
    Item item;
    item.block = std::move(b);
    for (size_t k = loops.size(); k-- > 0;) {
      Item outer;
      outer.loop = std::move(loops[k]);
      outer.body.push_back(std::move(item));
      item = std::move(outer);
    }
    return item;
  }

  te::Program program_;
  Nest nest_;
  std::vector<int> place_;  // slot -> buffer
  std::set<std::string> names_;
};

Expected<void> check(const te::Program& p) {
  const auto number = [](const std::vector<Dim>& dims, DType dtype, const std::string& name) -> Expected<void> {
    std::vector<int64_t> numbers;
    for (const Dim& d : dims) {
      if (!d.is_const())
        return Diagnostic("E-loop-nest", "loops need numbers as extents, and " + isomer::quoted(name) +
                                             " has the extent " + isomer::quoted(d.to_string()) +
                                             "; give the sizes of the model's inputs");
      numbers.push_back(d.value());
    }
    const auto n = checked_elements(dtype, numbers);
    if (!n.ok()) return n.error();
    return {};
  };
  for (const te::Source& s : p.inputs) ISOMER_CHECK_OK(number(s.dims, s.dtype, s.name));
  for (size_t k = 0; k < p.stages.size(); ++k) {
    const te::Stage& s = p.stages[k];
    ISOMER_CHECK_OK(number(p.slot_dims(static_cast<int>(p.inputs.size() + k)), s.dtype, s.name));
    if (depth_of(s.body) > kMaxDepth)
      return Diagnostic("E-loop-nest",
                        "the expression of " + isomer::quoted(s.name) + " is nested too deeply for loops");
    std::vector<Dim> extents;
    bool sized = true;
    rebuild(s.body, [&](const Expr& e) {
      for (const Axis& a : e->axes) extents.push_back(a.extent);
      sized &= e->kind != Kind::Size;
      return Expr();
    });
    for (const Dim& d : extents) ISOMER_CHECK_OK(number({d}, DType::Bool, s.name));
    if (!sized) return Diagnostic("E-loop-nest", isomer::quoted(s.name) + " depends on a size that is not known");
  }
  return {};
}

}  // namespace

Expected<Nest> nest_of(const te::Program& program) {
  ISOMER_CHECK_OK(check(program));
  te::Program lifted = Lifter(te::simplify(program)).run();
  ISOMER_CHECK_OK(check(lifted));
  return Maker(std::move(lifted)).run();
}

}  // namespace isomer::loop
