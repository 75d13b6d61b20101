// Every distinct convolution and matrix product of the zoo: GFLOP/s and share of the machine's peak, as it runs in its
// network. A layer is timed where it stands, by the profile of the compiled network: with the layouts, the epilogue and the
// cold weights that it has there, and with the steps that prepare its operands. A shape that occurs several times counts
// once, by its fastest run. A rate above the peak is that of an algorithm with fewer products than the definition has.
//
//     contractions [--threads N] [--duration SECONDS] [--json FILE] [NETWORK...]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "driver/bench.h"
#include "driver/inputs.h"
#include "ops/table.h"
#include "zoo/zoo.h"

namespace isomer {
namespace {

constexpr double kLeastFlops = 20e6;  // of a shape that counts for its class
constexpr const char* kClasses[] = {"matmul and 1x1", "3x3 stride 1", "strided and larger", "grouped", "depthwise",
                                    "few rows",       "several"};

struct Layer {
  std::string kind, shape;
};

struct Row {
  std::vector<std::string> networks;
  int count = 0;
  double flops = 0, seconds = 0, preparing = 0;
  double rate() const { return flops / seconds; }
};

struct Options {
  int threads = 1;
  double seconds = 2;
  std::string json;
  std::vector<std::string> networks;
};

using Table = std::map<std::pair<size_t, std::string>, Row>;  // by class and shape

std::vector<int64_t> dims_of(const Type& type) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < type.shape.rank(); ++d) out.push_back(type.shape[d].constant().value_or(0));
  return out;
}

int64_t most(const ir::Node& node, const char* attribute) {
  const auto* list = node.attrs.get<std::vector<int64_t>>(attribute);
  return list && !list->empty() ? *std::max_element(list->begin(), list->end()) : 1;
}

Layer convolution(const ir::Graph& graph, const ir::Node& node) {
  const std::vector<int64_t> in = dims_of(graph.type(node.inputs[0])), w = dims_of(graph.type(node.inputs[1]));
  const std::vector<int64_t> taps(w.begin() + 2, w.end());
  const int64_t* group = node.attrs.get<int64_t>("group");
  const int64_t stride = most(node, "strides"), dilation = most(node, "dilations"), groups = group ? *group : 1;
  Layer out;
  out.shape = fmt::format("{} {}->{} @{}", fmt::join(taps, "x"), in[1], w[0],
                          fmt::join(std::vector<int64_t>(in.begin() + 2, in.end()), "x"));
  if (stride > 1) out.shape += fmt::format(" stride {}", stride);
  if (dilation > 1) out.shape += fmt::format(" dilation {}", dilation);
  if (groups > 1) out.shape += fmt::format(" groups {}", groups);
  const int64_t widest = *std::max_element(taps.begin(), taps.end());
  if (groups > 1)
    out.kind = w[1] == 1 ? "depthwise" : "grouped";
  else if (stride > 1)
    out.kind = "strided and larger";
  else if (widest == 1)
    out.kind = "matmul and 1x1";
  else
    out.kind = taps == std::vector<int64_t>{3, 3} && dilation == 1 ? "3x3 stride 1" : "strided and larger";
  return out;
}

Layer product(const ir::Graph& graph, const ir::Node& node) {
  const std::vector<int64_t> left = dims_of(graph.type(node.inputs[0])), right = dims_of(graph.type(node.inputs[1]));
  const std::vector<int64_t> out = dims_of(node.types[0]);
  const int64_t columns = out.empty() ? 1 : out.back();
  int64_t all = 1;
  for (const int64_t d : out) all *= d;
  int64_t rows = columns > 0 ? all / columns : 1, batch = 1;
  if (right.size() > 2 && out.size() > 2) {
    batch = rows / out[out.size() - 2];
    rows = out[out.size() - 2];
  }
  const int64_t depth = right.size() < 2 ? right[0] : right[0] == columns && right.size() == 2 ? right[1] : 0;
  const int64_t inner = !left.empty() && node.op->name == "matmul" ? left.back() : depth ? depth : right[0];
  return {rows > 4 ? "matmul and 1x1" : "few rows",
          (batch > 1 ? fmt::format("{} x ", batch) : "") + fmt::format("{}x{}x{}", rows, inner, columns)};
}

std::map<std::string, Layer> layers_of(const ir::Graph& graph) {
  std::map<std::string, Layer> out;
  for (const ir::Node& n : graph.nodes()) {
    if (n.op->name == "conv") out[n.label] = convolution(graph, n);
    if (n.op->name == "matmul" || n.op->name == "gemm") out[n.label] = product(graph, n);
  }
  return out;
}

size_t class_number(const std::string& kind) {
  return static_cast<size_t>(std::find(std::begin(kClasses), std::end(kClasses), kind) - std::begin(kClasses));
}

