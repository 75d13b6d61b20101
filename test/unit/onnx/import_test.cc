#include <gtest/gtest.h>

#include "interp/interp.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "test/unit/onnx/wire_model.h"

namespace isomer {
namespace {

using namespace onnx_test;  // NOLINT: the vocabulary of these tests

Expected<onnx::Model> load(const std::string& bytes) {
  return onnx::load_bytes(std::as_bytes(std::span(bytes)), ops::table());
}
Expected<onnx::Model> load(const Msg& m) { return load(m.bytes); }

// The message of the error, with its notes; "" when the model loads.
std::string error_of(const std::string& bytes) {
  const auto m = load(bytes);
  if (m.ok()) return "";
  EXPECT_LT(m.error().to_string().size(), 2000u);
  return m.error().to_string();
}
std::string error_of(const Msg& m) { return error_of(m.bytes); }

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

const Msg x = value("x", kFloat, {2}), y = value("y", kFloat, {2});

std::vector<double> run(const onnx::Model& m, const std::vector<double>& in) {
  const auto out = interp::run(m.graph, ops::table(), {Tensor::of<double>(DType::F32, {2}, in)});
  EXPECT_TRUE(out.ok()) << out.error().to_string();
  return out.ok() ? out->at(0).to_reals() : std::vector<double>();
}

TEST(OnnxContainer, FilesThatAreNoModels) {
  EXPECT_SAYS(error_of(std::string()), "empty");
  EXPECT_SAYS(error_of(std::string("\xff\xfe random \x01\x02\x03")), "no ONNX model");
  EXPECT_SAYS(error_of(std::string("<!DOCTYPE html><html></html>")), "HTML");
  EXPECT_SAYS(error_of(std::string("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")), "git-lfs");
  EXPECT_SAYS(error_of(Msg().num(1, 8).msg(8, Msg().num(2, 13))), "no graph");
}

TEST(OnnxContainer, EveryPrefixOfAModelEndsInADiagnostic) {
  const Msg m = model(graph({{node("Relu", {"x"}, {"y"})}, {tensor("w", kFloat, {1}, floats({1}))}, {x}, {y}}));
  ASSERT_TRUE(load(m).ok());
  for (size_t n = 0; n < m.bytes.size(); ++n) {
    const auto cut = load(m.bytes.substr(0, n));
    EXPECT_TRUE(cut.ok() || !cut.error().message.empty());
  }
}

TEST(OnnxContainer, OperatorSets) {
  const Msg g = graph({{node("Relu", {"x"}, {"y"})}, {}, {x}, {y}});
  EXPECT_SAYS(error_of(Msg().num(1, 8).msg(7, g)), "opset_import");
  EXPECT_SAYS(error_of(model(g, -1)), "version -1");
  EXPECT_SAYS(error_of(model(g, 9999)), "9999");
  EXPECT_EQ(load(model(g, 28))->warnings.size(), 0u);
  EXPECT_EQ(load(model(g, 29)).error().code, "E-onnx-opset");
  EXPECT_EQ(load(model(g, 13, 99))->warnings.size(), 1u);
  EXPECT_TRUE(load(Msg().num(1, 2).msg(7, g)).ok());  // the first IR versions had no operator sets
}

TEST(OnnxContainer, PlacesThatAreNoFiles) {
  for (const char* path : {"/", "/dev/zero", "/no/such/file.onnx"}) EXPECT_FALSE(onnx::load(path, ops::table()).ok());
}

TEST(OnnxGraph, UnsortedNodesAreSorted) {
  const auto m = load(model(graph({{node("Relu", {"h"}, {"y"}), node("Relu", {"x"}, {"h"})}, {}, {x}, {y}})));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(run(*m, {-1, 2}), (std::vector<double>{0, 2}));
}

TEST(OnnxGraph, WrongGraphs) {
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"b"}, {"a"}), node("Relu", {"a"}, {"b"})}, {}, {x}, {}}))), "cycle");
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"nope"}, {"y"})}, {}, {x}, {y}}))), "'nope'");
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"nope"}, {"y"})}, {}, {x}, {y}}))), "node_y");
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"x"}, {"y"}), node("Relu", {"x"}, {"y"})}, {}, {x}, {y}}))),
              "made twice");
  EXPECT_SAYS(error_of(model(graph({{}, {}, {x}, {y}}))), "'y'");
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"x"}, {"w"})}, {tensor("w", kFloat, {1}, floats({1}))}, {x}, {}}))),
              "'w'");
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"x"}, {"y"})}, {}, {x}, {value("y", kFloat, {3})}}))), "declared");
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"x"}, {"y"})}, {}, {x}, {value("y", kInt64, {2})}}))), "declared");
  EXPECT_TRUE(load(model(graph({}))).ok());
}

