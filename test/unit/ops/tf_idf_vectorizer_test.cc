#include <gtest/gtest.h>

#include "test/unit/ops/call.h"

namespace isomer {
namespace {

using Ints = std::vector<int64_t>;
using test::call;
using test::ints;
using test::show;

// The grams 1, 2, (1 2), (2 2) at columns 0, 1, 3, 4.
ir::Attrs grams(const std::string& mode, int64_t skips = 0) {
  return {{"min_gram_length", int64_t{1}},
          {"max_gram_length", int64_t{2}},
          {"max_skip_count", skips},
          {"mode", mode},
          {"ngram_counts", Ints{0, 2}},
          {"ngram_indexes", Ints{0, 1, 3, 4}},
          {"pool_int64s", Ints{1, 2, 1, 2, 2, 2}}};
}

TEST(TfIdfVectorizer, CountsGramsWithAndWithoutSkips) {
  const Tensor x = ints({5}, {1, 2, 2, 1, 2});
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x}, grams("TF"))), "f32[5] 2 3 0 2 1");
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x}, grams("TF", 1))), "f32[5] 2 3 0 3 2");
  // A skip longer than the row changes nothing more.
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x}, grams("TF", INT64_MAX))),
            show(call("tf_idf_vectorizer", {x}, grams("TF", 4))));
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x.reshaped({1, 5})}, grams("TF"))), "f32[1,5] 2 3 0 2 1");
  EXPECT_EQ(show(call("tf_idf_vectorizer", {Tensor(DType::I64, {2, 0})}, grams("TF"))), "f32[2,5] 0 0 0 0 0 0 0 0 0 0");
}

TEST(TfIdfVectorizer, WeighsByMode) {
  const Tensor x = ints({3}, {1, 1, 2});
  ir::Attrs attrs = grams("IDF");
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x}, attrs)), "f32[5] 1 1 0 1 0");
  attrs.set("weights", std::vector<double>{2, 3, 4, 5});
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x}, attrs)), "f32[5] 2 3 0 4 0");
  attrs.set("mode", std::string("TFIDF"));
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x}, attrs)), "f32[5] 4 3 0 4 0");
  attrs.set("mode", std::string("TF"));
  EXPECT_EQ(show(call("tf_idf_vectorizer", {x}, attrs)), "f32[5] 2 1 0 1 0");
}

TEST(TfIdfVectorizer, RefusesWhatIsNoVocabulary) {
  const auto fails = [](const std::string& key, ir::AttrValue v) {
    ir::Attrs attrs = grams("TF");
    attrs.set(key, std::move(v));
    return !call("tf_idf_vectorizer", {ints({3}, {1, 1, 2})}, attrs).ok();
  };
  EXPECT_TRUE(fails("ngram_counts", Ints{0, 3}));
  EXPECT_TRUE(fails("ngram_counts", Ints{-2, 2}));
  EXPECT_TRUE(fails("ngram_counts", Ints{0, INT64_MAX}));
  EXPECT_TRUE(fails("ngram_counts", Ints{}));
  EXPECT_TRUE(fails("ngram_indexes", Ints{0, 1, 2}));
  EXPECT_TRUE(fails("ngram_indexes", Ints{0, 1, 2, -1}));
  EXPECT_TRUE(fails("ngram_indexes", Ints{0, 1, 2, INT64_MAX}));
  EXPECT_TRUE(fails("pool_int64s", Ints{1, 1, 1, 2, 2, 2}));
  EXPECT_TRUE(fails("pool_int64s", Ints{}));
  EXPECT_TRUE(fails("min_gram_length", int64_t{0}));
  EXPECT_TRUE(fails("max_gram_length", INT64_MAX));
  EXPECT_TRUE(fails("max_skip_count", int64_t{-1}));
  EXPECT_TRUE(fails("weights", std::vector<double>{1}));
  EXPECT_TRUE(fails("mode", std::string("NONE")));
  EXPECT_FALSE(call("tf_idf_vectorizer", {ints({}, {1})}, grams("TF")).ok());
  ir::Attrs strings = grams("TF");
  strings.set("pool_strings", std::vector<std::string>{"a"});
  const auto y = call("tf_idf_vectorizer", {ints({3}, {1, 1, 2})}, strings);
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.error().code, "E-unsupported");
}

}  // namespace
}  // namespace isomer
