#include "loop/print.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>

#include "loop/intrinsic.h"
#include "te/print.h"

namespace isomer::loop {

std::string_view name(Scope scope) {
  switch (scope) {
    case Scope::Argument: return "argument";
    case Scope::Scratch: return "scratch";
    case Scope::Local: return "local";
  }
  return "";
}

std::string_view name(LoopKind kind) {
  switch (kind) {
    case LoopKind::Serial: return "for";
    case LoopKind::Parallel: return "parallel";
    case LoopKind::Vector: return "vector";
    case LoopKind::Unroll: return "unroll";
  }
  return "";
}

namespace {

std::string dims_text(const Buffer& b) {
  std::string text = fmt::format("{}[", isomer::name(b.dtype));
  for (size_t i = 0; i < b.dims.size(); ++i) text += (i ? "," : "") + std::to_string(b.dims[i]);
  return text + "]";
}

class Printer {
 public:
  explicit Printer(const Function& f) : f_(f) {
    for (const Buffer& b : f.buffers) buffers_.inputs.push_back({b.name, b.dtype, {b.dims.begin(), b.dims.end()}});
    if (!f.body.empty()) names(f.body);
  }

  std::string run() {
    text_ = "function " + f_.name + "(";
    for (size_t i = 0; i < f_.buffers.size(); ++i) {
      const Buffer& b = f_.buffers[i];
      const bool argument = i < static_cast<size_t>(f_.arguments);
      if (i == static_cast<size_t>(f_.arguments)) text_ += ")\n";
      if (argument)
        text_ += fmt::format("{}{}{}: {}", i ? ", " : "", b.written ? (b.flushed ? "out flushed " : "out ") : "",
                             b.name, dims_text(b));
      if (!argument) text_ += fmt::format("  {} {}: {}\n", name(b.scope), b.name, dims_text(b));
    }
    if (static_cast<size_t>(f_.arguments) == f_.buffers.size()) text_ += ")\n";
    if (!f_.body.empty()) stmt(f_.body, 1);
    return text_;
  }

 private:
  void names(const Stmt& s) {
    if (s->kind == StmtKind::For) ids_[s->var_name].insert(s->var);
    for (const Stmt& b : s->body) names(b);
  }

  std::string var(const std::string& name, int id) {
    const auto it = ids_.find(name);
    return it != ids_.end() && it->second.size() > 1 ? fmt::format("{}@{}", name, id) : name;
  }

  // te writes free variables as name@id; the id is only wanted where the name does not say which loop is meant.
  std::string expr(const te::Expr& e) {
    const std::string full = te::print(e, &buffers_);
    std::string out;
    for (size_t i = 0; i < full.size(); ++i) {
      if (full[i] != '@') {
        out += full[i];
        continue;
      }
      size_t end = i + 1, start = out.size();
      while (end < full.size() && std::isdigit(static_cast<unsigned char>(full[end]))) ++end;
      while (start > 0 && (std::isalnum(static_cast<unsigned char>(out[start - 1])) || out[start - 1] == '_')) --start;
      const auto it = ids_.find(out.substr(start));
      if (it == ids_.end() || it->second.size() > 1) out += full.substr(i, end - i);
      i = end - 1;
    }
    return out;
  }

  std::string place(int buffer, const std::vector<te::Expr>& indices) {
    std::string text = f_.buffers[static_cast<size_t>(buffer)].name + "[";
    for (size_t i = 0; i < indices.size(); ++i) text += (i ? "," : "") + expr(indices[i]);
    return text + "]";
  }

  void line(int depth, const std::string& text) {
    text_ += std::string(static_cast<size_t>(depth) * 2, ' ') + text + "\n";
  }

  void stmt(const Stmt& s, int depth) {
    switch (s->kind) {
      case StmtKind::For:
        line(depth, fmt::format("{} {} < {}", name(s->loop), var(s->var_name, s->var), expr(s->extent)));
        return stmt(s->body[0], depth + 1);
      case StmtKind::If:
        line(depth, "if " + expr(s->condition));
        stmt(s->body[0], depth + 1);
        if (s->body.size() > 1) {
          line(depth, "else");
          stmt(s->body[1], depth + 1);
        }
        return;
      case StmtKind::Seq:
        for (const Stmt& b : s->body) stmt(b, depth);
        return;
      case StmtKind::Store:
        return line(depth, fmt::format("{} {}= {}", place(s->buffer, s->indices),
                                       s->combiner ? sign(*s->combiner) : std::string(), expr(s->value)));
      case StmtKind::Prefetch: return line(depth, "prefetch " + place(s->buffer, s->indices));
      case StmtKind::Tile: return line(depth, tile(*s));
    }
  }

  static std::string sign(te::Combiner c) {
    if (c == te::Combiner::Sum) return "+";
    if (c == te::Combiner::Product) return "*";
    return std::string(te::name(c)) + " ";
  }

  std::string tile(const StmtNode& s) {
    std::string text = "tile " + s.intrinsic->name + "(";
    for (size_t i = 0; i < s.extents.size(); ++i) text += (i ? ", " : "") + expr(s.extents[i]);
    text += ")";
    for (size_t i = 0; i < s.operands.size(); ++i) {
      const TileOperand& o = s.operands[i];
      text += (i + 1 == s.operands.size() ? " -> " : i ? ", " : " ") + place(o.buffer, o.indices) + " by (";
      for (size_t a = 0; a < o.strides.size(); ++a) text += (a ? "," : "") + std::to_string(o.strides[a]);
      text += ")";
    }
    if (s.ahead)
      text += " ahead " + place(s.ahead->buffer, s.ahead->indices) + " by " + std::to_string(s.ahead->strides.back());
    return text;
  }

  const Function& f_;
  te::Program buffers_;
  std::map<std::string, std::set<int>> ids_;
  std::string text_;
};

}  // namespace

std::string print(const Function& function) { return Printer(function).run(); }

}  // namespace isomer::loop
