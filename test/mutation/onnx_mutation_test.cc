// Real small models, broken in every way a seeded generator finds: bits flipped, bytes cut, spliced and doubled, lengths
// changed. Reading one ends in a graph or a Diagnostic; a graph that was read is sound, can be written, and runs with small
// limits to values or a Diagnostic. Also run under the sanitizers.
//   ISOMER_MUTATION_SEED, ISOMER_MUTANTS, ISOMER_MUTATION_KEEP   another seed, another number, a folder for what fails
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/random.h"
#include "interp/interp.h"
#include "ir/verify.h"
#include "onnx/onnx.h"
#include "ops/table.h"
#include "test/mutation/isolated.h"
#include "test/mutation/wire_tree.h"
#include "test/setting.h"
#include "zoo/zoo.h"

namespace isomer {
namespace {

namespace fs = std::filesystem;

// Small models: those of the conformance suite up to 6 KiB, and the smallest network of the zoo.
std::vector<std::string> seeds() {
  std::vector<std::string> out;
#ifdef ISOMER_ONNX_TESTDATA
  std::vector<fs::path> paths;
  for (const char* category : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    for (const auto& entry : fs::directory_iterator(fs::path(ISOMER_ONNX_TESTDATA) / category))
      if (fs::exists(entry.path() / "model.onnx") && fs::file_size(entry.path() / "model.onnx") <= 6144)
        paths.push_back(entry.path() / "model.onnx");
  std::sort(paths.begin(), paths.end());
  for (const fs::path& p : paths) {
    std::ifstream file(p, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
#endif
  if (const auto tiny = zoo::build("tiny", ops::table(), {.image = 8}); tiny.ok())
    if (const auto bytes = onnx::save_bytes(*tiny); bytes.ok()) out.push_back(*bytes);
  return out;
}

class Mutator {
 public:
  Mutator(uint64_t seed, const std::vector<std::string>& corpus) : random_(seed), corpus_(corpus) {}

  std::string next() {
    std::string bytes = corpus_[below(corpus_.size())];
    if (below(3) != 0) return edited(bytes);
    // Most mutants keep all lengths, so that they get past the container into the graph.
    const bool keep_lengths = below(4) != 0;
    for (size_t n = 1 + below(3); n > 0 && !bytes.empty(); --n) keep_lengths ? change(bytes) : reshape(bytes);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  // The message with one to three fields changed, and every length right.
  std::string edited(const std::string& bytes) {
    std::vector<testing::WireField> root;
    if (!testing::read_wire(bytes, root)) return bytes;
    for (size_t n = 1 + below(3); n > 0; --n) {
      std::vector<testing::WirePlace> places;
      testing::wire_places(root, places);
      if (places.empty()) break;
      edit(places[below(places.size())], places);
    }
    return testing::write_wire(root);
  }

  void edit(const testing::WirePlace& place, const std::vector<testing::WirePlace>& places) {
    static constexpr uint64_t kEdges[] = {
        0, 1, 2, 3, 7, 16, 255, uint64_t{1} << 31, uint64_t{1} << 62, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{1}};
    std::vector<testing::WireField>& list = *place.list;
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(place.index);
    const testing::WireField copy = *at;
    const testing::WirePlace& other = places[below(places.size())];
    switch (below(6)) {
      case 0: list.erase(at); break;
      case 1: list.insert(at, copy); break;
      case 2: list.insert(at, testing::WireField((*other.list)[other.index])); break;
      case 3: *at = testing::WireField((*other.list)[other.index]); break;
      default:
        if (copy.wire() == 0) {
          at->varint = below(2) ? kEdges[below(std::size(kEdges))] : copy.varint + below(5) - 2;
        } else if (!copy.nested && !copy.bytes.empty()) {
          below(2) ? change(at->bytes) : reshape(at->bytes);
        }
    }
  }

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

// Values for the inputs of a mutant, where they are small: nothing else can be run within the limits.
std::optional<std::vector<Tensor>> small_inputs(const ir::Graph& g, Random& r) {
  std::vector<Tensor> out;
  for (const ir::Node& n : g.inputs()) {
    const Type& type = n.types[0];
    if (type.dtype == DType::Opaque || !type.shape.has_rank()) return std::nullopt;
    std::vector<int64_t> dims;
    for (const Dim& d : type.shape.dims()) dims.push_back(d.constant().value_or(2));
    const auto elements = checked_elements(type.dtype, dims);
    if (!elements.ok() || *elements > 1 << 14) return std::nullopt;
    Tensor t(type.dtype, dims);
    for (int64_t i = 0; i < *elements; ++i)
      is_float(type.dtype) ? t.set_real(i, r.normal()) : t.set_integer(i, r.between(-1, 3));
    out.push_back(std::move(t));
  }
  return out;
}

void attempt(const std::string& bytes, uint64_t seed, testing::Progress& progress) {
  const auto model = onnx::load_bytes(std::as_bytes(std::span(bytes)), ops::table());
  if (!model.ok()) {
    EXPECT_FALSE(model.error().message.empty());
    EXPECT_LT(model.error().to_string().size(), 4000u);
    return;
  }
  ++progress.built;
  const auto sound = ir::verify(model->graph, ops::table());
  EXPECT_TRUE(sound.ok()) << sound.error().to_string();
  const auto again = onnx::save_bytes(model->graph);
  EXPECT_TRUE(again.ok() || !again.error().message.empty());
  Random r(seed);
  const auto inputs = small_inputs(model->graph, r);
  if (!inputs) return;
  interp::Options limits;
  limits.max_value_bytes = 1 << 22;
  limits.max_live_bytes = 1 << 23;
  limits.max_loop_iterations = 100;
  limits.max_seconds = 0.2;
  limits.threads = 1;
  if (interp::run(model->graph, ops::table(), *inputs, limits).ok()) ++progress.ran;
}

TEST(OnnxMutation, EveryMutantIsReadOrRefused) {
  const std::vector<std::string> corpus = seeds();
  if (corpus.empty()) FAIL() << "the ONNX test data is not installed; scripts/bootstrap installs it (libonnx-testdata)";
  const uint64_t seed = testing::setting("ISOMER_MUTATION_SEED", 20240607);
  const uint64_t mutants = testing::setting("ISOMER_MUTANTS", 40000);
  fmt::print("seed {}, {} mutants of {} models\n", seed, mutants, corpus.size());
  const auto nth = [&](uint64_t i) { return Mutator(seed + i, corpus).next(); };
  testing::Isolated isolated;
  isolated.run(
      mutants, [&](uint64_t i) { attempt(nth(i), seed + i, isolated.progress()); },
      [&](uint64_t i) {
        if (const char* folder = std::getenv("ISOMER_MUTATION_KEEP"))
          std::ofstream(fmt::format("{}/{}.onnx", folder, seed + i), std::ios::binary) << nth(i);
        return fmt::format("mutant {}; ISOMER_MUTATION_KEEP=FOLDER keeps it as a file", seed + i);
      },
      static_cast<int>(testing::setting("ISOMER_MOST_FAILURES", 20)));
  fmt::print("{} of them are still models, {} have run\n", isolated.progress().built, isolated.progress().ran);
}

}  // namespace
}  // namespace isomer
