#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "loop/guards.h"
#include "loop/lift.h"
#include "loop/nest.h"
#include "loop/schedule.h"
#include "te/scalar.h"
#include "te/simplify.h"
#include "tensor/tensor.h"

namespace isomer::loop {
namespace {

using te::Axis;
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
    return in_loops(std::move(b), std::move(loops));
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

// An intermediate that is too large to be kept is computed anew where it is read, one element at a time.
constexpr int64_t kMostKeptBytes = int64_t{1} << 28;

Nest without_giants(Nest nest) {
  std::vector<std::string> giants;
  each_block(nest, [&](const Block& b) {
    const Buffer& buffer = nest.buffers[static_cast<size_t>(b.buffer)];
    const int64_t most = kMostKeptBytes / static_cast<int64_t>(size_of(buffer.dtype));
    if (b.buffer >= nest.argument_count() && buffer.elements() > most) giants.push_back(b.name);
  });
  Schedule s(std::move(nest));
  for (size_t k = giants.size(); k-- > 0;) {  // consumers come after what they read
    const int buffer = s.nest().buffer(giants[k]);
    std::string reader;
    each_block(s.nest(), [&](const Block& b) {
      if (reads(b, buffer)) reader = b.name;
    });
    const Names loops = s.loops(reader);
    if (!loops.empty()) (void)s.compute_at(giants[k], loops.back());  // declined: it stays as it is
  }
  return s.nest();
}

}  // namespace

Expected<Nest> nest_of(const te::Program& program) {
  ISOMER_CHECK_OK(check(program));
  te::Program lifted = lift_reductions(te::simplify(program));
  ISOMER_CHECK_OK(check(lifted));
  return without_giants(Maker(std::move(lifted)).run());
}

}  // namespace isomer::loop