void take(const std::map<std::string, Layer>& layers, const driver::BenchResult& result, const std::string& network,
          Table& table) {
  double preparing = 0;
  for (const driver::StepTime& s : result.steps) {
    std::vector<Layer> found;
    std::stringstream names(s.origin);
    for (std::string name; std::getline(names >> std::ws, name, ',');)
      if (const auto it = layers.find(name); it != layers.end()) found.push_back(it->second);
    if (found.empty() || s.runs == 0) continue;
    if (s.flops == 0) {
      preparing += s.fastest;
      continue;
    }
    Layer layer = found.back();
    if (found.size() > 1) layer = {"several", ""};
    for (size_t i = 0; i < found.size() && found.size() > 1; ++i) layer.shape += (i ? " + " : "") + found[i].shape;
    Row& row = table[{class_number(layer.kind), layer.shape}];
    const double seconds = s.fastest + preparing;
    if (row.count++ == 0 || seconds < row.seconds)
      row.flops = s.flops, row.seconds = seconds, row.preparing = preparing;
    if (std::find(row.networks.begin(), row.networks.end(), network) == row.networks.end())
      row.networks.push_back(network);
    preparing = 0;
  }
}

Expected<double> measure(const std::string& network, const Options& options, Table& table) {
  ISOMER_TRY(const ir::Graph graph, zoo::build(network, ops::table()));
  ISOMER_TRY(const std::vector<Tensor> inputs, driver::make_inputs(graph, {}));
  driver::BenchOptions bench;
  bench.executor.native.threads = options.threads;
  bench.executor.native.profile = true;
  bench.seconds = options.seconds;
  bench.check = false;
  ISOMER_TRY(const driver::BenchResult result, driver::bench(graph, inputs, bench));
  take(layers_of(graph), result, network, table);
  return result.peak_flops;
}

void print(const Table& table, double peak) {
  for (size_t kind = 0; kind < std::size(kClasses); ++kind) {
    std::vector<std::pair<std::string, const Row*>> rows;
    std::vector<double> shares;
    for (const auto& [key, row] : table) {
      if (key.first != kind) continue;
      rows.emplace_back(key.second, &row);
      if (row.flops >= kLeastFlops) shares.push_back(row.rate() / peak);
    }
    if (rows.empty()) continue;
    std::sort(shares.begin(), shares.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second->flops > b.second->flops; });
    fmt::print("\n{}: {} shapes", kClasses[kind], rows.size());
    if (!shares.empty())
      fmt::print(", median {:.0f}% of the peak over {} above {:.0f} MFLOP", 100 * shares[shares.size() / 2],
                 shares.size(), kLeastFlops * 1e-6);
    fmt::print("\n");
    for (const auto& [shape, r] : rows)
      fmt::print("  {:<48}{:>9.1f} MFLOP{:>9.0f} us (preparing {:>4.0f}){:>8.1f} GFLOP/s{:>5.0f}%  {}x {}\n", shape,
                 r->flops * 1e-6, r->seconds * 1e6, r->preparing * 1e6, r->rate() * 1e-9, 100 * r->rate() / peak,
                 r->count, fmt::join(r->networks, ", "));
  }
}

void write_json(const Table& table, double peak, const Options& options) {
  std::ofstream out(options.json);
  out << fmt::format("{{\"threads\": {}, \"peak_flops_per_second\": {:.4g}, \"shapes\": [", options.threads, peak);
  const char* comma = "";
  for (const auto& [key, r] : table) {
    out << fmt::format(
        "{}\n {{\"class\": \"{}\", \"shape\": \"{}\", \"networks\": [\"{}\"], \"count\": {}, \"flops\": {:.6g}, "
        "\"seconds\": {:.4g}, \"preparing\": {:.4g}, \"share_of_peak\": {:.4g}}}",
        comma, kClasses[key.first], key.second, fmt::join(r.networks, "\", \""), r.count, r.flops, r.seconds,
        r.preparing, r.rate() / peak);
    comma = ",";
  }
  out << "\n]}\n";
}

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = word == "--threads" || word == "--duration" || word == "--json";
    if (has_value && i + 1 == count) return false;
    if (word == "--threads")
      options.threads = std::atoi(words[++i]);
    else if (word == "--duration")
      options.seconds = std::atof(words[++i]);
    else if (word == "--json")
      options.json = words[++i];
    else if (word.rfind("-", 0) == 0)
      return false;
    else
      options.networks.push_back(word);
  }
  if (options.networks.empty())
    for (const zoo::Network& n : zoo::networks()) options.networks.push_back(n.name);
  return true;
}

int run(int count, char** words) {
  Options options;
  if (!parse(count, words, options)) {
    fmt::print(stderr, "usage: contractions [--threads N] [--duration SECONDS] [--json FILE] [NETWORK...]\n");
    return 2;
  }
  Table table;
  double peak = 0;
  for (const std::string& network : options.networks) {
    const auto one = measure(network, options, table);
    if (!one.ok()) {
      fmt::print(stderr, "{}: {}\n", network, one.error().to_string());
      return 1;
    }
    peak = std::max(peak, *one);
  }
  fmt::print("peak {:.1f} GFLOP/s, {} threads\n", peak * 1e-9, options.threads);
  print(table, peak);
  if (!options.json.empty()) write_json(table, peak, options);
  return 0;
}

}  // namespace
}  // namespace isomer

int main(int count, char** words) { return isomer::run(count, words); }
