// Real small models, broken in every way a seeded generator finds: bits flipped, bytes cut, spliced and doubled, lengths
// changed. Reading one ends in a graph or a Diagnostic; a graph that was read can be written. Also run under the
// sanitizers, where a crash, an overflow or a runaway allocation fails the test.
//   ISOMER_MUTATION_SEED, ISOMER_MUTANTS   another seed, another number
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "onnx/onnx.h"
#include "ops/table.h"

namespace isomer {
namespace {

namespace fs = std::filesystem;

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Models of at most 4 KiB, those with bodies first.
std::vector<std::string> seeds() {
  std::vector<std::string> out;
#ifdef ISOMER_ONNX_TESTDATA
  std::vector<fs::path> paths;
  for (const char* category : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    for (const auto& entry : fs::directory_iterator(fs::path(ISOMER_ONNX_TESTDATA) / category))
      if (fs::exists(entry.path() / "model.onnx") && fs::file_size(entry.path() / "model.onnx") <= 4096)
        paths.push_back(entry.path() / "model.onnx");
  std::sort(paths.begin(), paths.end());
  for (const fs::path& p : paths) {
    std::ifstream file(p, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
#endif
  return out;
}

class Mutator {
 public:
  Mutator(uint64_t seed, const std::vector<std::string>& corpus) : random_(seed), corpus_(corpus) {}

  std::string next() {
    std::string bytes = corpus_[below(corpus_.size())];
    // Most mutants keep all lengths, so that they get past the container into the graph.
    const bool keep_lengths = below(4) != 0;
    for (size_t n = 1 + below(3); n > 0 && !bytes.empty(); --n) keep_lengths ? change(bytes) : reshape(bytes);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void change(std::string& s) {
    const size_t at = below(s.size());
    switch (below(5)) {
      case 0: s[at] = static_cast<char>(s[at] ^ (1 << below(8))); break;
      case 1: s[at] = static_cast<char>(random_()); break;
      case 2: s[at] = static_cast<char>(s[at] + (below(2) ? 1 : -1)); break;
      case 3: s[at] = "\x00\x7f\x01\x09\x80"[below(5)]; break;
      default: {  // one name, number or type for another
        const size_t n = std::min({s.size() - at, 1 + below(8), s.size()}), from = below(s.size() - n + 1);
        s.replace(at, n, s.substr(from, n));
        break;
      }
    }
  }

  void reshape(std::string& s) {
    const size_t at = below(s.size()), n = std::min(s.size() - at, 1 + below(16));
    switch (below(5)) {
      case 0: s.resize(at); break;
      case 1: s.erase(at, n); break;
      case 2: s.insert(at, s.substr(at, n)); break;
      case 3: {  // a piece of another model
        const std::string& other = corpus_[below(corpus_.size())];
        s.insert(at, other.substr(below(other.size()), 1 + below(64)));
        break;
      }
      default: {  // numbers at the edges: as lengths, dims, axes, versions
        static constexpr const char* kEdges[] = {"\x7f", "\xff\xff\xff\xff\x0f",
                                                 "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                                                 "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x80\x80\x80\x80\x10"};
        s.replace(at, 1, kEdges[below(5)]);
        break;
      }
    }
  }

  std::mt19937_64 random_;
  const std::vector<std::string>& corpus_;
};

TEST(OnnxMutation, EveryMutantIsReadOrRefused) {
  const std::vector<std::string> corpus = seeds();
  if (corpus.empty()) GTEST_SKIP() << "the ONNX test data is not installed";
  const uint64_t seed = number("ISOMER_MUTATION_SEED", 20240607), mutants = number("ISOMER_MUTANTS", 40000);
  fmt::print("seed {}, {} mutants of {} models\n", seed, mutants, corpus.size());
  Mutator mutator(seed, corpus);
  size_t read = 0;
  for (uint64_t i = 0; i < mutants; ++i) {
    const std::string bytes = mutator.next();
    if (std::getenv("ISOMER_MUTATION_KEEP")) std::ofstream(std::getenv("ISOMER_MUTATION_KEEP")) << bytes;
    const auto model = onnx::load_bytes(std::as_bytes(std::span(bytes)), ops::table());
    if (!model.ok()) {
      EXPECT_FALSE(model.error().message.empty()) << "mutant " << i;
      EXPECT_LT(model.error().to_string().size(), 4000u) << "mutant " << i;
      continue;
    }
    ++read;
    const auto again = onnx::save_bytes(model->graph);
    EXPECT_TRUE(again.ok() || !again.error().message.empty()) << "mutant " << i;
  }
  fmt::print("{} of them are still models\n", read);
}

}  // namespace
}  // namespace isomer
