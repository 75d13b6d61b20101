#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/table.h"

namespace isomer::ir {
namespace {

// A table with one composite operator more: y = relu(x * $scale + b), where b and $scale may be absent.
OpTable with_composite(std::string body) {
  std::vector<OpDef> records = ops::table().records();
  OpDef op;
  op.name = "scaled";
  op.inputs = {{"x", "T", kFloats}, {"b", "T", kFloats, Arity::Optional}};
  op.outputs = {{"y", "T"}};
  op.attrs = {{.name = "scale", .kind = AttrKind::Real, .standard = 2.0}};
  op.expand_text = std::move(body);
  records.push_back(std::move(op));
  return OpTable(std::move(records));
}

Expected<Graph> expansion(const OpTable& table, bool bias, const Attrs& attrs) {
  const OpContext::Input x{true, {DType::F16, {Dim::symbol("N")}, nullptr}, nullptr, nullptr};
  const OpContext c(*table.find("scaled"), bias ? std::vector{x, x} : std::vector{x}, attrs, 1, table);
  return expand(c);
}

TEST(ParseBody, AttributesNumbersAndAbsentInputs) {
  const OpTable table = with_composite("%s = add(%x, $scale)  return relu(add(%s, %b else 0))");
  const Attrs none, given{{"scale", 3.5}};
  const auto g = expansion(table, false, given);
  ASSERT_TRUE(g.ok()) << g.error().to_string();
  EXPECT_EQ(g->type(g->outputs()[0].value).to_string(), "f16[N]");
  const std::string text = print(*g);
  EXPECT_NE(text.find("const f16[] [3.5]"), std::string::npos) << text;
  EXPECT_NE(text.find("const f16[] [0]"), std::string::npos) << text;
  const auto with = expansion(table, true, none);
  ASSERT_TRUE(with.ok()) << with.error().to_string();
  EXPECT_NE(print(*with).find("const f16[] [2]"), std::string::npos) << print(*with);
  EXPECT_EQ(with->input_count(), 2u);
}

TEST(ParseBody, MistakesHaveAPlace) {
  const Attrs none;
  EXPECT_EQ(expansion(with_composite("return relu(%x, $nothing)"), false, none).error().to_string(),
            "expansion of scaled:1:17: error[E-text]: operator scaled has no attribute 'nothing'");
  EXPECT_FALSE(expansion(with_composite("return relu(%q)"), false, none).ok());
  EXPECT_FALSE(expansion(with_composite("return relu(%x) }"), false, none).ok());
  EXPECT_FALSE(expansion(with_composite(""), false, none).ok());
}

}  // namespace
}  // namespace isomer::ir
