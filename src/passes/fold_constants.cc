// Constants are evaluated by the reference interpreter, and shape arithmetic by what the builder follows of it, so that
// one walk through the graph also folds what depends on sizes that become known on the way.
#include <algorithm>
#include <map>

#include "interp/interp.h"
#include "passes/dead_code.h"
#include "passes/lasting_type.h"
#include "passes/pass.h"
#include "passes/rebuild.h"

namespace isomer::passes {
namespace {

// Below this many elements a thread costs more than it gives.
constexpr int64_t kSmall = 1 << 16;

class Folder {
 public:
  Folder(const ir::Graph& graph, PassContext& context) : graph_(graph), context_(context), uses_(graph.nodes().size()) {
    for (const ir::Node& n : graph.nodes())
      for (const ir::Value& v : n.inputs) count(v);
    for (const ir::Output& o : graph.outputs()) count(o.value);
    for (const ir::Node& n : graph.nodes()) keep_bytes(n);
  }

  Expected<void> visit(Rebuild& r, uint32_t id) {
    const ir::Node& n = graph_.node(id);
    if (n.op == &ir::const_op() || !context_.admits()) return r.copy(id);
    if (const auto kept = kept_.find(id); kept != kept_.end() && kept->second == uses_[id][0]) return r.copy(id);
    if (auto values = evaluated(r, id)) {
      put(r, id, *std::move(values));
      return {};
    }
    if (settle_shape(r, id)) return {};
    ISOMER_CHECK_OK(r.copy(id));
    if (n.op->pure) take_known(r, id);
    return {};
  }

 private:
  // Weights that are dequantised for a product with dequantised numbers: what compiles it multiplies the bytes.
  void keep_bytes(const ir::Node& n) {
    if (n.op->name != "conv" && n.op->name != "matmul" && n.op->name != "gemm") return;
    const auto dequantised = [&](ir::Value v) {
      if (v.is_none() || graph_.node(v.node).op->name != "dequantize_linear") return false;
      const ir::Value bytes = graph_.node(v.node).inputs[0];
      const DType t = graph_.node(bytes.node).types[bytes.index].dtype;
      return t == DType::U8 || t == DType::I8;
    };
    if (dequantised(n.inputs[0]) && dequantised(n.inputs[1]))
      for (const ir::Value& v : {n.inputs[0], n.inputs[1]}) ++kept_[v.node];
  }

  void count(ir::Value v) {
    if (v.is_none()) return;
    std::vector<uint32_t>& all = uses_[v.node];
    if (all.size() <= v.index) all.resize(v.index + 1, 0);
    ++all[v.index];
  }

  void put(Rebuild& r, uint32_t id, std::vector<Tensor> tensors) {
    const ir::Node& n = graph_.node(id);
    std::vector<ir::Value> values;
    for (size_t k = 0; k < tensors.size(); ++k)
      values.push_back(r.builder().constant(std::move(tensors[k]), n.names[k].empty() ? n.op->name : n.names[k]));
    r.set(id, std::move(values));
    context_.applied(n.names[0]);
  }

