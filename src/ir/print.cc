#include <fmt/format.h>

#include <cstring>

#include "ir/literal.h"
#include "ir/text.h"

namespace isomer::ir {
namespace {

// Constants of more elements than this go to the pool, when there is one.
constexpr int64_t kInlineElements = 32;
// From this many equal elements on, a constant is written as splat(value).
constexpr int64_t kSplatElements = 8;
// And up to this many: what a reader allocates for a short text stays small.
constexpr int64_t kMaxSplatElements = 4096;

bool is_splat(const Tensor& t) {
  const size_t width = size_of(t.dtype());
  // Every element equals the one before it.
  return t.size() >= kSplatElements && t.size() <= kMaxSplatElements && width != 0 &&
         std::memcmp(t.bytes(), t.bytes() + width, t.byte_size() - width) == 0;
}

class Printer {
 public:
  explicit Printer(ConstantPool* pool) : pool_(pool) {}

  void graph(const Graph& g, const std::string& indent) {
    out_ += "graph @";
    append_name(g.name());
    out_ += '(';
    for (size_t i = 0; i < g.input_count(); ++i) {
      if (i) out_ += ", ";
      out_ += '%';
      append_name(g.node(static_cast<uint32_t>(i)).names[0]);
      out_ += ": ";
      type(g.node(static_cast<uint32_t>(i)).types[0]);
    }
    out_ += ") ";
    metadata(g.metadata());
    out_ += "{\n";
    const std::string inner = indent + "  ";
    for (size_t i = g.input_count(); i < g.nodes().size(); ++i) {
      out_ += inner;
      node(g, g.nodes()[i], inner);
      out_ += '\n';
    }
    out_ += inner;
    returns(g);
    out_ += indent + "}";
  }

  std::string take() { return std::move(out_); }

 private:
  void append_name(std::string_view name) {
    if (is_bare_name(name))
      out_ += name;
    else
      append_quoted(out_, name);
  }

  void value(const Graph& g, Value v) {
    if (v.is_none()) {
      out_ += '_';
    } else if (const std::string& name = g.value_name(v); name.empty() && v.node >= g.input_count()) {
      fmt::format_to(std::back_inserter(out_), "#{}.{}", v.node, v.index);
    } else {
      out_ += '%';
      append_name(name);
    }
  }

  void type(const Type& t) {
    out_ += name(t.dtype);
    if (t.foreign) {
      out_ += '(';
      append_hex(out_, *t.foreign);
      out_ += ')';
    }
    out_ += t.shape.to_string();
  }

  void constant(const Tensor& t) {
    out_ += "const ";
    type(t.type());
    out_ += ' ';
    if (is_splat(t)) {
      out_ += "splat(";
      append_element(out_, t, 0);
      out_ += ')';
    } else if (pool_ && t.size() > kInlineElements) {
      out_ += "ref(" + pool_->add(t) + ")";
    } else {
      out_ += '[';
      for (int64_t i = 0; i < t.size(); ++i) {
        if (i) out_ += ", ";
        append_element(out_, t, i);
      }
      out_ += ']';
    }
  }

  template <class List, class Each>
  void list(std::string_view kind, const List& items, Each each) {
    if (items.empty()) out_ += kind;
    out_ += '[';
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ", ";
      first = false;
      each(item);
    }
    out_ += ']';
  }

  void attribute(const AttrValue& v, const std::string& indent) {
    switch (kind_of(v)) {
      case AttrKind::Int: out_ += std::to_string(std::get<int64_t>(v)); return;
      case AttrKind::Real: return append_real(out_, std::get<double>(v), true);
      case AttrKind::String: return append_quoted(out_, std::get<std::string>(v));
      case AttrKind::Ints:
        return list("ints", std::get<std::vector<int64_t>>(v), [&](int64_t x) { out_ += std::to_string(x); });
      case AttrKind::Reals:
        return list("reals", std::get<std::vector<double>>(v), [&](double x) { append_real(out_, x, true); });
      case AttrKind::Strings:
        return list("strings", std::get<std::vector<std::string>>(v),
                    [&](const std::string& x) { append_quoted(out_, x); });
      case AttrKind::Tensor: return constant(std::get<Tensor>(v));
      case AttrKind::DType: out_ += name(std::get<DType>(v)); return;
      case AttrKind::Graph: return graph(*std::get<GraphRef>(v), indent);
      case AttrKind::Foreign:
        out_ += "foreign(";
        append_hex(out_, std::get<Foreign>(v).bytes);
        out_ += ')';
        return;
      case AttrKind::Sizes: return list("sizes", std::get<Sizes>(v).dims, [&](const Dim& d) { out_ += d.to_string(); });
    }
  }

