// Labels: choices that somebody makes in the compiler's place: how a value lies in memory, and by which algorithm it is
// computed. They travel with a graph as a property of its metadata, so that whoever compiles the model has them, and other
// readers of the file pass them by.
// Invariant: labels change how fast a model runs (and how sums are rounded), never what it computes. One that fits nothing, of
// another model, other sizes or another CPU, is as good as none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/cut.h"
#include "compile/group.h"
#include "ir/graph.h"
#include "loop/target.h"

namespace isomer::compile {

struct LowerOptions;  // compile/lower.h

// The schemes of kernel.h, in the order in which the compiler tries them; Gathered is Split without windows of an image,
// SplitFiltering is Filtering with products on tile registers; these two are only taken by name. A
// scheme that is named is also taken where the compiler would not expect it to pay.
enum class Algorithm : uint8_t { Standard, Split, Filtering, Windows, Tiles, Rows, Gathered, SplitFiltering };
inline constexpr size_t kAlgorithmCount = 8;
std::string_view name(Algorithm algorithm);

struct Method {
  Algorithm algorithm = Algorithm::Standard;
  Cut cut = {};
  Method() = default;
  Method(Algorithm by, Cut how = {}) : algorithm(by), cut(how) {}  // NOLINT: a scheme is a method
  bool standard() const { return algorithm == Algorithm::Standard; }
  bool operator==(const Method&) const = default;
};
std::string text(const Method& method);  // "split", "split rows=64 parts=2"
std::optional<Method> method_of(std::string_view text);

struct Label {
  std::vector<int> order;  // of the dims, outermost first; empty: as the compiler chooses
  bool copy = false;       // the order of a copy that is made for the readers, where the value itself must be row-major
  Method method;           // of the group that ends with this value
  bool operator==(const Label&) const = default;
};
using Labels = std::map<std::string, Label>;  // by value, see label_names

inline constexpr const char* kLabelsProperty = "isomer.labels";

std::string print(const Labels& labels, const loop::Target& target);
// Lines that are not understood are left out; nothing of another CPU is taken.
Labels parse_labels(std::string_view text, const loop::Target& target);
Labels labels_of(const ir::Graph& graph, const loop::Target& target);

// A name for each value, no two the same; the same for equal graphs with equal names.
std::vector<std::string> label_names(const StageGraph& graph);

// A model as groups of stages, ready for layouts and loops.
struct Grouped {
  StageGraph graph;
  std::vector<Group> groups;
  std::vector<std::string> names;        // label_names
  std::vector<std::vector<int>> orders;  // wanted, by value; empty: none
  std::vector<Method> methods;           // by group
};
Grouped grouped(StageGraph graph, const LowerOptions& options);
// Images among the inputs of a piece of a model: as a convolution before it would have left them.
void open_ports(Grouped& model);
// The copies are groups of their own, each before the first that reads it.
void apply_labels(const Labels& labels, Grouped& model);

}  // namespace isomer::compile
