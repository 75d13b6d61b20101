#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "interp/interp.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "test/unit/onnx/wire_model.h"

namespace isomer {
namespace {

namespace fs = std::filesystem;
using namespace onnx_test;  // NOLINT: the vocabulary of these tests

class OnnxFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "isomer_onnx_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }

  void write(const fs::path& name, const std::string& bytes) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  // Loads a model whose initializer is external as told; "" when it loads.
  std::string error_with(const std::vector<std::pair<std::string, std::string>>& entries) const {
    const Msg m = model(graph({{node("Add", {"x", "w"}, {"y"})},
                               {external("w", {2}, entries)},
                               {value("x", kFloat, {2})},
                               {value("y", kFloat, {2})}}));
    write("model.onnx", m.bytes);
    const auto loaded = onnx::load((folder / "model.onnx").string(), ops::table());
    return loaded.ok() ? "" : loaded.error().to_string();
  }

  fs::path folder;
};

TEST_F(OnnxFile, ExternalDataBelowTheFolderIsRead) {
  write("w.bin", "0000" + floats({5, 6}));
  write("sub/w.bin", floats({7, 8}));
  EXPECT_EQ(error_with({{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}}), "");
  const auto m = onnx::load((folder / "model.onnx").string(), ops::table());
  const auto out = interp::run(m->graph, ops::table(), {Tensor(DType::F32, {2})});
  EXPECT_EQ(out->at(0).to_reals(), (std::vector<double>{5, 6}));
  EXPECT_EQ(error_with({{"location", "./sub/w.bin"}}), "");
}

TEST_F(OnnxFile, ExternalDataElsewhereIsRefused) {
  write("w.bin", floats({5, 6}));
  write("hard.bin", floats({5, 6}));
  write("real/w.bin", floats({5, 6}));
  fs::create_symlink("/etc/passwd", folder / "link");
  fs::create_symlink("w.bin", folder / "soft.bin");
  fs::create_directory_symlink("real", folder / "alias");
  fs::create_hard_link(folder / "hard.bin", folder / "hard2.bin");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* bad : {"../w.bin", "/etc/passwd", "real/../w.bin", "link", "soft.bin", "alias/w.bin", "hard.bin",
                          "pipe", "real", "missing.bin", "", ".", "w.bin/x", "a\\b"})
    EXPECT_NE(error_with({{"location", bad}}), "") << bad;
  for (const char* number : {"-1", "NaN", "99999999999999999999999", "1e3", "0x10", " 4", "", "18446744073709551615"}) {
    EXPECT_NE(error_with({{"location", "w.bin"}, {"offset", number}}), "") << number;
    EXPECT_NE(error_with({{"location", "w.bin"}, {"length", number}}), "") << number;
  }
  EXPECT_NE(error_with({{"location", "w.bin"}, {"offset", "1"}}), "");
  EXPECT_NE(error_with({{"location", "w.bin"}, {"location", "hard.bin"}}), "");
  EXPECT_NE(error_with({}), "");
  EXPECT_EQ(error_with({{"location", "w.bin"}}), "");
}

TEST_F(OnnxFile, SavesInOneFileOrWithDataBeside) {
  ir::GraphBuilder b(ops::table(), "g");
  const ir::Value x = *b.input("x", {DType::F32, {Dim::symbol("N"), 64}, nullptr});
  const ir::Value w = b.constant(Tensor::of<double>(DType::F32, {64, 64}, std::vector<double>(4096, 0.5)), "w");
  // Data of large weights are written from where they lie, those of small ones as a part of the message.
  const ir::Value small = b.constant(Tensor::of<double>(DType::F32, {64}, std::vector<double>(64, 2)), "small");
  const ir::Value v = b.constant(Tensor::of<double>(DType::F32, {64, 64}, std::vector<double>(4096, -3)), "v");
  const ir::Value y = *b.add1("matmul", {*b.add1("add", {*b.add1("matmul", {x, v}), small}), w});
  b.output("y", y);
  b.output("y2", y);
  b.output("x", x);
  b.output("x2", x);
  b.output("w2", w);
  const ir::Graph g = *std::move(b).finish();
  for (bool external_data : {false, true}) {
    const std::string path = (folder / (external_data ? "e.onnx" : "m.onnx")).string();
    ASSERT_TRUE(onnx::save(g, path, {.external_data = external_data}).ok());
    const auto again = onnx::load(path, ops::table());
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_TRUE(ir::equal(g, again->graph));
  }
  std::ifstream file(folder / "m.onnx", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), *onnx::save_bytes(g));
  EXPECT_LT(fs::file_size(folder / "e.onnx"), 2000u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 3);
  EXPECT_FALSE(onnx::save(g, (folder / "no/such/m.onnx").string()).ok());
}

TEST_F(OnnxFile, TensorsOfEveryTypeSurvive) {
  for (DType t : kAllDTypes) {
    const Tensor value = Tensor::of<double>(t, {3, 1}, {0, 1, t == DType::Bool ? 1.0 : 100.0});
    const std::string path = (folder / "t.pb").string();
    ASSERT_TRUE(onnx::save_tensor(value, path, "t").ok());
    const auto again = onnx::load_tensor(path);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_TRUE(*again == value) << name(t);
  }
}

}  // namespace
}  // namespace isomer
