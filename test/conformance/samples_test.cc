// Walks the operator table: every record is complete, and every one of its samples builds, runs to the type it
// promises, gives the same bits twice and survives the graph text and an ONNX file.
#include <gtest/gtest.h>

#include <algorithm>

#include "interp/interp.h"
#include "ir/sample.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "tensor/compare.h"

namespace isomer {
namespace {

// Whether the record alone tells an output's element type; else its own type rule has to, at any rank.
bool tells(const ir::OpDef& op, std::string type) {
  if (type.starts_with('$')) {
    const size_t bar = type.find('|');
    const ir::AttrDef* a = op.attr(type.substr(1, bar == std::string::npos ? bar : bar - 1));
    if (a && (a->required || a->standard)) return true;
    type = bar == std::string::npos ? "" : type.substr(bar + 1);
  }
  return dtype_from_name(type) || std::any_of(op.inputs.begin(), op.inputs.end(), [&](const ir::InputDef& i) {
           return i.var == type && (i.arity == ir::Arity::Required || i.at_least > 0);
         });
}

TEST(Records, AreComplete) {
  for (const ir::OpDef& op : ops::table().records()) {
    SCOPED_TRACE(op.name);
    EXPECT_FALSE(op.doc.empty());
    if (op.open_attrs) continue;  // the operator that stands for unknown ones has no meaning and no sample
    EXPECT_FALSE(op.samples.empty()) << "has no sample";
    const int meanings =
        (op.compute != nullptr) + (op.expand != nullptr) + !op.expand_text.empty() + (op.kernel != nullptr);
    EXPECT_EQ(meanings, 1) << "has exactly one of compute, expand, expand_text and kernel";
    for (const ir::AttrDef& a : op.attrs) {
      EXPECT_FALSE(a.required && a.standard) << a.name;
      if (a.standard) {
        EXPECT_EQ(ir::kind_of(*a.standard), a.kind) << a.name;
      }
    }
    for (const ir::OutputDef& o : op.outputs)
      EXPECT_TRUE(tells(op, o.type) || (op.infer && op.infer_unranked)) << o.name;
    for (const ir::OnnxForm& form : op.onnx) {
      EXPECT_FALSE(form.since.empty());
      EXPECT_TRUE(std::is_sorted(form.since.begin(), form.since.end()));
      EXPECT_LE(form.stable, form.since.back()) << form.type;
    }
  }
}

// A run's result against the type the graph promises: sizes that only a run can tell may be anything.
bool promised(const Type& type, const Tensor& result) {
  if (type.dtype != result.dtype()) return false;
  return ir::agree(type, result.type());
}

std::string fault(const ir::OpDef& op, const std::string& text) {
  const auto s = ir::make_sample(text, ops::table(), 7);
  if (!s.ok()) return "does not build: " + s.error().to_string();
  const ir::Graph& g = s->graph;
  if (const auto v = ir::verify(g, ops::table()); !v.ok()) return v.error().to_string();
  const std::string printed = ir::print(g);
  const auto back = ir::parse(printed, ops::table());
  if (!back.ok()) return "its text does not parse: " + back.error().to_string() + "\n" + printed;
  if (!ir::identical(g, *back)) return "its text comes back different:\n" + printed + ir::print(*back);
  const auto first = interp::run(g, ops::table(), s->inputs), second = interp::run(*back, ops::table(), s->inputs);
  if (!first.ok()) return "does not run: " + first.error().to_string();
  if (!second.ok()) return "does not run twice: " + second.error().to_string();
  for (size_t k = 0; k < g.outputs().size(); ++k) {
    const Type& type = g.type(g.outputs()[k].value);
    if (!promised(type, first->at(k)))
      return "promises " + type.to_string() + ", gives " + first->at(k).type().to_string();
    if (op.pure && !(first->at(k) == second->at(k))) return "gives other numbers when run again";
  }
  return {};
}

TEST(Samples, BuildRunAndSurviveTheirText) {
  size_t count = 0;
  for (const ir::OpDef& op : ops::table().records())
    for (const std::string& text : op.samples) {
      ++count;
      EXPECT_EQ(fault(op, text), "") << text;
    }
  std::printf("%zu samples of %zu operators\n", count, ops::table().records().size());
}

// ONNX keeps reals of attributes as f32 and not the names inside, so the results are compared, not the graphs.
std::string onnx_fault(const ir::OpDef& op, const std::string& text) {
  const auto s = ir::make_sample(text, ops::table(), 7);
  if (!s.ok()) return "does not build: " + s.error().to_string();
  const auto bytes = onnx::save_bytes(s->graph);
  if (!bytes.ok()) return "cannot be written: " + bytes.error().to_string();
  const auto back = onnx::load_bytes(std::as_bytes(std::span(*bytes)), ops::table());
  if (!back.ok()) return "cannot be read back: " + back.error().to_string();
  const auto first = interp::run(s->graph, ops::table(), s->inputs);
  const auto second = interp::run(back->graph, ops::table(), s->inputs);
  if (!first.ok() || !second.ok()) return "does not run: " + (first.ok() ? second : first).error().to_string();
  for (size_t k = 0; k < first->size(); ++k) {
    if (first->at(k).dtype() != second->at(k).dtype()) return "has another type";
    const Comparison c = compare(second->at(k), first->at(k), {.absolute = 1e-5, .relative = 1e-4});
    if (op.pure && !c.ok()) return c.to_string();
  }
  return {};
}

TEST(Samples, SurviveOnnxFiles) {
  for (const ir::OpDef& op : ops::table().records())
    for (const std::string& text : op.samples) EXPECT_EQ(onnx_fault(op, text), "") << text;
}

}  // namespace
}  // namespace isomer
