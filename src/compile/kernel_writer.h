// KernelWriter: a kernel that computes in floats while a scheme puts it together: its loops by axes with variables of their own, its
// buffers by number.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "compile/accesses.h"
#include "compile/kernel.h"

namespace isomer::compile {

// Statements of one tile that are written out rather than looped over.
inline constexpr int64_t kMostStatements = 600;

class KernelWriter {
 protected:
  using LoopKind = loop::LoopKind;

  LoopAxis fresh(std::string name, int64_t extent) { return {next_var_++, std::move(name), extent}; }
  static loop::Stmt loop(const LoopAxis& a, loop::Stmt body, LoopKind kind = LoopKind::Serial) {
    return loop::Stmt::loop(a.var, a.name, te::Expr(a.extent), kind, std::move(body));
  }
  loop::Stmt vector(int64_t lanes, const std::function<loop::Stmt(const te::Expr&)>& body) {
    if (lanes == 1) return body(te::Expr(0));
    const LoopAxis lane = fresh("v", lanes);
    return loop(lane, body(lane.expr()), LoopKind::Vector);
  }
  // Several loops may have the same lanes.
  static loop::Stmt each_lane(const LoopAxis& lanes, loop::Stmt body) {
    return lanes.extent == 1 ? std::move(body) : loop(lanes, std::move(body), LoopKind::Vector);
  }
  int buffer(const char* name, int64_t elements, loop::Scope scope, DType type = DType::F32) {
    kernel_.function.buffers.push_back({name, type, {elements}, scope, scope != loop::Scope::Argument});
    return static_cast<int>(kernel_.function.buffers.size()) - 1;
  }

  Kernel kernel_;
  int next_var_ = 0;
};

}  // namespace isomer::compile
