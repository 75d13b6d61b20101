// ONNX messages written byte by byte, so that tests can build models that no library would write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isomer::onnx_test {

struct Msg {
  std::string bytes;

  Msg& varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes.push_back(static_cast<char>(v | 0x80));
    bytes.push_back(static_cast<char>(v));
    return *this;
  }
  Msg& num(int field, int64_t value) {
    return varint(static_cast<uint64_t>(field) << 3).varint(static_cast<uint64_t>(value));
  }
  Msg& str(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2).varint(value.size());
    bytes += value;
    return *this;
  }
  Msg& msg(int field, const Msg& value) { return str(field, value.bytes); }
};

enum { kFloat = 1, kInt64 = 7, kString = 8 };

inline Msg value(std::string_view name, int type, const std::vector<int64_t>& dims) {
  Msg shape;
  for (int64_t d : dims) shape.msg(1, Msg().num(1, d));
  return Msg().str(1, name).msg(2, Msg().msg(1, Msg().num(1, type).msg(2, shape)));
}
inline Msg int_attr(std::string_view name, int64_t v) { return Msg().str(1, name).num(20, 2).num(3, v); }
inline Msg graph_attr(std::string_view name, const Msg& g) { return Msg().str(1, name).num(20, 5).msg(6, g); }
inline Msg ref_attr(std::string_view name, std::string_view of, int type) {
  return Msg().str(1, name).num(20, type).str(21, of);
}
inline Msg node(std::string_view type, const std::vector<std::string>& in, const std::vector<std::string>& out,
                const std::vector<Msg>& attrs = {}, std::string_view domain = "") {
  Msg m;
  for (const auto& i : in) m.str(1, i);
  for (const auto& o : out) m.str(2, o);
  m.str(3, "node_" + (out.empty() ? std::string() : out[0].substr(0, 40))).str(4, type);
  for (const Msg& a : attrs) m.msg(5, a);
  if (!domain.empty()) m.str(7, domain);
  return m;
}
inline Msg tensor(std::string_view name, int type, const std::vector<int64_t>& dims, std::string_view raw) {
  Msg m;
  for (int64_t d : dims) m.num(1, d);
  return m.num(2, type).str(8, name).str(9, raw);
}
inline std::string floats(const std::vector<float>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)};
}
inline Msg external(std::string_view name, const std::vector<int64_t>& dims,
                    const std::vector<std::pair<std::string, std::string>>& entries) {
  Msg m;
  for (int64_t d : dims) m.num(1, d);
  m.num(2, kFloat).str(8, name);
  for (const auto& [k, v] : entries) m.msg(13, Msg().str(1, k).str(2, v));
  return m.num(14, 1);
}

struct GraphParts {
  std::vector<Msg> nodes, initializers, inputs, outputs;
};
inline Msg graph(const GraphParts& g) {
  Msg m;
  for (const Msg& n : g.nodes) m.msg(1, n);
  m.str(2, "g");
  for (const Msg& t : g.initializers) m.msg(5, t);
  for (const Msg& v : g.inputs) m.msg(11, v);
  for (const Msg& v : g.outputs) m.msg(12, v);
  return m;
}
inline Msg model(const Msg& g, int64_t opset = 13, int64_t ir = 8) {
  return Msg().num(1, ir).msg(7, g).msg(8, Msg().str(1, "").num(2, opset));
}

}  // namespace isomer::onnx_test