// As exporters write it that were told of a dynamic dimension of an output of another rank.
TEST(OnnxGraph, WrongDeclaredShapesOfDynamicValuesAreDropped) {
  const Msg shape = Msg().msg(1, Msg().str(2, "n")).msg(1, Msg().num(1, 2));
  const Msg n = Msg().str(1, "x").msg(2, Msg().msg(1, Msg().num(1, kFloat).msg(2, shape)));
  const Msg wrong = value("y", kFloat, {1, 1, 2});
  const auto m = load(model(graph({{node("Relu", {"x"}, {"y"})}, {}, {n}, {wrong}})));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  ASSERT_EQ(m->warnings.size(), 1u);
  EXPECT_SAYS(m->warnings[0], "the declared shape is ignored");
  EXPECT_EQ(m->graph.type(m->graph.outputs()[0].value).shape.rank(), 2u);
  EXPECT_SAYS(error_of(model(graph({{node("Relu", {"x"}, {"y"})}, {}, {n}, {value("y", kInt64, {1, 2})}}))),
              "declared");
}

TEST(OnnxGraph, LongNamesAndControlCharactersStayOutOfMessages) {
  const std::string huge(10'000'000, 'n');
  EXPECT_LT(error_of(model(graph({{node("Relu", {huge}, {"y"})}, {}, {x}, {y}}))).size(), 1000u);
  const std::string text = error_of(model(graph({{node("Relu", {"a\n\x1b[2J"}, {"y"})}, {}, {x}, {y}})));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(OnnxGraph, AChainOfManyNodes) {
  GraphParts g{{}, {}, {x}, {value("v100000", kFloat, {2})}};
  for (int i = 0; i < 100000; ++i)
    g.nodes.push_back(node("Relu", {i ? "v" + std::to_string(i) : "x"}, {"v" + std::to_string(i + 1)}));
  const auto m = load(model(graph(g)));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(m->graph.nodes().size(), 100001u);
}

TEST(OnnxGraph, AnInputWithAnInitializerIsAConstant) {
  const auto m = load(model(graph({{node("Add", {"x", "w"}, {"y"})},
                                   {tensor("w", kFloat, {2}, floats({1, 2}))},
                                   {x, value("w", kFloat, {2})},
                                   {y}}),
                            13, 3));
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->graph.input_count(), 1u);
  EXPECT_EQ(run(*m, {1, 1}), (std::vector<double>{2, 3}));
}

TEST(OnnxTensor, WrongTensors) {
  const auto with = [&](const Msg& t) { return error_of(model(graph({{node("Relu", {"w"}, {"y"})}, {t}, {}, {}}))); };
  EXPECT_SAYS(with(tensor("w", kFloat, {-1}, "")), "'w'");
  EXPECT_SAYS(with(tensor("w", kFloat, {int64_t{1} << 32, int64_t{1} << 32, 2}, "")), "larger");
  EXPECT_SAYS(with(tensor("w", kFloat, {1 << 20}, floats({1, 2}))), "8 bytes");
  EXPECT_SAYS(with(tensor("w", kFloat, {2}, std::string(4096, 0))), "4096 bytes");
  EXPECT_SAYS(with(tensor("w", 99, {2}, "")), "99");
  EXPECT_SAYS(with(tensor("w", kFloat, {1}, floats({1})).str(4, floats({1}))), "both");
  EXPECT_SAYS(with(Msg().num(1, 2).num(2, kFloat).str(8, "w").str(4, floats({1}))), "1 elements");
  EXPECT_SAYS(with(Msg().num(1, 1).num(2, kFloat).str(8, "w").num(7, 5)), "does not belong");
  EXPECT_SAYS(with(tensor("", kFloat, {1}, floats({1}))), "no name");
}

