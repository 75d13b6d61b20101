// Types, constants, attributes and metadata of the graph text.
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ir/parser.h"

namespace isomer::ir {
namespace {

template <class T>
std::optional<T> whole(std::string_view text, int base = 10) {
  T v{};
  const auto r = std::from_chars(text.data(), text.data() + text.size(), v, base);
  if (text.empty() || r.ec != std::errc() || r.ptr != text.data() + text.size()) return std::nullopt;
  return v;
}

template <class Real>
std::optional<Real> decimal(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Real v{};
  const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
  if (text.empty() || r.ec != std::errc() || r.ptr != text.data() + text.size()) return std::nullopt;
  return v;
}

// The bits of nan(0x...), when that is what the text says and they fit.
std::optional<uint64_t> nan_bits(std::string_view text, size_t width) {
  if (!text.starts_with("nan(0x") || !text.ends_with(')')) return std::nullopt;
  const auto bits = whole<uint64_t>(text.substr(6, text.size() - 7), 16);
  if (!bits || (width < 8 && *bits >> (8 * width) != 0)) return std::nullopt;
  return bits;
}

bool is_nan_bits(DType t, uint64_t bits) {
  switch (t) {
    case DType::F64: return std::isnan(std::bit_cast<double>(bits));
    case DType::F32: return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case DType::F16: return std::isnan(half_to_double(static_cast<uint16_t>(bits)));
    default: return std::isnan(bfloat_to_double(static_cast<uint16_t>(bits)));
  }
}

// Positive quiet NaN, the one that is written without bits.
uint64_t usual_nan(DType t) {
  switch (t) {
    case DType::F64: return 0x7FF8000000000000;
    case DType::F32: return 0x7FC00000;
    case DType::F16: return 0x7E00;
    default: return 0x7FC0;
  }
}

// The bits of a float of this type; nothing when the text is no number or does not fit.
std::optional<uint64_t> float_bits(DType t, std::string_view text) {
  if (text == "nan") return usual_nan(t);
  if (text.starts_with("nan")) {
    const auto bits = nan_bits(text, size_of(t));
    return bits && is_nan_bits(t, *bits) ? bits : std::nullopt;
  }
  if (t == DType::F32) {
    const auto v = decimal<float>(text);
    return v ? std::optional<uint64_t>(std::bit_cast<uint32_t>(*v)) : std::nullopt;
  }
  const auto v = decimal<double>(text);
  if (!v) return std::nullopt;
  if (t == DType::F64) return std::bit_cast<uint64_t>(*v);
  return t == DType::F16 ? half_from_double(*v) : bfloat_from_double(*v);
}

std::optional<uint64_t> integer_bits(DType t, std::string_view text) {
  if (t == DType::Bool) {
    if (text == "true" || text == "false") return text == "true";
    const auto v = whole<uint8_t>(text);
    return v ? std::optional<uint64_t>(*v) : std::nullopt;
  }
  if (t == DType::U64) return whole<uint64_t>(text);
  const auto v = whole<int64_t>(text);
  if (!v || *v < lowest_int(t) || *v > highest_int(t)) return std::nullopt;
  return static_cast<uint64_t>(*v);
}

}  // namespace

Expected<Dim> Parser::dim() {
  const size_t start = scan_.position();
  const std::string_view rest = scan_.rest();
  // Up to the comma or bracket that ends it: parentheses nest, quoted names hold anything.
  size_t n = 0;
  int depth = 0;
  size_t operators = 0;
  for (; n < rest.size(); ++n) {
    const char c = rest[n];
    if (c == '"') {
      for (++n; n < rest.size() && rest[n] != '"'; ++n) n += rest[n] == '\\';
      continue;
    }
    if (depth == 0 && (c == ',' || c == ']')) break;
    if (c == '\n') return scan_.error("expected ',' or ']' after a dimension, found the end of the line", start + n);
    operators += c == '+' || c == '-' || c == '*' || c == '(';
    depth += (c == '(') - (c == ')');
    if (operators > 1024) return scan_.error("this dimension has more than 1024 operators", start);
  }
  if (n >= rest.size()) return scan_.error("expected ']' after the dimensions, found the end of the text", start);
  auto d = Dim::parse(rest.substr(0, n));
  if (!d.ok()) return scan_.place(std::move(d).error(), start);
  scan_.advance(n);
  return d;
}

Expected<Shape> Parser::shape() {
  ISOMER_CHECK_OK(scan_.expect('['));
  if (scan_.eat('*')) {
    ISOMER_CHECK_OK(scan_.expect(']'));
    return Shape::unknown();
  }
  std::vector<Dim> dims;
  if (scan_.eat(']')) return Shape(std::move(dims));
  do {
    ISOMER_TRY(Dim d, dim());
    dims.push_back(std::move(d));
  } while (scan_.eat(','));
  ISOMER_CHECK_OK(scan_.expect(']'));
  return Shape(std::move(dims));
}

Expected<Type> Parser::type() {
  const auto dtype = dtype_from_name(scan_.peek_word());
  if (!dtype) return scan_.expected("an element type (f32, i64, bool, ...)");
  scan_.word();
  Type t{*dtype, {}, nullptr};
  if (scan_.peek('(')) {
    ISOMER_TRY(std::string bytes, scan_.hex_bytes());
    t.foreign = std::make_shared<const std::string>(std::move(bytes));
  }
  ISOMER_TRY(t.shape, shape());
  return t;
}

Expected<void> Parser::element(Tensor& tensor, int64_t i) {
  const size_t start = scan_.position();
  const std::string_view text = scan_.number();
  const DType t = tensor.dtype();
  const auto bits = is_float(t) ? float_bits(t, text) : integer_bits(t, text);
  if (!bits) return scan_.error(fmt::format("expected a number of type {}, found {}", name(t), quoted(text)), start);
  const size_t width = size_of(t);
  std::memcpy(tensor.mutable_bytes() + static_cast<size_t>(i) * width, &*bits, width);  // little-endian hosts only
  return {};
}

Expected<Tensor> Parser::list_data(const Type& type, const std::vector<int64_t>& dims, int64_t elements) {
  const size_t start = scan_.position();
  ISOMER_CHECK_OK(scan_.expect('['));
  const auto wrong = [&](std::string_view found) {
    return scan_.error(fmt::format("expected {} elements for {}, found {}", elements, type.to_string(), found), start);
  };
  // Each element takes a character at least: a shape that promises more is a lie, and nothing is allocated for it.
  if (static_cast<uint64_t>(elements) > scan_.rest().size()) return wrong("fewer");
  Tensor t(type.dtype, dims);
  for (int64_t i = 0; i < elements; ++i) {
    if (scan_.peek(']')) return wrong(fmt::format("{}", i));
    if (i != 0) ISOMER_CHECK_OK(scan_.expect(','));
    ISOMER_CHECK_OK(element(t, i));
  }
  if (scan_.peek(',') || (elements == 0 && !scan_.peek(']'))) return wrong("more");
  ISOMER_CHECK_OK(scan_.expect(']'));
  return t;
}

Expected<Tensor> Parser::data(const Type& type) {
  const size_t start = scan_.position();
  if (type.dtype == DType::Opaque || !type.shape.is_static())
    return scan_.error(fmt::format("a constant needs a numeric type of known shape, found {}", type.to_string()),
                       start);
  const std::vector<int64_t> dims = type.shape.values();
  const auto elements = checked_elements(type.dtype, dims);
  if (!elements.ok()) return scan_.place(elements.error(), start);
  if (scan_.peek('[')) return list_data(type, dims, *elements);
  if (scan_.eat_word("splat")) {
    const size_t bytes = static_cast<size_t>(*elements) * size_of(type.dtype);
    if (bytes > splat_budget_)
      return scan_.error(fmt::format("the splat constants of this text take more memory than its length allows"),
                         start);
    splat_budget_ -= bytes;
    ISOMER_CHECK_OK(scan_.expect('('));
    Tensor one(type.dtype, {1});
    ISOMER_CHECK_OK(element(one, 0));
    ISOMER_CHECK_OK(scan_.expect(')'));
    Tensor t(type.dtype, dims);
    for (int64_t i = 0; i < *elements; ++i)
      std::memcpy(t.mutable_bytes() + static_cast<size_t>(i) * size_of(type.dtype), one.bytes(), size_of(type.dtype));
    return t;
  }
  if (scan_.eat_word("ref")) {
    ISOMER_CHECK_OK(scan_.expect('('));
    const std::string_view key = scan_.word();
    const Tensor* t = pool_ ? pool_->find(key) : nullptr;
    if (!t)
      return scan_.error(fmt::format("there is no constant {} in the weights that come with this text", quoted(key)),
                         start);
    if (t->dtype() != type.dtype || t->dims() != dims)
      return scan_.error(
          fmt::format("the constant {} is {}, expected {}", key, t->type().to_string(), type.to_string()), start);
    ISOMER_CHECK_OK(scan_.expect(')'));
    return *t;
  }
  if (dims.empty() && (scan_.peek_number() || scan_.peek_word() == "true" || scan_.peek_word() == "false")) {
    Tensor t(type.dtype, {});
    ISOMER_CHECK_OK(element(t, 0));
    return t;
  }
  return scan_.expected("the constant's data: [..], splat(..) or ref(..)");
}

Expected<AttrValue> Parser::number() {
  const size_t start = scan_.position();
  const std::string_view text = scan_.number();
  if (const auto v = whole<int64_t>(text)) return AttrValue(*v);
  if (text.find_first_of(".en") == std::string_view::npos)
    return scan_.error(fmt::format("expected a number that fits in 64 bits, found {}", quoted(text)), start);
  const auto bits = float_bits(DType::F64, text);
  if (!bits) return scan_.error(fmt::format("expected a number, found {}", quoted(text)), start);
  return AttrValue(std::bit_cast<double>(*bits));
}

Expected<AttrValue> Parser::attribute_list(const AttrDef* def) {
  const std::string_view kind = scan_.word();  // "ints[]" and its like, or nothing
  const size_t start = scan_.position();
  ISOMER_CHECK_OK(scan_.expect('['));
  if (scan_.eat(']')) {
    const bool reals = kind == "reals" || (kind.empty() && def && def->kind == AttrKind::Reals);
    const bool strings = kind == "strings" || (kind.empty() && def && def->kind == AttrKind::Strings);
    if (reals) return AttrValue(std::vector<double>());
    if (strings) return AttrValue(std::vector<std::string>());
    return AttrValue(std::vector<int64_t>());
  }
  std::vector<std::string> strings;
  std::vector<int64_t> ints;
  std::vector<double> reals;
  size_t count = 0;
  do {
    ++count;
    if (scan_.peek('"')) {
      ISOMER_TRY(std::string s, scan_.string());
      strings.push_back(std::move(s));
      continue;
    }
    if (!scan_.peek_number()) return scan_.expected("a number or a string");
    ISOMER_TRY(const AttrValue v, number());
    const auto* i = std::get_if<int64_t>(&v);
    if (i) ints.push_back(*i);
    reals.push_back(i ? static_cast<double>(*i) : std::get<double>(v));
  } while (scan_.eat(','));
  ISOMER_CHECK_OK(scan_.expect(']'));
  if (strings.size() == count) return AttrValue(std::move(strings));
  if (!strings.empty()) return scan_.error("a list holds numbers or strings, not both", start);
  if (ints.size() == count && !(def && def->kind == AttrKind::Reals)) return AttrValue(std::move(ints));
  return AttrValue(std::move(reals));
}

Expected<std::optional<AttrValue>> Parser::context_attribute() {
  const size_t start = scan_.position();
  ISOMER_CHECK_OK(scan_.expect('$'));
  const std::string_view key = scan_.word();
  if (!context_) return scan_.error("'$' stands for an attribute only inside an operator's expansion", start);
  if (const AttrValue* v = context_->attrs().find(key)) return std::optional<AttrValue>(*v);
  const AttrDef* def = context_->op().attr(key);
  if (!def) return scan_.error(fmt::format("operator {} has no attribute {}", context_->op().name, quoted(key)), start);
  return def->standard;
}

Expected<AttrValue> Parser::attribute(const AttrDef* def) {
  if (scan_.peek('"')) {
    ISOMER_TRY(std::string s, scan_.string());
    return AttrValue(std::move(s));
  }
  if (scan_.peek('[')) return attribute_list(def);
  if (scan_.peek_number()) {
    ISOMER_TRY(AttrValue v, number());
    if (def && def->kind == AttrKind::Real)
      if (const auto* i = std::get_if<int64_t>(&v)) return AttrValue(static_cast<double>(*i));
    return v;
  }
  const std::string_view w = scan_.peek_word();
  if (w == "ints" || w == "reals" || w == "strings") return attribute_list(def);
  if (w == "graph") {
    ISOMER_TRY(Graph g, graph());
    return AttrValue(std::make_shared<const Graph>(std::move(g)));
  }
  if (scan_.eat_word("const")) {
    ISOMER_TRY(const Type t, type());
    ISOMER_TRY(Tensor value, data(t));
    return AttrValue(std::move(value));
  }
  if (scan_.eat_word("foreign")) {
    ISOMER_TRY(std::string bytes, scan_.hex_bytes());
    return AttrValue(Foreign{std::move(bytes)});
  }
  if (const auto t = dtype_from_name(w)) {
    scan_.word();
    return AttrValue(*t);
  }
  return scan_.expected("an attribute's value");
}

Expected<Attrs> Parser::attributes(const OpDef* op) {
  Attrs attrs;
  if (!scan_.eat('{')) return attrs;
  if (scan_.eat('}')) return attrs;
  do {
    const size_t start = scan_.position();
    ISOMER_TRY(std::string key, scan_.name("an attribute's name"));
    if (attrs.has(key)) return scan_.error(fmt::format("attribute {} is given twice", quoted(key)), start);
    ISOMER_CHECK_OK(scan_.expect('='));
    if (scan_.peek('$')) {
      ISOMER_TRY(std::optional<AttrValue> v, context_attribute());
      if (v) attrs.set(std::move(key), *std::move(v));
      continue;
    }
    ISOMER_TRY(AttrValue v, attribute(op ? op->attr(key) : nullptr));
    attrs.set(std::move(key), std::move(v));
  } while (scan_.eat(','));
  ISOMER_CHECK_OK(scan_.expect('}'));
  return attrs;
}

Expected<Metadata> Parser::metadata() {
  Metadata m;
  // [ "key": value, ... ]
  const auto pairs = [&](const auto& each) -> Expected<void> {
    ISOMER_CHECK_OK(scan_.expect('['));
    if (scan_.eat(']')) return {};
    do {
      ISOMER_TRY(std::string key, scan_.string());
      ISOMER_CHECK_OK(scan_.expect(':'));
      ISOMER_CHECK_OK(each(std::move(key)));
    } while (scan_.eat(','));
    return scan_.expect(']');
  };
  ISOMER_CHECK_OK(scan_.expect('{'));
  if (scan_.eat('}')) return m;
  do {
    const size_t start = scan_.position();
    const std::string_view key = scan_.word();
    ISOMER_CHECK_OK(scan_.expect('='));
    if (key == "opsets") {
      ISOMER_CHECK_OK(pairs([&](std::string domain) -> Expected<void> {
        ISOMER_TRY(const int64_t version, scan_.integer());
        m.opsets.emplace_back(std::move(domain), version);
        return {};
      }));
    } else if (key == "properties") {
      ISOMER_CHECK_OK(pairs([&](std::string property) -> Expected<void> {
        ISOMER_TRY(std::string text, scan_.string());
        m.properties.emplace_back(std::move(property), std::move(text));
        return {};
      }));
    } else if (key == "ir_version") {
      ISOMER_TRY(m.ir_version, scan_.integer());
    } else if (key == "producer") {
      ISOMER_TRY(m.producer, scan_.string());
    } else if (key == "doc") {
      ISOMER_TRY(m.doc, scan_.string());
    } else {
      return scan_.error("expected opsets, properties, producer, doc or ir_version", start);
    }
  } while (scan_.eat(','));
  ISOMER_CHECK_OK(scan_.expect('}'));
  return m;
}

}  // namespace isomer::ir
