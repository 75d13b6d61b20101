#include "ir/sample.h"

#include <fmt/format.h>

#include <map>

#include "base/random.h"
#include "ir/parser.h"

namespace isomer::ir {
namespace {

// One argument: an absent one, a constant, or a random input of a type and range.
struct Argument {
  enum class Kind { Absent, Constant, Random } kind = Kind::Absent;
  Tensor constant;
  Type type;
  std::optional<std::pair<double, double>> range;
};

class SampleReader {
 public:
  SampleReader(std::string_view text, const OpTable& table, uint64_t seed)
      : parser_(text, table, nullptr, "sample"), table_(table), random_(seed) {}

  Expected<Sample> read() {
    Scanner& scan = parser_.scan();
    ISOMER_TRY(const std::string name, scan.name("an operator's name"));
    const OpDef* op = table_.find(name);
    if (!op) return Diagnostic("E-unknown-operator", fmt::format("there is no operator {}", quoted(name)));
    ISOMER_CHECK_OK(scan.expect('('));
    std::vector<Argument> arguments;
    if (!scan.eat(')')) {
      do {
        ISOMER_TRY(Argument a, argument());
        arguments.push_back(std::move(a));
      } while (scan.eat(','));
      ISOMER_CHECK_OK(scan.expect(')'));
    }
    ISOMER_TRY(Attrs attrs, parser_.attributes(op));
    int64_t outputs = 0;
    if (scan.eat('-')) {
      ISOMER_CHECK_OK(scan.expect('>'));
      ISOMER_TRY(outputs, scan.integer());
      if (outputs < 1 || outputs > 64) return Diagnostic("E-text", "a sample asks for 1 to 64 results");
    }
    if (!scan.at_end()) return scan.expected("the end of the sample");
    return build(*op, arguments, std::move(attrs), static_cast<size_t>(outputs));
  }

 private:
  Expected<Argument> argument() {
    Scanner& scan = parser_.scan();
    Argument a;
    if (scan.eat_word("_")) return a;
    if (scan.peek('[')) {
      ISOMER_TRY(a.constant, vector());
      a.kind = Argument::Kind::Constant;
      return a;
    }
    const auto dtype = dtype_from_name(scan.peek_word());
    if (!dtype) return scan.expected("an argument: a type, a constant or '_'");
    Scanner after = scan;
    after.word();
    if (after.peek('[')) {
      ISOMER_TRY(a.type, parser_.type());
    } else {
      scan.word();
      a.type = {*dtype, {}, nullptr};
    }
    a.kind = Argument::Kind::Random;
    const std::string_view word = scan.peek_word();
    if (scan.eat_word("in")) {
      ISOMER_TRY(const int64_t low, scan.integer());
      for (int i = 0; i < 2; ++i) ISOMER_CHECK_OK(scan.expect('.'));
      ISOMER_TRY(const int64_t high, scan.integer());
      if (low >= high) return scan.expected("a range that is not empty");
      a.range = {static_cast<double>(low), static_cast<double>(high)};
    } else if (scan.peek('[') || scan.peek_number() || word == "splat" || word == "true" || word == "false") {
      ISOMER_TRY(a.constant, parser_.data(a.type));
      a.kind = Argument::Kind::Constant;
    }
    return a;
  }

  // [1, 2] is of i64; a number with a '.' makes it f32.
  Expected<Tensor> vector() {
    Scanner ahead = parser_.scan();
    ISOMER_CHECK_OK(ahead.expect('['));
    int64_t count = 0;
    bool real = false;
    while (!ahead.peek(']')) {
      if (count != 0) ISOMER_CHECK_OK(ahead.expect(','));
      if (!ahead.peek_number()) return ahead.expected("a number");
      real |= ahead.number().find_first_of(".en") != std::string_view::npos;
      ++count;
    }
    return parser_.data({real ? DType::F32 : DType::I64, {count}, nullptr});
  }

  Expected<Sample> build(const OpDef& op, const std::vector<Argument>& arguments, Attrs attrs, size_t outputs) {
    GraphBuilder b(table_, op.name);
    Sample sample;
    std::vector<Value> values(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument& a = arguments[i];
      if (a.kind != Argument::Kind::Random) continue;
      ISOMER_TRY(values[i], b.input(fmt::format("x{}", i), a.type));
      ISOMER_TRY(Tensor t, draw(a));
      sample.inputs.push_back(std::move(t));
    }
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].kind == Argument::Kind::Constant)
        values[i] = b.constant(arguments[i].constant, fmt::format("c{}", i));
    ISOMER_TRY(const std::vector<Value> results, b.add(op, std::move(values), std::move(attrs), {}, outputs));
    for (size_t k = 0; k < results.size(); ++k) b.output(fmt::format("y{}", k), results[k]);
    ISOMER_TRY(sample.graph, std::move(b).finish());
    return sample;
  }

  Expected<Tensor> draw(const Argument& a) {
    if (!a.type.shape.has_rank() || a.type.dtype == DType::Opaque)
      return Diagnostic("E-text", fmt::format("a sample cannot draw a value of type {}", a.type.to_string()));
    std::vector<int64_t> dims;
    for (const Dim& d : a.type.shape.dims()) dims.push_back(size(d));
    ISOMER_TRY(const int64_t elements, checked_elements(a.type.dtype, dims));
    if (elements > 1 << 20) return Diagnostic("E-text", "a sample's input has more than 1048576 elements");
    Tensor t(a.type.dtype, dims);
    for (int64_t i = 0; i < elements; ++i) {
      if (is_float(a.type.dtype))
        t.set_real(i, a.range ? random_.uniform(a.range->first, a.range->second) : random_.normal());
      else if (a.range)
        t.set_integer(i,
                      random_.between(static_cast<int64_t>(a.range->first), static_cast<int64_t>(a.range->second) - 1));
      else if (a.type.dtype == DType::Bool)
        t.set_integer(i, random_.flip());
      else
        t.set_integer(i, random_.between(is_unsigned_int(a.type.dtype) ? 0 : -8, 8));
    }
    return t;
  }

  // A symbol means one small number throughout.
  int64_t size(const Dim& d) {
    const Dim number = d.substitute([&](const std::string& symbol) {
      return std::optional<Dim>(sizes_.emplace(symbol, 2 + static_cast<int64_t>(sizes_.size()) % 3).first->second);
    });
    return number.constant().value_or(0);
  }

  Parser parser_;
  const OpTable& table_;
  Random random_;
  std::map<std::string, int64_t> sizes_;
};

}  // namespace

Expected<Sample> make_sample(std::string_view text, const OpTable& table, uint64_t seed) {
  return SampleReader(text, table, seed).read();
}

}  // namespace isomer::ir
