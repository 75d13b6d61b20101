#include "propose/trial_kernels.h"

#include <fmt/format.h>

namespace isomer::propose {
namespace {

// Numbers that one trial may compute, so that no draw of sizes costs more than a moment.
constexpr int64_t kMaxTrialElements = 4096;
// Instructions that are kept, about 500 MB; what comes later is recorded each time.
constexpr size_t kMaxKept = size_t{32} << 20;

void append(std::string& key, int64_t v) {
  key.append(reinterpret_cast<const char*>(&v), v >= 0 && v < 256 ? 1 : sizeof v);
  key.push_back(';');
}

}  // namespace

Dim at(const Dim& d, const Sizes& sizes) {
  if (d.is_const()) return d;
  return d.substitute([&](const std::string& name) -> std::optional<Dim> {
    const auto it = sizes.find(name);
    return it == sizes.end() ? std::nullopt : std::optional<Dim>(it->second);
  });
}

TrialKernel TrialKernels::make(const Template& t, const std::vector<ResolvedCall>& calls,
                               const std::vector<std::vector<int64_t>>& operands, const Sizes& sizes) const {
  TrialKernel k;
  ir::GraphBuilder builder(table_, "kernel");
  std::vector<ir::Value> in;
  for (size_t i = 0; i < operands.size(); ++i) {
    auto v = builder.input(fmt::format("x{}", i), {DType::F32, Shape::of(operands[i]), nullptr});
    if (!v.ok()) return k;
    in.push_back(*v);
  }
  auto made = build(t, calls, in, [&](const Dim& d) { return at(d, sizes); }, builder);
  if (!made.ok()) return k;
  for (size_t o = 0; o < made->size(); ++o) {
    const Shape& shape = builder.type((*made)[o]).shape;
    const auto n = shape.has_rank() ? shape.elements().constant() : std::nullopt;
    if (!n || *n > kMaxTrialElements) return k;
    k.results.push_back(shape.values());
    builder.output(fmt::format("y{}", o), (*made)[o]);
  }
  const auto graph = std::move(builder).finish();
  if (!graph.ok()) return k;
  auto tape = record(*graph, table_);
  if (!tape.ok()) return k;
  k.tape = *std::move(tape);
  k.ok = true;
  return k;
}

std::shared_ptr<const TrialKernel> TrialKernels::find(const Template& t, const std::vector<ResolvedCall>& calls,
                                                      const std::vector<std::vector<int64_t>>& operands,
                                                      const Sizes& sizes) {
  std::string key;
  for (const auto& dims : operands) {
    for (const int64_t d : dims) append(key, d);
    key.push_back('/');
  }
  for (const ResolvedCall& c : calls) {
    // Specifications live as long as the family, so their addresses name them; nothing depends on the order.
    append(key, static_cast<int64_t>(reinterpret_cast<intptr_t>(c.spec)));
    for (const auto& list : c.operand_sizes) {
      for (const Dim& d : list) append(key, at(d, sizes).constant().value_or(-1));
      key.push_back('/');
    }
    for (const Dim& d : c.attr_sizes) append(key, at(d, sizes).constant().value_or(-1));
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = kernels_.find(key); it != kernels_.end()) return it->second;
  }
  auto made = std::make_shared<const TrialKernel>(make(t, calls, operands, sizes));
  const std::lock_guard lock(mutex_);
  if (kept_ + made->tape.code.size() > kMaxKept) return made;
  const auto [it, fresh] = kernels_.try_emplace(std::move(key), std::move(made));
  if (fresh) kept_ += it->second->tape.code.size() + 16;
  return it->second;
}

}  // namespace isomer::propose
