// How often grams of numbers stand in rows: each place of a row is looked up among the sorted grams of a length by halving.
#include <algorithm>
#include <bit>

#include "compile/assembly.h"
#include "compile/function_writer.h"
#include "compile/procedures.h"

namespace isomer::compile {

using loop::LoopKind;
using loop::Stmt;
using te::Expr;

namespace {

// All grams of one length, sorted, as many as a power of two: the last one is repeated.
struct Length {
  int64_t length = 0, size = 0;
  std::vector<int64_t> grams, ids;
};

// The record has checked what the attributes say.
std::vector<Length> lengths_of(const ir::Node& n) {
  const std::vector<int64_t> pool = ints_of(n, "pool_int64s"), starts = ints_of(n, "ngram_counts");
  const int64_t shortest = *n.attrs.get<int64_t>("min_gram_length"), longest = *n.attrs.get<int64_t>("max_gram_length");
  std::vector<Length> out;
  int64_t id = 0;
  for (size_t k = 0; k < starts.size(); ++k) {
    const auto length = static_cast<int64_t>(k) + 1;
    const int64_t end = k + 1 < starts.size() ? starts[k + 1] : static_cast<int64_t>(pool.size());
    std::vector<std::pair<std::vector<int64_t>, int64_t>> grams;
    for (int64_t at = starts[k]; at < end; at += length)
      grams.emplace_back(std::vector(pool.begin() + at, pool.begin() + at + length), id++);
    if (grams.empty() || length < shortest || length > longest) continue;
    std::sort(grams.begin(), grams.end());
    grams.resize(std::bit_ceil(grams.size()), grams.back());
    Length& l = out.emplace_back(Length{length, static_cast<int64_t>(grams.size()), {}, {}});
    for (const auto& [gram, number] : grams) {
      l.grams.insert(l.grams.end(), gram.begin(), gram.end());
      l.ids.push_back(number);
    }
  }
  return out;
}

class Grams {
 public:
  Grams(const Composer& composer, const ir::Graph& g, const ir::Node& n)
      : n_(n), a_(n.names[0], composer.options.target), w_("grams"), columns_(ints_of(n, "ngram_indexes")) {
    const Type& type = g.type(n.inputs[0]);
    const std::vector<int64_t> dims = type.shape.values(), out = n.types[0].shape.values();
    rows_ = dims.size() == 2 ? dims[0] : 1;
    length_ = dims.back();
    x_ = w_.argument(type.dtype, {rows_, length_}, false);
    y_ = w_.argument(DType::F32, {rows_, out.back()}, true);
    places_ = {{Space::Input, 0, 0}, {Space::Output, 0, 0}};
    width_ = out.back();
  }

  Expected<Lowered> run() && {
    if (rows_ * width_ == 0) return std::move(a_).finish();
    const std::vector<Length> lengths = lengths_of(n_);
    const auto count = static_cast<int64_t>(columns_.size());
    std::vector<std::pair<int, int>> tables;
    for (const Length& l : lengths)
      tables.emplace_back(table(Tensor::ints(l.grams).reshaped({l.size, l.length})), table(Tensor::ints(l.ids)));
    const int columns = table(Tensor::ints(columns_)), weights = table(weights_of(count));
    counts_ = w_.scratch(DType::I64, {count});
    at_ = w_.local(DType::I64);
    order_ = w_.local(DType::I64);
    const te::Axis row = w_.axis(rows_), c = w_.axis(width_), g = w_.axis(count), put = w_.axis(count);
    std::vector<Stmt> all = {FunctionWriter::over(c, Stmt::store(y_, {Expr(row), Expr(c)}, Expr::real(DType::F32, 0))),
                             FunctionWriter::over(g, Stmt::store(counts_, {Expr(g)}, Expr(0)))};
    for (size_t i = 0; i < lengths.size(); ++i) all.push_back(look(lengths[i], tables[i].first, tables[i].second, row));
    const Expr found = w_.read(counts_, {Expr(put)});
    const std::string& mode = *n_.attrs.get<std::string>("mode");
    const Expr times = mode == "IDF" ? Expr::real(DType::F64, 1) : te::cast(DType::F64, found);
    const Expr value = te::cast(DType::F32, times * w_.read(weights, {Expr(put)}));
    all.push_back(FunctionWriter::over(
        put, Stmt::branch(found > Expr(0), Stmt::store(y_, {Expr(row), w_.read(columns, {Expr(put)})}, value))));
    loop::Function f = std::move(w_).finish(FunctionWriter::over(row, Stmt::seq(all), LoopKind::Parallel));
    f.origin = n_.origin.empty() ? std::vector{n_.names[0]} : n_.origin;
    a_.add(std::move(f), places_, static_cast<double>(rows_ * (length_ + width_)) * 64);
    return std::move(a_).finish();
  }

