#include "ir/text.h"

namespace isomer::ir {

std::string ConstantPool::add(const Tensor& t) {
  std::string key = t.content_hash().hex();
  tensors_.emplace(key, t);
  return key;
}

const Tensor* ConstantPool::find(std::string_view key) const {
  const auto it = tensors_.find(key);
  return it == tensors_.end() ? nullptr : &it->second;
}

}  // namespace isomer::ir