TEST(OnnxFunction, IsInlined) {
  // f(a) = Relu(a), g(a) = f(f(a)) with its calls in the wrong order.
  const Msg f = Msg().str(1, "f").str(4, "a").str(5, "b").msg(7, node("Relu", {"a"}, {"b"})).str(10, "d");
  const Msg g = Msg()
                    .str(1, "g")
                    .str(4, "a")
                    .str(5, "c")
                    .msg(7, node("f", {"b"}, {"c"}, {}, "d"))
                    .msg(7, node("f", {"a"}, {"b"}, {}, "d"))
                    .str(10, "d");
  const auto m = load(model(graph({{node("g", {"x"}, {"y"}, {}, "d")}, {}, {x}, {y}})).msg(25, f).msg(25, g));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(run(*m, {-1, 2}), (std::vector<double>{0, 2}));
}

TEST(OnnxFunction, TakesAttributesOfTheCallOrItsOwn) {
  // f(; level = 4) calls an unknown operator with level; h() calls it without one that has no standard value.
  const Msg f =
      Msg()
          .str(1, "f")
          .str(4, "a")
          .str(5, "b")
          .str(6, "other")
          .msg(7, node("U", {"a"}, {"b"}, {ref_attr("level", "level", 2), ref_attr("other", "other", 2)}, "e"))
          .str(10, "d")
          .msg(11, int_attr("level", 4));
  const auto level = [&](const std::vector<Msg>& given) {
    const auto m = load(model(graph({{node("f", {"x"}, {"y"}, given, "d")}, {}, {x}, {y}})).msg(25, f));
    EXPECT_TRUE(m.ok()) << m.error().to_string();
    const ir::Attrs& attrs = m->graph.nodes().back().attrs;
    EXPECT_FALSE(attrs.has("other"));
    return *attrs.get<int64_t>("level");
  };
  EXPECT_EQ(level({}), 4);
  EXPECT_EQ(level({int_attr("level", 9)}), 9);
}

TEST(OnnxFunction, RecursionAndExpansionBombsAreRefused) {
  const Msg loop = Msg().str(1, "f").str(4, "a").str(5, "b").msg(7, node("f", {"a"}, {"b"}, {}, "d")).str(10, "d");
  EXPECT_SAYS(error_of(model(graph({{node("f", {"x"}, {"y"}, {}, "d")}, {}, {x}, {y}})).msg(25, loop)), "itself");
  Msg bomb = model(graph({{node("f40", {"x"}, {"y"}, {}, "d")}, {}, {x}, {y}}));
  for (int i = 0; i <= 40; ++i) {
    const std::string inner = i ? "f" + std::to_string(i - 1) : "Relu", domain = i ? "d" : "";
    bomb.msg(25, Msg()
                     .str(1, "f" + std::to_string(i))
                     .str(4, "a")
                     .str(5, "c")
                     .msg(7, node(inner, {"a"}, {"b"}, {}, domain))
                     .msg(7, node(inner, {"b"}, {"c"}, {}, domain))
                     .str(10, "d"));
  }
  EXPECT_SAYS(error_of(bomb), "expand");
}

