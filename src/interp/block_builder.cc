#include "interp/block_builder.h"

#include <algorithm>
#include <iterator>

namespace isomer::interp {

Instruction BlockBuilder::instruction(Code code, bool uniform, const Mask& mask) {
  Instruction i{.code = code};
  i.uniform = uniform;
  i.mask = mask.id;
  i.mask_uniform = mask.uniform;
  return i;
}

Reg BlockBuilder::put(Instruction i, bool real, int level) {
  auto& file = real ? program.real_uniform : program.int_uniform;
  file.push_back(i.uniform);
  const Reg r{static_cast<int>(file.size()) - 1, i.uniform, level};
  i.dst = r.id;
  scopes_[static_cast<size_t>(level)].body.push_back(std::move(i));
  return r;
}

void BlockBuilder::put_innermost(Instruction i) { scopes_.back().body.push_back(std::move(i)); }

Reg BlockBuilder::constant_int(int64_t v) {
  Instruction i = instruction(Code::IntConstant, true);
  i.integer = v;
  return put(std::move(i), false, 0);
}

Reg BlockBuilder::constant_real(double v) {
  Instruction i = instruction(Code::RealConstant, true);
  i.real = v;
  return put(std::move(i), true, 0);
}

Reg BlockBuilder::fill(bool real, bool uniform, int level, double r, int64_t v) {
  Instruction i = instruction(real ? Code::FillReal : Code::FillInt, uniform);
  i.real = r;
  i.integer = v;
  return put(std::move(i), real, level);
}

int BlockBuilder::form(Form f) {
  program.forms.push_back(std::move(f));
  return static_cast<int>(program.forms.size()) - 1;
}

int BlockBuilder::wide(const Reg& r, bool real, bool uniform) {
  if (uniform || !r.uniform) return r.id;
  Scope& s = scopes_[static_cast<size_t>(r.level)];
  const auto it = s.splats.find({real, r.id});
  if (it != s.splats.end()) return it->second.id;
  Instruction i = instruction(real ? Code::SplatReal : Code::SplatInt, false);
  i.a = r.id;
  return (s.splats[{real, r.id}] = put(std::move(i), real, r.level)).id;
}

Mask BlockBuilder::narrow(const Mask& mask, const Reg& condition, bool opposite) {
  Reg c = condition;
  if (opposite) {
    Instruction i = instruction(Code::IntUnary, c.uniform);
    i.op = static_cast<uint8_t>(te::UnaryOp::Not);
    i.type = DType::Bool;
    i.a = c.id;
    c = put(std::move(i), false, c.level);
  }
  if (mask.id < 0) return c;
  const bool uniform = c.uniform && mask.uniform;
  Instruction i = instruction(Code::IntBinary, uniform);
  i.op = static_cast<uint8_t>(te::BinaryOp::And);
  i.type = DType::Bool;
  i.a = wide(c, false, uniform);
  i.b = wide(mask, false, uniform);
  return put(std::move(i), false, std::max(c.level, mask.level));
}

const Reg* BlockBuilder::known(const te::Node* e, const Mask& mask, int level) const {
  const auto& known = scopes_[static_cast<size_t>(level)].known;
  const auto it = known.find({e, mask.id});
  return it == known.end() ? nullptr : &it->second;
}

void BlockBuilder::remember(const te::Node* e, const Mask& mask, int level, const Reg& r) {
  scopes_[static_cast<size_t>(level)].known[{e, mask.id}] = r;
}

int BlockBuilder::level_of_axis(int id) const {
  for (size_t l = scopes_.size(); l-- > 1;)
    if (scopes_[l].axis == id) return static_cast<int>(l);
  return 1;
}

int BlockBuilder::slot_of_axis(int id) const {
  for (size_t l = scopes_.size(); l-- > 1;)
    if (scopes_[l].axis == id) return scopes_[l].slot;
  return -1;
}

std::vector<BlockBuilder::Scope> BlockBuilder::open(const std::vector<std::pair<int, int64_t>>& axes, int level) {
  std::vector<Scope> aside(std::make_move_iterator(scopes_.begin() + level + 1),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(static_cast<size_t>(level) + 1);
  for (const auto& [axis, extent] : axes) {
    Scope s;
    s.axis = axis;
    s.slot = program.slots++;
    s.extent = extent;
    scopes_.push_back(std::move(s));
  }
  return aside;
}

void BlockBuilder::close(std::vector<Scope> aside, int level) {
  while (scopes_.size() > static_cast<size_t>(level) + 1) {
    Scope inner = std::move(scopes_.back());
    scopes_.pop_back();
    program.loops.push_back({inner.slot, inner.extent, std::move(inner.body)});
    Instruction i = instruction(Code::Loop, true);
    i.extra = static_cast<int>(program.loops.size()) - 1;
    put_innermost(std::move(i));
  }
  std::move(aside.begin(), aside.end(), std::back_inserter(scopes_));
}

double BlockBuilder::cost(const std::vector<Instruction>& body) const {
  double total = 0;
  for (const Instruction& i : body) {
    total += 1;
    if (i.code == Code::Loop) {
      const Loop& l = program.loops[static_cast<size_t>(i.extra)];
      total += static_cast<double>(l.extent) * cost(l.body);
    } else if (i.code == Code::Contract) {
      double points = 1;
      for (int64_t x : program.contractions[static_cast<size_t>(i.extra)].extents) points *= static_cast<double>(x);
      total += points;
    }
  }
  return total;
}

BlockProgram BlockBuilder::finish(const Reg& result) && {
  program.result = result.id;
  program.result_uniform = result.uniform;
  program.once = std::move(scopes_[0].body);
  program.block = std::move(scopes_[1].body);
  program.point_cost = cost(program.block);
  return std::move(program);
}

}  // namespace isomer::interp
