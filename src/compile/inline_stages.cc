#include <algorithm>

#include "compile/group.h"
#include "te/simplify.h"
#include "te/substitute.h"

namespace isomer::compile {

using te::Expr;
using te::Kind;

namespace {

constexpr int64_t kLargestBody = 300;  // nodes of one body: beyond, compiling it costs more than the copy it saves
constexpr size_t kMostOrigins = 32;    // source nodes that are remembered of one stage
constexpr int64_t kCheap = 4;          // operations that may be done again rather than stored

int64_t nodes_in(const Expr& e) {
  int64_t n = 0;
  te::for_each_node(e, [&](const Expr&) { ++n; });
  return n;
}

// An index in its first place on this axis.
Expr at_first(const Expr& index, const std::vector<te::Axis>& axes, const te::Axis& axis) {
  te::Substitution s;
  s.var(axis.id, Expr(int64_t{0}));
  return te::simplify(s(index), axes);
}

int64_t iterations(const ModelStage& s) {
  int64_t n = 1;
  for (const te::Axis& a : s.axes) n *= a.extent.value();
  if (s.is_reduction())
    for (const te::Axis& a : s.body->axes) n *= a.extent.value();
  return n;
}

class Inliner {
 public:
  explicit Inliner(StageGraph& g) : g_(g), readers_(g.readers()), output_(g.values.size()) {
    for (const int v : g.outputs) output_[static_cast<size_t>(v)] = true;
    for (const ModelStage& s : g.stages)
      if (contraction(s, g.values)) contracted_.push_back(s.value);
  }

  void run() {
    for (ModelStage& s : g_.stages) see_through(s);
    readers_ = g_.readers();
    // What is inlined may leave another stage with one reader.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t p = 0; p < g_.stages.size(); ++p) changed = try_inline(p) || changed;
    }
    g_.prune();
  }

 private:
  bool is_contracted(int value) const {
    return std::find(contracted_.begin(), contracted_.end(), value) != contracted_.end();
  }

  // A stage that a contraction before it can take over while its results are still at hand.
  bool follows_contraction(const ModelStage& p) const {
    for (const int v : values_read(p.body)) {
      if (!is_contracted(v) || readers_[static_cast<size_t>(v)].size() != 1) continue;
      if (g_.values[static_cast<size_t>(v)].elements() == g_.values[static_cast<size_t>(p.value)].elements())
        return true;
    }
    return false;
  }

  // Bytes that a contraction makes and that meet another contraction's results behind stage `c`: only one of the two can take along what
  // follows, and the other is better stored as bytes than as its sums.
  bool meets_another(const ModelStage& p, const ModelStage& c) const {
    constexpr int kFarthest = 4;  // stages
    int from = p.value;
    const ModelStage* at = &c;
    for (int step = 0; step < kFarthest && !at->is_reduction(); ++step) {
      for (const int v : values_read(at->body))
        if (v != from && is_contracted(v) &&
            g_.values[static_cast<size_t>(v)].elements() == g_.values[static_cast<size_t>(p.value)].elements())
          return true;
      from = at->value;
      const std::vector<int>& users = readers_[static_cast<size_t>(from)];
      if (users.size() != 1) return false;
      at = &g_.stages[static_cast<size_t>(users[0])];
    }
    return false;
  }

  // A window slides over what one operation makes of one value (relu before a depthwise convolution): what is loaded once is
  // used by several taps, and so is what is made of it.
  static bool slides(const ModelStage& p, const ModelStage& c) {
    if (!c.is_reduction() || price(p.body) > 1 || values_read(p.body).size() != 1) return false;
    const std::vector<Expr> reads = reads_of(c.body, p.value);
    if (reads.size() != 1) return false;
    const auto among = [](const std::vector<te::Axis>& axes, int id) {
      return std::any_of(axes.begin(), axes.end(), [&](const te::Axis& a) { return a.id == id; });
    };
    return std::any_of(reads[0]->args.begin(), reads[0]->args.end(), [&](const Expr& index) {
      bool moved = false, reduced = false;
      for (const int id : te::free_vars(index)) (among(c.body->axes, id) ? reduced : moved) = true;
      return moved && reduced;
    });
  }

  bool worth(const ModelStage& p, const ModelStage& c, size_t readers) const {
    const int64_t made = std::max<int64_t>(1, g_.values[static_cast<size_t>(p.value)].elements());
    const auto reads = static_cast<int64_t>(reads_of(c.body, p.value).size());
    const double again = static_cast<double>(iterations(c)) * static_cast<double>(reads) / static_cast<double>(made);
    if (is_contracted(c.value)) return is_move(p.body);
    if (follows_contraction(p))
      return !c.is_reduction() && again <= 1 && readers == 1 && !(is_byte(p.body.dtype()) && meets_another(p, c));
    if (is_move(p.body) && values_read(p.body).size() == 1) return readers <= 4;
    if (slides(p, c)) return readers <= 4;
    if (readers > 1) return price(p.body) <= kCheap && readers <= 2 && again <= 1 && !c.is_reduction();
    return again <= 1 || (again <= 4 && price(p.body) <= kCheap);
  }