TEST(OnnxBody, CapturesOuterValuesExplicitly) {
  const Msg yes = graph({{node("Relu", {"h"}, {"t"})}, {}, {}, {value("t", kFloat, {2})}});
  const Msg no = graph({{node("Add", {"h", "x"}, {"e"})}, {}, {}, {value("e", kFloat, {2})}});
  const Msg cond = tensor("c", 9, {}, std::string(1, '\0'));
  const auto m =
      load(model(graph({{node("Add", {"x", "x"}, {"h"}),
                         node("If", {"c"}, {"y"}, {graph_attr("then_branch", yes), graph_attr("else_branch", no)})},
                        {cond},
                        {x},
                        {y}})));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(run(*m, {1, 2}), (std::vector<double>{3, 6}));
  const auto bytes = onnx::save_bytes(m->graph);
  ASSERT_TRUE(bytes.ok());
  const auto again = load(*bytes);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_TRUE(ir::equal(m->graph, again->graph));
}

TEST(OnnxBody, AnInputWithoutATypeTakesThatOfItsValue) {
  const std::string three("\3\0\0\0\0\0\0\0", 8);
  const Msg body = graph({{node("Identity", {"c"}, {"c_out"}), node("Add", {"v", "v"}, {"v_out"})},
                          {},
                          {value("i", kInt64, {}), value("c", 9, {}), Msg().str(1, "v")},
                          {Msg().str(1, "c_out"), Msg().str(1, "v_out")}});
  const Msg loop = node("Loop", {"m", "", "x"}, {"y"}, {graph_attr("body", body)});
  const auto m = load(model(graph({{loop}, {tensor("m", kInt64, {}, three)}, {x}, {y}})));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(run(*m, {1, 2}), (std::vector<double>{8, 16}));
}

// As PaddlePaddle's exporter writes them: a condition of one element is a scalar in one branch, a vector in the other.
TEST(OnnxBody, OneElementHasTheShapeThatABodyDeclares) {
  const Msg yes =
      graph({{node("ReduceMax", {"x"}, {"t"}, {int_attr("keepdims", 1)})}, {}, {}, {value("t", kFloat, {})}});
  const Msg no =
      graph({{node("ReduceMax", {"x"}, {"e"}, {int_attr("keepdims", 0)})}, {}, {}, {value("e", kFloat, {})}});
  const Msg choice = node("If", {"c"}, {"y"}, {graph_attr("then_branch", yes), graph_attr("else_branch", no)});
  for (const char c : {'\0', '\1'}) {
    const Msg cond = tensor("c", 9, {}, std::string(1, c));
    const auto m = load(model(graph({{choice}, {cond}, {x}, {value("y", kFloat, {})}})));
    ASSERT_TRUE(m.ok()) << m.error().to_string();
    EXPECT_EQ(run(*m, {1, 2}), (std::vector<double>{2}));
  }
  const Msg two = graph({{node("Relu", {"x"}, {"t"})}, {}, {}, {value("t", kFloat, {})}});
  const Msg wrong = node("If", {"c"}, {"y"}, {graph_attr("then_branch", two), graph_attr("else_branch", no)});
  EXPECT_SAYS(error_of(model(graph({{wrong}, {tensor("c", 9, {}, "\1")}, {x}, {value("y", kFloat, {})}}))), "declared");
}

TEST(OnnxBody, AStateMayStartAsAPlaceholderOfAnotherRank) {
  const std::string two("\2\0\0\0\0\0\0\0", 8);
  const Msg body = graph({{node("Identity", {"c"}, {"c_out"}), node("Add", {"x", "x"}, {"v_out"})},
                          {},
                          {value("i", kInt64, {}), value("c", 9, {}), value("v", kFloat, {2})},
                          {value("c_out", 9, {}), value("v_out", kFloat, {2})}});
  const Msg loop = node("Loop", {"m", "", "start"}, {"y"}, {graph_attr("body", body)});
  const auto m = load(model(graph(
      {{loop}, {tensor("m", kInt64, {}, two), tensor("start", kFloat, {}, floats({0}))}, {x}, {Msg().str(1, "y")}})));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(run(*m, {1, 2}), (std::vector<double>{2, 4}));
}

