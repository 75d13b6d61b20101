// The text form of graphs (.iso): docs/ir.md has the grammar. print and parse are exact inverses: parse(print(g)) is
// identical to g. Small constants are written out; large ones are references by content into a ConstantPool.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/expected.h"
#include "ir/graph.h"

namespace isomer::ir {

// Tensors by content hash: what a text's references mean.
class ConstantPool {
 public:
  std::string add(const Tensor& t);  // its key: 32 hexadecimal digits
  const Tensor* find(std::string_view key) const;
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// Without a pool every constant is written out in full.
std::string print(const Graph& graph, ConstantPool* pool = nullptr);
Expected<Graph> parse(std::string_view text, const OpTable& table, const ConstantPool* pool = nullptr,
                      const std::string& file = "");

// Parses statements ("%s = sigmoid(%x)  return mul(%x, %s)") into a builder. `bindings` give the meaning of free names;
// an absent optional input is bound to none. `$name` is an attribute of `context`'s node; a number literal as an
// operand is a scalar constant of the element type of the call's first tensor operand.
Expected<std::vector<Value>> parse_body(std::string_view text, GraphBuilder& builder,
                                        const std::vector<std::pair<std::string, Value>>& bindings,
                                        const OpContext& context);

}  // namespace isomer::ir