  // The results when all inputs are known and folding does not enlarge the model much.
  std::optional<std::vector<Tensor>> evaluated(Rebuild& r, uint32_t id) {
    const ir::Node& n = graph_.node(id);
    if (!n.op->pure || n.op->open_attrs) return std::nullopt;
    std::vector<ir::OpContext::Input> in;
    int64_t freed = 0, largest = 0;
    for (const ir::Value& old : n.inputs) {
      const ir::Value v = r.now(old);
      const Tensor* t = r.builder().known(v);
      if (!v.is_none() && !t) return std::nullopt;
      in.push_back(v.is_none() ? ir::OpContext::Input{} : ir::OpContext::Input{true, t->type(), t, nullptr});
      if (!t) continue;
      largest = std::max(largest, t->size());
      if (uses_[old.node][old.index] == 1) freed += static_cast<int64_t>(t->byte_size());
    }
    const ir::OpContext c(*n.op, std::move(in), n.attrs, n.types.size(), context_.table());
    const auto types = ir::infer_types(c);
    if (!types.ok()) return std::nullopt;
    int64_t bytes = 0;
    for (const Type& t : *types) {
      if (!t.shape.is_static() || t.dtype == DType::Opaque) continue;
      const auto elements = checked_elements(t.dtype, t.shape.values());
      if (!elements.ok()) return std::nullopt;
      largest = std::max(largest, *elements);
      bytes += *elements * static_cast<int64_t>(size_of(t.dtype));
    }
    if (!fits(bytes - freed)) return std::nullopt;
    interp::Options options;
    options.max_value_bytes = std::max(bytes, context_.limits.node_growth + freed);
    options.max_loop_iterations = context_.limits.loop_iterations;
    options.threads = largest < kSmall ? 1 : 0;
    auto results = context_.evaluate ? context_.evaluate(c) : interp::run_node(c, options);
    if (!results.ok() || results->size() != n.types.size()) return std::nullopt;
    int64_t made = 0;
    for (size_t k = 0; k < results->size(); ++k) {
      made += static_cast<int64_t>((*results)[k].byte_size());
      if ((*results)[k].dtype() != n.types[k].dtype) return std::nullopt;
    }
    if (!fits(made - freed)) return std::nullopt;
    grown_ += std::max<int64_t>(made - freed, 0);
    return *std::move(results);
  }

  bool fits(int64_t growth) const {
    return growth <= context_.limits.node_growth && growth + grown_ <= context_.limits.total_growth;
  }

  // Integers that the builder knows although some input is not constant: extents and what is computed from them.
  void take_known(Rebuild& r, uint32_t id) {
    const ir::Node& n = graph_.node(id);
    std::vector<Tensor> tensors;
    for (uint32_t k = 0; k < n.types.size(); ++k) {
      const Tensor* t = r.builder().known(r.now({id, k}));
      if (!t || is_float(t->dtype()) || t->dtype() != n.types[k].dtype) return;
      tensors.push_back(*t);
    }
    put(r, id, std::move(tensors));
  }

  // reshape to sizes of which one is open: that one is what the others leave, and nothing has to be computed.
  bool settle_shape(Rebuild& r, uint32_t id) {
    const ir::Node& n = graph_.node(id);
    if (n.op->name != "reshape" || n.inputs.size() != 2 || n.attrs.has("allowzero")) return false;
    const ir::Value data = r.now(n.inputs[0]), shape = r.now(n.inputs[1]);
    const std::vector<Dim>* sizes = r.builder().known_sizes(shape);
    if (!sizes || r.builder().known(shape)) return false;
    const Shape& from = r.builder().type(data).shape;
    std::vector<int64_t> settled;
    bool open = false;
    for (size_t i = 0; i < sizes->size(); ++i) {
      const Dim& d = (*sizes)[i];
      if (d.is_const() && d.value() <= 0) return false;
      if (!d.is_const() && d.at_least().value_or(-1) < 0) return false;
      if (d.is_const())
        settled.push_back(d.value());
      else if (from.has_rank() && i < from.rank() && from[i] == d)
        settled.push_back(0);
      else if (!std::exchange(open, true))
        settled.push_back(-1);
      else
        return false;
    }
    const ir::Value constant = r.builder().constant(Tensor::ints(settled), n.op->name + ".shape");
    auto made = r.builder().add(*n.op, {data, constant}, n.attrs, {n.names, n.label, n.origin}, 1);
    if (!made.ok() || !r.builder().declare_type((*made)[0], lasting(n.types[0])).ok()) return false;
    r.set(id, *std::move(made));
    context_.applied(n.names[0]);
    return true;
  }

  const ir::Graph& graph_;
  PassContext& context_;
  std::vector<std::vector<uint32_t>> uses_;
  std::map<uint32_t, uint32_t> kept_;  // node -> products that want its bytes
  int64_t grown_ = 0;
};

}  // namespace

Expected<ir::Graph> fold_constants(const ir::Graph& graph, PassContext& context) {
  const int64_t before = context.applications();
  Folder folder(graph, context);
  ISOMER_TRY(const ir::Graph folded,
             rebuild(graph, context.table(), [&](Rebuild& r, uint32_t id) { return folder.visit(r, id); }));
  if (context.applications() == before) return graph;
  return without_dead_code(folded, context.table());
}

}  // namespace isomer::passes