// PyTorch's exporter declares the sizes that states have at first, and one name for sizes that differ.
TEST(OnnxBody, AStateMayGrowThoughItsBodyDeclaresASize) {
  const std::string two("\2\0\0\0\0\0\0\0", 8);
  const auto named = [](std::string_view name) {
    return Msg().str(1, name).msg(2, Msg().msg(1, Msg().num(1, kFloat).msg(2, Msg().msg(1, Msg().str(2, "n")))));
  };
  for (const bool by_name : {false, true}) {
    const Msg body =
        graph({{node("Identity", {"c"}, {"c_out"}), node("Concat", {"v", "x"}, {"v_out"}, {int_attr("axis", 0)}),
                node("Identity", {"w"}, {"w_out"})},
               {},
               {value("i", kInt64, {}), value("c", 9, {}), by_name ? named("v") : value("v", kFloat, {0}),
                by_name ? named("w") : value("w", kFloat, {1})},
               {value("c_out", 9, {}), Msg().str(1, "v_out"), Msg().str(1, "w_out")}});
    const Msg loop = node("Loop", {"m", "", "start", "one"}, {"y", "z"}, {graph_attr("body", body)});
    const auto m = load(model(graph(
        {{loop},
         {tensor("m", kInt64, {}, two), tensor("start", kFloat, {0}, ""), tensor("one", kFloat, {1}, floats({1}))},
         {x},
         {Msg().str(1, "y")}})));
    ASSERT_TRUE(m.ok()) << m.error().to_string();
    EXPECT_EQ(run(*m, {1, 2}), (std::vector<double>{1, 2, 1, 2}));
    const auto bytes = onnx::save_bytes(m->graph);
    ASSERT_TRUE(bytes.ok());
    const auto again = load(*bytes);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(run(*again, {1, 2}), (std::vector<double>{1, 2, 1, 2}));
  }
}

TEST(OnnxNode, TypeZeroMeansThatNoneIsGiven) {
  const Msg eye = node("EyeLike", {"x"}, {"y"}, {int_attr("dtype", 0)});
  const auto m = load(model(graph({{eye}, {}, {value("x", kFloat, {1, 2})}, {value("y", kFloat, {1, 2})}})));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(m->graph.nodes().back().op->name, "eye_like");
  const Msg cast = node("Cast", {"x"}, {"y"}, {int_attr("to", 0)});
  EXPECT_SAYS(error_of(model(graph({{cast}, {}, {x}, {y}}))), "0 is no element type");
}

TEST(OnnxBody, NestingIsLimited) {
  Msg chain = graph({{node("Relu", {"x"}, {"y0"})}, {}, {}, {value("y0", kFloat, {2})}});
  for (int i = 1; i < 90; ++i) {
    const std::string out = "y" + std::to_string(i);
    chain = graph({{node("Unknown", {}, {out}, {graph_attr("body", chain)})}, {}, {}, {value(out, kFloat, {2})}});
  }
  EXPECT_SAYS(error_of(model(graph({{node("Unknown", {}, {"y"}, {graph_attr("body", chain)})}, {}, {x}, {y}}))),
              "nested");
}

TEST(OnnxOpaque, UnknownOperatorsAreKeptAndWrittenBack) {
  const Msg n = node("Mystery", {"x", "", "w"}, {"y", "", "z"},
                     {int_attr("level", 3), Msg().str(1, "text").num(20, 4).msg(5, tensor("s", kString, {1}, ""))},
                     "com.example");
  const auto m = load(model(graph({{n}, {tensor("w", kFloat, {1}, floats({4}))}, {x}, {y}})));
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  ASSERT_FALSE(m->warnings.empty());
  const auto out = interp::run(m->graph, ops::table(), {Tensor(DType::F32, {2})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code, "E-unsupported");
  EXPECT_SAYS(out.error().to_string(), "com.example.Mystery");
  EXPECT_SAYS(out.error().to_string(), "node_y");
  const auto bytes = onnx::save_bytes(m->graph);
  ASSERT_TRUE(bytes.ok());
  EXPECT_SAYS(*bytes, "Mystery");
  const auto again = load(*bytes);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_TRUE(ir::equal(m->graph, again->graph));
}

}  // namespace
}  // namespace isomer
