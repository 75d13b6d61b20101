#include "compile/procedures.h"

#include <algorithm>

#include "compile/assembly.h"
#include "compile/function_writer.h"
#include "compile/step_loops.h"
#include "interp/interp.h"
#include "ir/context.h"

namespace isomer::compile {

namespace {

constexpr uint64_t kMostDrawn = uint64_t{64} << 20;  // bytes of one node's draws, which the module holds

// The contents of the inputs do not count, only their types.
Expected<Lowered> drawn(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  const Type& type = n.types[0];
  ISOMER_TRY(const int64_t elements, checked_elements(type.dtype, type.shape.values()));
  if (static_cast<uint64_t>(elements) * size_of(type.dtype) > kMostDrawn)
    return cannot_compile(n, "it draws more numbers than a module should hold");
  Assembly a(n.names[0], composer.options.target);
  if (!composer.lowers || elements == 0) return std::move(a).finish();
  std::vector<ir::OpContext::Input> inputs;
  std::vector<Tensor> like;
  for (const ir::Value& v : n.inputs) like.emplace_back(g.type(v).dtype, g.type(v).shape.values());
  for (const Tensor& t : like) inputs.push_back({true, t.type(), &t, nullptr});
  const ir::OpContext c(*n.op, std::move(inputs), n.attrs, n.types.size(), composer.table);
  ISOMER_TRY(const std::vector<Tensor> draws, interp::run_node(c));
  loop::Function copy = copy_loops(type.dtype, elements);
  copy.origin = n.origin.empty() ? std::vector{n.names[0]} : n.origin;
  a.add(std::move(copy), {a.weight(draws[0]), {Space::Output, 0, 0}});
  return std::move(a).finish();
}

using Procedure = Expected<Lowered> (*)(const Composer&, const ir::Graph&, const ir::Node&);

struct Row {
  std::string_view op;
  Procedure make;
};

constexpr Row kRows[] = {
    {"det", determinants},
    {"max_unpool", max_unpool},
    {"ml_couple", coupled},
    {"ml_forest_votes", forest_votes},
    {"random_normal", drawn},
    {"random_normal_like", drawn},
    {"random_uniform", drawn},
    {"random_uniform_like", drawn},
    {"scatter_elements", scatter_elements},
    {"scatter_nd", scatter_nd},
    {"tf_idf_vectorizer", counted_grams},
    {"top_k", top_k},
};

const Row* row_of(const ir::Node& n) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == n.op->name; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

std::vector<int64_t> ints_of(const ir::Node& n, const char* name) {
  const auto* v = n.attrs.get<std::vector<int64_t>>(name);
  return v ? *v : std::vector<int64_t>();
}

bool is_procedure(const ir::Node& n) { return row_of(n) != nullptr; }

std::optional<Expected<Lowered>> procedure(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  const Row* row = row_of(n);
  if (!row) return std::nullopt;
  return row->make(composer, g, n);
}

}  // namespace isomer::compile
