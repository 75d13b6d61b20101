// FunctionWriter: a loop function while it is written by hand: its arguments in order, its own memory, its variables.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "loop/stmt.h"

namespace isomer::compile {

class FunctionWriter {
 public:
  explicit FunctionWriter(std::string name) { f_.name = std::move(name); }

  // Arguments before all other buffers.
  int argument(DType type, std::vector<int64_t> dims, bool written) {
    ++f_.arguments;
    return buffer(type, std::move(dims), loop::Scope::Argument, written);
  }
  int scratch(DType type, std::vector<int64_t> dims) {
    return buffer(type, std::move(dims), loop::Scope::Scratch, true);
  }
  // One number.
  int local(DType type) { return buffer(type, {1}, loop::Scope::Local, true); }
  // Small, and indexed by numbers once loops are unrolled.
  int buffer_in_registers(DType type, std::vector<int64_t> dims) {
    return buffer(type, std::move(dims), loop::Scope::Local, true);
  }

  te::Axis axis(int64_t extent) {
    const int id = next_++;
    return {id, fmt::format("i{}", id), Dim(extent)};
  }
  static loop::Stmt over(const te::Axis& a, loop::Stmt body, loop::LoopKind kind = loop::LoopKind::Serial) {
    return loop::Stmt::loop(a.id, a.name, te::Expr(a.extent), kind, std::move(body));
  }
  te::Expr read(int buffer, std::vector<te::Expr> at) const {
    return te::Expr::read(buffer, f_.buffers[static_cast<size_t>(buffer)].dtype, std::move(at));
  }
  te::Expr number(int local) const { return read(local, {te::Expr(0)}); }
  static loop::Stmt set(int local, te::Expr value) { return loop::Stmt::store(local, {te::Expr(0)}, std::move(value)); }

  loop::Function finish(loop::Stmt body) && {
    f_.body = std::move(body);
    return std::move(f_);
  }

 private:
  int buffer(DType type, std::vector<int64_t> dims, loop::Scope scope, bool written) {
    const int number = static_cast<int>(f_.buffers.size());
    f_.buffers.push_back({fmt::format("b{}", number), type, std::move(dims), scope, written});
    return number;
  }

  loop::Function f_;
  int next_ = 0;
};

}  // namespace isomer::compile
