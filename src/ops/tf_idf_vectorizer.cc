#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/op.h"

namespace isomer::ops {
namespace {

using Gram = std::vector<int64_t>;

struct Vocabulary {
  std::map<Gram, size_t> grams;  // to a position in columns
  std::vector<int64_t> columns;
  int64_t width = 0;  // columns of the result
  int64_t shortest = 1, longest = 1, skips = 0;
};

// The pool holds all grams of one number, then all pairs and so on; `ngram_counts` says where each length starts.
Expected<void> read_pool(const ir::OpContext& c, Vocabulary& v) {
  const std::vector<int64_t> pool = c.ints("pool_int64s"), starts = c.ints("ngram_counts");
  for (size_t n = 1; n <= starts.size(); ++n) {
    const int64_t from = starts[n - 1], to = n < starts.size() ? starts[n] : static_cast<int64_t>(pool.size());
    if (from < 0 || to < from || to > static_cast<int64_t>(pool.size()))
      return c.error(
          fmt::format("'ngram_counts' gives {} to {} as the place of the grams of length {}, which is not "
                      "inside a pool of {} numbers",
                      from, to, n, pool.size()));
    if ((to - from) % static_cast<int64_t>(n) != 0)
      return c.error(
          fmt::format("the pool has {} numbers for grams of length {}, which leaves a part of one", to - from, n));
    for (int64_t at = from; at < to; at += static_cast<int64_t>(n)) {
      const size_t id = v.grams.size();
      if (!v.grams.emplace(Gram(pool.begin() + at, pool.begin() + at + static_cast<int64_t>(n)), id).second)
        return c.error(fmt::format("the pool holds the gram at position {} twice", at));
    }
  }
  return {};
}

Expected<Vocabulary> vocabulary_of(const ir::OpContext& c) {
  if (!c.strings("pool_strings").empty())
    return Diagnostic("E-unsupported", "tf_idf_vectorizer: a pool of strings is not supported, only pool_int64s is");
  Vocabulary v;
  v.shortest = c.integer("min_gram_length"), v.longest = c.integer("max_gram_length");
  v.skips = c.integer("max_skip_count");
  const auto lengths = static_cast<int64_t>(c.ints("ngram_counts").size());
  if (v.shortest < 1 || v.longest < v.shortest || v.longest > lengths)
    return c.error(
        fmt::format("the lengths of grams go from {} to {}, expected from 1 at least to the {} lengths of "
                    "'ngram_counts' at most",
                    v.shortest, v.longest, lengths));
  if (v.skips < 0) return c.error(fmt::format("'max_skip_count' is {}, expected 0 or more", v.skips));
  const std::string& mode = c.text("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return c.error(fmt::format("unknown mode {}; it is TF, IDF or TFIDF", quoted(mode)));
  ISOMER_CHECK_OK(read_pool(c, v));
  v.columns = c.ints("ngram_indexes");
  if (v.columns.size() != v.grams.size())
    return c.error(fmt::format("{} indexes are given for {} grams", v.columns.size(), v.grams.size()));
  if (const size_t n = c.reals("weights").size(); n != 0 && n != v.columns.size())
    return c.error(fmt::format("{} weights are given for {} grams", n, v.columns.size()));
  for (int64_t i : v.columns) {
    // Hashed vocabularies leave gaps, but none this wide.
    if (i < 0 || i >= int64_t{1} << 31) return c.error(fmt::format("a gram has the index {}, out of range", i));
    v.width = std::max(v.width, i + 1);
  }
  return v;
}

// How often each gram stands in a row, with 0 to `skips` numbers left out between its members.
std::vector<int64_t> count_grams(const Vocabulary& v, const Tensor& x, int64_t first, int64_t length) {
  std::vector<int64_t> counts(v.columns.size(), 0);
  for (int64_t n = v.shortest; n <= v.longest; ++n)
    for (int64_t skip = 0; skip <= (n == 1 ? 0 : std::min(v.skips, length)); ++skip)
      for (int64_t at = 0; at < length && (n - 1) <= (length - 1 - at) / (skip + 1); ++at) {
        Gram gram;
        for (int64_t k = 0; k < n; ++k) gram.push_back(x.integer(first + at + k * (skip + 1)));
        if (const auto it = v.grams.find(gram); it != v.grams.end()) ++counts[it->second];
      }
  return counts;
}

Expected<std::vector<Type>> infer_tf_idf(const ir::OpContext& c) {
  ISOMER_TRY(const Vocabulary v, vocabulary_of(c));
  if (c.rank(0) == 1) return std::vector{c.out(0, Shape{v.width})};
  if (c.rank(0) == 2) return std::vector{c.out(0, Shape{c.dim(0, 0), v.width})};
  return c.error(fmt::format("expected a row or a batch of rows, found shape {}", c.shape(0).to_string()));
}

Expected<std::vector<Tensor>> tf_idf(const ir::OpContext& c) {
  ISOMER_TRY(const Vocabulary v, vocabulary_of(c));
  const Tensor& x = *c.value(0);
  const bool batch = x.rank() == 2;
  const int64_t rows = batch ? x.dims()[0] : 1, length = x.dims().back();
  const std::vector<int64_t> dims = batch ? std::vector<int64_t>{rows, v.width} : std::vector<int64_t>{v.width};
  ISOMER_CHECK_OK(checked_elements(DType::F32, dims));
  Tensor y(DType::F32, dims);
  const std::vector<double> weights = c.reals("weights");
  const bool frequency = c.text("mode") != "IDF", weighted = c.text("mode") != "TF" && !weights.empty();
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<int64_t> counts = count_grams(v, x, r * length, length);
    for (size_t g = 0; g < counts.size(); ++g) {
      const double found = frequency ? static_cast<double>(counts[g]) : counts[g] > 0;
      if (found != 0) y.set_real(r * v.width + v.columns[g], found * (weighted ? weights[g] : 1));
    }
  }
  return std::vector<Tensor>{y};
}

}  // namespace

ir::OpDef op_tf_idf_vectorizer() {
  using enum ir::AttrKind;
  ir::OpDef op;
  op.name = "tf_idf_vectorizer";
  op.doc = "How often the grams of a pool stand in each row, weighted by term frequency or its inverse.";
  op.inputs = {{"x", "T", kIndexInts}};
  op.outputs = {{"y", "f32"}};
  op.attrs = {{.name = "max_gram_length", .kind = Int, .required = true},
              {.name = "max_skip_count", .kind = Int, .required = true},
              {.name = "min_gram_length", .kind = Int, .required = true},
              {.name = "mode", .kind = String, .required = true},
              {.name = "ngram_counts", .kind = Ints, .required = true},
              {.name = "ngram_indexes", .kind = Ints, .required = true},
              {.name = "pool_int64s", .kind = Ints},
              {.name = "pool_strings", .kind = Strings},
              {.name = "weights", .kind = Reals}};
  op.infer = infer_tf_idf;
  op.kernel = tf_idf;
  op.samples = {
      "tf_idf_vectorizer(i64[6] in 0..3){max_gram_length=2, max_skip_count=1, min_gram_length=1, mode=\"TF\", "
      "ngram_counts=[0,2], ngram_indexes=[0,1,3], pool_int64s=[1,2,1,2]}",
      "tf_idf_vectorizer(i32[2,6] in 0..3){max_gram_length=2, max_skip_count=0, min_gram_length=2, mode=\"TFIDF\", "
      "ngram_counts=[0,0], ngram_indexes=[1,0], pool_int64s=[0,1,1,2], weights=[0.5,2.0]}",
      "tf_idf_vectorizer(i64[2,4] in 0..2){max_gram_length=1, max_skip_count=0, min_gram_length=1, mode=\"IDF\", "
      "ngram_counts=[0], ngram_indexes=[0,1], pool_int64s=[0,1], weights=[0.5,2.0]}"};
  op.onnx = {{.type = "TfIdfVectorizer", .since = {9}, .stable = 9}};
  return op;
}

}  // namespace isomer::ops