 private:
  int table(const Tensor& contents) {
    places_.push_back(a_.weight(contents));
    return w_.argument(contents.dtype(), contents.dims(), false);
  }

  Tensor weights_of(int64_t count) const {
    const auto* given = n_.attrs.get<std::vector<double>>("weights");
    const bool weighted = given && !given->empty() && *n_.attrs.get<std::string>("mode") != "TF";
    return Tensor::of(DType::F64, {count}, weighted ? *given : std::vector<double>(static_cast<size_t>(count), 1));
  }

  // Every place of a row, with every number of members left out between those of a gram.
  Stmt look(const Length& l, int grams, int ids, const te::Axis& row) {
    const int64_t skips = *n_.attrs.get<int64_t>("max_skip_count");
    const te::Axis skip = w_.axis(l.length == 1 ? 1 : std::min(skips, length_) + 1), at = w_.axis(1);
    const Expr step = Expr(skip) + Expr(1), places = Expr(length_) - step * Expr(l.length - 1);
    const auto member = [&](const Expr& k) {
      return te::cast(DType::I64, w_.read(x_, {Expr(row), Expr(at) + k * step}));
    };
    // -1, 0, 1: how a gram stands to what is looked up.
    const auto compare = [&](const Expr& gram) {
      const te::Axis k = w_.axis(l.length);
      const Expr a = w_.read(grams, {gram, Expr(k)}), b = member(Expr(k));
      const Stmt decide = FunctionWriter::set(order_, te::select(a < b, Expr(-1), te::select(b < a, Expr(1), Expr(0))));
      return Stmt::seq({FunctionWriter::set(order_, Expr(0)),
                        FunctionWriter::over(k, Stmt::branch(te::eq(w_.number(order_), Expr(0)), decide))});
    };
    const int64_t rounds = std::bit_width(static_cast<uint64_t>(l.size)) - 1;
    const te::Axis round = w_.axis(rounds);
    const Expr further = w_.number(at_) + te::binary(te::BinaryOp::Shr, Expr(l.size / 2), Expr(round));
    const Expr inside = te::binary(te::BinaryOp::And, further, Expr(l.size - 1)), found = w_.number(at_);
    const Stmt halve =
        Stmt::seq({compare(inside), Stmt::branch(w_.number(order_) <= Expr(0), FunctionWriter::set(at_, inside))});
    const Expr id = w_.read(ids, {found}), one_more = w_.read(counts_, {id}) + Expr(1);
    std::vector<Stmt> all = {FunctionWriter::set(at_, Expr(0))};
    if (rounds > 0) all.push_back(FunctionWriter::over(round, halve));
    all.push_back(compare(found));
    all.push_back(Stmt::branch(te::eq(w_.number(order_), Expr(0)), Stmt::store(counts_, {id}, one_more)));
    return FunctionWriter::over(skip, Stmt::loop(at.id, at.name, places, LoopKind::Serial, Stmt::seq(all)));
  }

  const ir::Node& n_;
  Assembly a_;
  FunctionWriter w_;
  std::vector<int64_t> columns_;
  std::vector<Place> places_;
  int64_t rows_ = 1, length_ = 0, width_ = 0;
  int x_ = -1, y_ = -1, counts_ = -1, at_ = -1, order_ = -1;
};

}  // namespace

Expected<Lowered> counted_grams(const Composer& composer, const ir::Graph& g, const ir::Node& n) {
  return Grams(composer, g, n).run();
}

}  // namespace isomer::compile