  void node(const Graph& g, const Node& n, const std::string& indent) {
    for (size_t k = 0; k < n.names.size(); ++k) {
      if (k) out_ += ", ";
      if (n.names[k].empty()) {
        out_ += '_';
      } else {
        out_ += '%';
        append_name(n.names[k]);
      }
    }
    out_ += n.names.empty() ? "= " : " = ";
    if (const Sizes* sizes = n.attrs.get<Sizes>("value"); sizes && n.op == &const_op()) {
      out_ += "const ";
      type(n.types[0]);
      out_ += ' ';
      attribute(*sizes, indent);
    } else if (n.op == &const_op()) {
      constant(*n.attrs.get<Tensor>("value"));
    } else {
      call(g, n, indent);
    }
    if (!n.label.empty()) {
      out_ += " @";
      append_quoted(out_, n.label);
    }
    if (n.origin.empty()) return;
    out_ += " from(";
    for (size_t i = 0; i < n.origin.size(); ++i) {
      if (i) out_ += ", ";
      append_quoted(out_, n.origin[i]);
    }
    out_ += ')';
  }

  void call(const Graph& g, const Node& n, const std::string& indent) {
    append_name(n.op->name);
    out_ += '(';
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (i) out_ += ", ";
      value(g, n.inputs[i]);
    }
    out_ += ')';
    if (!n.attrs.empty()) {
      out_ += '{';
      bool first = true;
      for (const auto& [key, v] : n.attrs) {
        if (!first) out_ += ", ";
        first = false;
        append_name(key);
        out_ += '=';
        attribute(v, indent);
      }
      out_ += '}';
    }
    for (size_t k = 0; k < n.types.size(); ++k) {
      out_ += k ? ", " : " : ";
      type(n.types[k]);
    }
  }

  void metadata(const Metadata& m) {
    if (m == Metadata()) return;
    out_ += "meta{";
    if (!m.opsets.empty()) {
      out_ += "opsets=[";
      for (size_t i = 0; i < m.opsets.size(); ++i) {
        if (i) out_ += ", ";
        append_quoted(out_, m.opsets[i].first);
        out_ += ": " + std::to_string(m.opsets[i].second);
      }
      out_ += "], ";
    }
    if (!m.properties.empty()) {
      out_ += "properties=[";
      for (size_t i = 0; i < m.properties.size(); ++i) {
        if (i) out_ += ", ";
        append_quoted(out_, m.properties[i].first);
        out_ += ": ";
        append_quoted(out_, m.properties[i].second);
      }
      out_ += "], ";
    }
    if (!m.producer.empty()) {
      out_ += "producer=";
      append_quoted(out_, m.producer);
      out_ += ", ";
    }
    if (!m.doc.empty()) {
      out_ += "doc=";
      append_quoted(out_, m.doc);
      out_ += ", ";
    }
    out_ += "ir_version=" + std::to_string(m.ir_version) + "} ";
  }

  void returns(const Graph& g) {
    out_ += "return";
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      const Output& o = g.outputs()[i];
      out_ += i ? ", " : " ";
      if (o.name != g.value_name(o.value) || o.name.empty()) {
        append_quoted(out_, o.name);
        out_ += '=';
      }
      value(g, o.value);
    }
    out_ += '\n';
  }

  ConstantPool* pool_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph, ConstantPool* pool) {
  Printer printer(pool);
  printer.graph(graph, "");
  return printer.take() + "\n";
}

}  // namespace isomer::ir
