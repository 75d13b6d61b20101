#include "te/signature.h"

#include <bit>

namespace isomer::te {

Signature& Signature::add(int64_t number) {
  auto rest = (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63);
  for (; rest >= 128; rest >>= 7) bytes_ += static_cast<char>(rest | 128);
  bytes_ += static_cast<char>(rest);
  return *this;
}

Signature& Signature::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  bytes_ += text;
  return *this;
}

Signature& Signature::add(const Dim& dim) { return dim.is_const() ? add(dim.value()) : add(dim.to_string()); }

uint64_t Signature::number_of(int var) { return vars_.try_emplace(var, vars_.size()).first->second; }

Signature& Signature::add_tensor(int tensor) {
  if (!rename_tensors_) return add(int64_t{tensor});
  const auto [it, fresh] = tensor_numbers_.try_emplace(tensor, tensors_.size());
  if (fresh) tensors_.push_back(tensor);
  return add(static_cast<int64_t>(it->second));
}

Signature& Signature::add(const Expr& e) {
  if (e.empty()) return add(int64_t{0});
  if (const auto it = nodes_.find(e->hash); it != nodes_.end()) return add(static_cast<int64_t>(it->second));
  add(int64_t{-1}).add(static_cast<int64_t>(e->kind)).add(static_cast<int64_t>(e->dtype));
  switch (e->kind) {
    case Kind::Int: add(e->integer); break;
    case Kind::Real: add(std::bit_cast<int64_t>(e->real)); break;
    case Kind::Var: add_var(e->var); break;
    case Kind::Size: add(e->size); break;
    case Kind::Read: add_tensor(e->tensor).add(static_cast<int64_t>(e->args.size())); break;
    case Kind::Unary: add(static_cast<int64_t>(e->unary)); break;
    case Kind::Binary: add(static_cast<int64_t>(e->binary)); break;
    case Kind::Select:
    case Kind::Cast: break;
    case Kind::Reduce:
      add(static_cast<int64_t>(e->combiner)).add(static_cast<int64_t>(e->axes.size()));
      for (const Axis& a : e->axes) add_axis(a);
      break;
  }
  for (const Expr& x : e->args) add(x);
  nodes_.emplace(e->hash, nodes_.size() + 1);
  return *this;
}

}  // namespace isomer::te