  // Whether both hold the same images, numbered by one dim or by several.
  bool same_images(int one, int several) const {
    const std::vector<int64_t>&from = g_.values[static_cast<size_t>(one)].dims,
          &to = g_.values[static_cast<size_t>(several)].dims;
    return from.size() == 4 && to.size() > 4 && std::equal(from.end() - 3, from.end(), to.end() - 3);
  }

  // Images whose number is taken apart: a view would hold them to one order of their channels, and what moves them further
  // takes the dims along.
  bool images_taken_apart(const ModelStage& s) const {
    if (!same_images(s.view_of, s.value) || !is_move(s.body) || output_[static_cast<size_t>(s.value)]) return false;
    const std::vector<int>& readers = readers_[static_cast<size_t>(s.value)];
    return readers.size() == 1 && is_move(g_.stages[static_cast<size_t>(readers[0])].body) &&
           g_.stages[static_cast<size_t>(readers[0])].view_of < 0;
  }

  // A view of a value that is only moved there needs no copy to look at: it moves the elements itself, to be inlined.
  void see_through(ModelStage& s) {
    if (s.view_of < 0 || output_[static_cast<size_t>(s.view_of)]) return;
    const int maker = g_.values[static_cast<size_t>(s.view_of)].stage;
    if (maker < 0) return;
    if (images_taken_apart(s)) {
      s.view_of = -1;
      return;
    }
    const ModelStage& p = g_.stages[static_cast<size_t>(maker)];
    if (!p.runs() || !is_move(p.body) || p.body.dtype() != s.body.dtype()) return;
    const Expr body = inlined(p, s);
    if (!is_move(body)) return;
    // Images whose numbers become one: their places depend on it alone otherwise than by a sum.
    const bool images = same_images(s.value, s.view_of);
    for (const Expr& i : body->args)
      if (!linear(images ? at_first(i, s.axes, s.axes[0]) : i)) return;
    s.body = body;
    s.view_of = -1;
  }

  bool try_inline(size_t index) {
    const ModelStage& p = g_.stages[index];
    const auto value = static_cast<size_t>(p.value);
    if (p.is_reduction() || !p.runs() || output_[value]) return false;
    const std::vector<int> users = readers_[value];
    if (users.empty()) return false;
    std::vector<Expr> bodies;
    for (const int user : users) {
      const ModelStage& c = g_.stages[static_cast<size_t>(user)];
      if (!c.runs() || !worth(p, c, users.size())) return false;
      if (nodes_in(p.body) + nodes_in(c.body) > kLargestBody) return false;
      Expr body = inlined(p, c);
      if (is_contracted(c.value)) {
        ModelStage changed = c;
        changed.body = body;
        if (!contraction(changed, g_.values)) return false;
      }
      bodies.push_back(std::move(body));
    }
    for (size_t u = 0; u < users.size(); ++u) take(index, static_cast<size_t>(users[u]), bodies[u]);
    readers_[value].clear();
    return true;
  }

  // The reader's body with reads of p's value replaced by p's body at their indices. A value is rounded to its type
  // where it was stored, which matters for types narrower than what is computed in.
  Expr inlined(const ModelStage& p, const ModelStage& c) const {
    te::Substitution s;
    const DType stored = g_.values[static_cast<size_t>(p.value)].dtype;
    s.reads([&](const te::Node& read, std::vector<Expr> at) -> Expr {
      if (read.tensor != p.value) return {};
      te::Substitution axes;
      for (size_t i = 0; i < at.size(); ++i) axes.var(p.axes[i].id + kProducer, at[i]);
      Expr body = axes(renamed(p));
      if (stored != DType::F64 && stored != DType::F32 && is_float(stored) && !is_move(p.body))
        body = te::cast(stored, te::cast(DType::F32, body));
      return body;
    });
    std::vector<te::Axis> scope = c.axes;
    if (c.is_reduction()) {
      scope.insert(scope.end(), c.body->axes.begin(), c.body->axes.end());
      return te::reduce(c.body->combiner, c.body->axes, te::simplify(s(c.body->args[0]), scope),
                        te::simplify(s(c.body->args[1]), scope));
    }
    return te::simplify(s(c.body), scope);
  }

  // Both stages number their axes from the same start: the producer's are moved out of the way.
  static constexpr int kProducer = 1 << 20;
  static Expr renamed(const ModelStage& p) {
    te::Substitution s;
    for (const te::Axis& a : p.axes) s.var(a.id, Expr(te::Axis{a.id + kProducer, a.name, a.extent}));
    return s(p.body);
  }

  void take(size_t producer, size_t user, Expr body) {
    ModelStage& c = g_.stages[user];
    const ModelStage& p = g_.stages[producer];
    c.body = std::move(body);
    for (const std::string& o : p.origin)
      if (c.origin.size() < kMostOrigins && std::find(c.origin.begin(), c.origin.end(), o) == c.origin.end())
        c.origin.push_back(o);
    for (const int v : values_read(c.body)) {
      auto& list = readers_[static_cast<size_t>(v)];
      std::erase(list, static_cast<int>(producer));
      if (std::find(list.begin(), list.end(), static_cast<int>(user)) == list.end())
        list.insert(std::lower_bound(list.begin(), list.end(), static_cast<int>(user)), static_cast<int>(user));
    }
  }

  StageGraph& g_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> output_;
  std::vector<int> contracted_;
};

}  // namespace

void inline_stages(StageGraph& graph) { Inliner(graph).run(); }

}  // namespace isomer::compile
