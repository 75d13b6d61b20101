#include "interp/block_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "interp/clip.h"
#include "interp/contract.h"
#include "interp/contract_panel.h"
#include "interp/lane_ops.h"
#include "te/scalar.h"

namespace isomer::interp {
namespace {

constexpr int64_t kLanes = 256;
constexpr int64_t kRegisterBytes = int64_t{16} << 20;  // most for the registers of one worker
constexpr double kSerialCost = 40000;                  // less work than this is not worth waking a thread

using te::Combiner;

Diagnostic index_error(int64_t index, int64_t extent) {
  return Diagnostic("E-index-range", fmt::format("index {} is out of range for an axis of extent {}", index, extent));
}

// One thread's registers and position.
class Worker {
 public:
  Worker(const BlockProgram& program, int64_t lanes, const Deadline& deadline)
      : p_(program), deadline_(deadline), slots_(static_cast<size_t>(program.slots), 0) {
    allocate(program.real_uniform, lanes, real_storage_, reals_);
    allocate(program.int_uniform, lanes, int_storage_, ints_);
    n_ = static_cast<int>(lanes);
    run(p_.once);
  }

  int64_t* slots() { return slots_.data(); }
  // Runs the block that the slots name, of n lanes; false when it failed.
  bool block(int n) {
    n_ = n;
    return !error && in_time() && run(p_.block);
  }
  const double* real(int reg) const { return reals_[static_cast<size_t>(reg)]; }
  const int64_t* integer(int reg) const { return ints_[static_cast<size_t>(reg)]; }
  bool in_time() {
    if (!deadline_ || std::chrono::steady_clock::now() < *deadline_) return true;
    return fail(timeout_diagnostic());
  }
  std::optional<Diagnostic> error;
  const double* panel_row = nullptr;  // the sums of the program's panel at the current block

 private:
  template <class T>
  static void allocate(const std::vector<bool>& uniform, int64_t lanes, std::vector<T>& storage,
                       std::vector<T*>& pointers) {
    size_t total = 0;
    for (bool u : uniform) total += u ? 1 : static_cast<size_t>(lanes);
    storage.assign(total, T{});
    size_t at = 0;
    for (bool u : uniform) {
      pointers.push_back(storage.data() + at);
      at += u ? 1 : static_cast<size_t>(lanes);
    }
  }
  double* r(int reg) { return reals_[static_cast<size_t>(reg)]; }
  int64_t* i(int reg) { return ints_[static_cast<size_t>(reg)]; }
  bool fail(Diagnostic d) {
    if (!error) error = std::move(d);
    return false;
  }
  bool any(const int64_t* mask, bool uniform) const {
    if (uniform) return *mask != 0;
    return std::any_of(mask, mask + n_, [](int64_t m) { return m != 0; });
  }

  // Whether the instruction acts on any lane, and its mask per lane (null: on all).
  bool active(const Instruction& x, const int64_t*& mask) {
    mask = nullptr;
    if (x.mask < 0) return true;
    const int64_t* m = i(x.mask);
    if (x.mask_uniform || x.uniform) return any(m, x.mask_uniform);
    mask = m;
    return true;
  }

  bool run(const std::vector<Instruction>& body) {
    for (const Instruction& x : body) {
      if (x.code == Code::SkipUnless) {
        if (!any(i(x.a), x.uniform)) return true;
      } else if (!step(x)) {
        return false;
      }
    }
    return true;
  }

  bool loop(const Loop& l) {
    int64_t& value = slots_[static_cast<size_t>(l.slot)];
    for (value = 0; value < l.extent; ++value) {
      if ((++ticks_ & 0xFFF) == 0 && !in_time()) return false;
      if (!run(l.body)) return false;
    }
    return true;
  }

  bool step(const Instruction& x) {
    const int n = x.uniform ? 1 : n_;
    const auto unary = static_cast<te::UnaryOp>(x.op);
    const auto binary = static_cast<te::BinaryOp>(x.op);
    switch (x.code) {
      case Code::RealConstant:
      case Code::FillReal: std::fill_n(r(x.dst), n, x.real); return true;
      case Code::IntConstant:
      case Code::FillInt: std::fill_n(i(x.dst), n, x.integer); return true;
      case Code::Affine: affine(form(x), i(x.dst), n); return true;
      case Code::AffineTest: affine_test(form(x), i(x.dst), n); return true;
      case Code::SplatReal: std::fill_n(r(x.dst), n, *r(x.a)); return true;
      case Code::SplatInt: std::fill_n(i(x.dst), n, *i(x.a)); return true;
      case Code::RealUnary: lanes::unary(unary, r(x.dst), r(x.a), n); return true;
      case Code::RealTest: lanes::test(unary, i(x.dst), r(x.a), n); return true;
      case Code::RealBinary: lanes::binary(binary, r(x.dst), r(x.a), r(x.b), n); return true;
      case Code::RealCompare: lanes::compare(binary, i(x.dst), r(x.a), r(x.b), n); return true;
      case Code::IntUnary: lanes::unary_int(unary, x.type, i(x.dst), i(x.a), n); return true;
      case Code::IntBinary: return int_binary(x, n);
      case Code::SelectReal: select(x, r(x.dst), r(x.a), r(x.b), n); return true;
      case Code::SelectInt: select(x, i(x.dst), i(x.a), i(x.b), n); return true;
      case Code::Round: lanes::round(x.type, r(x.dst), r(x.a), n); return true;
      case Code::RealToInt: lanes::to_int(x.type, i(x.dst), r(x.a), n); return true;
      case Code::IntToReal: lanes::to_real(x.type, r(x.dst), i(x.a), n); return true;
      case Code::Wrap: lanes::wrap(x.type, i(x.dst), i(x.a), n); return true;
      case Code::ReadReal: return read(x, n, r(x.dst));
      case Code::ReadInt: return read(x, n, i(x.dst));
      case Code::CombineReal: {
        const int64_t* mask;
        if (active(x, mask)) lanes::combine(static_cast<Combiner>(x.op), r(x.dst), r(x.a), mask, n);
        return true;
      }
      case Code::CombineInt: {
        const int64_t* mask;
        if (active(x, mask)) lanes::combine_int(static_cast<Combiner>(x.op), x.type, i(x.dst), i(x.a), mask, n);
        return true;
      }
      case Code::ArgReal: arg(x, n, r(x.a), r(x.b)); return true;
      case Code::ArgInt: arg(x, n, i(x.a), i(x.b)); return true;
      case Code::Contract:
        if (x.extra == p_.panel) {
          std::copy_n(panel_row, n, r(x.dst));
          return true;
        }
        run_contraction(p_.contractions[static_cast<size_t>(x.extra)], slots_.data(), r(x.dst), n,
                        [this] { return in_time(); });
        return !error;
      case Code::Loop: return loop(p_.loops[static_cast<size_t>(x.extra)]);
      case Code::SkipUnless: return true;
    }
    return true;
  }

  const Form& form(const Instruction& x) const { return p_.forms[static_cast<size_t>(x.extra)]; }

  void affine(const Form& f, int64_t* dst, int n) {
    const int64_t base = f.at(slots_.data());
    for (int l = 0; l < n; ++l) dst[l] = base + l * f.lane;
  }
  void affine_test(const Form& f, int64_t* dst, int n) {
    int64_t from = 0, to = n;
    lanes_where(f, 0, from, to);
    from = std::min<int64_t>(from, n);
    to = std::max(from, to);
    std::fill(dst, dst + from, 0);
    std::fill(dst + from, dst + to, 1);
    std::fill(dst + to, dst + n, 0);
  }
  // Narrows [from, to) to the lanes where sign * form + offset >= 0; to <= from when there are none.
  void lanes_where(const Form& f, int64_t offset, int64_t& from, int64_t& to, int64_t sign = 1) const {
    clip(sign * f.at(slots_.data()) + offset, sign * f.lane, from, to);
  }

  bool int_binary(const Instruction& x, int n) {
    const int64_t* mask;
    if (!active(x, mask)) return true;
    if (lanes::binary_int(static_cast<te::BinaryOp>(x.op), x.type, i(x.dst), i(x.a), i(x.b), mask, n)) return true;
    return fail(Diagnostic("E-division-by-zero", "an integer division has a zero divisor"));
  }

  template <class T>
  void select(const Instruction& x, T* dst, const T* a, const T* b, int n) {
    if (x.c_uniform)
      std::copy_n(*i(x.c) ? a : b, n, dst);
    else
      lanes::select(dst, i(x.c), a, b, n);
  }

  static void load(const Tensor& t, int64_t first, int64_t step, double* dst, int n) {
    lanes::load(t, first, step, dst, n);
  }
  static void load(const Tensor& t, int64_t first, int64_t step, int64_t* dst, int n) {
    lanes::load_int(t, first, step, dst, n);
  }

  template <class T>
  bool read(const Instruction& x, int n, T* dst) {
    const Read& read = p_.reads[static_cast<size_t>(x.extra)];
    const int64_t* mask;
    if (!active(x, mask)) return true;
    if (!read.affine) return gather(read, mask, n, dst);
    int64_t from = 0, to = n;
    for (const Read::Check& c : read.checks) {
      lanes_where(c.index, 0, from, to);
      lanes_where(c.index, c.extent - 1, from, to, -1);
    }
    if (from > 0 || to < n) {
      // The lanes outside are not read; one that is asked for is the error.
      from = std::min<int64_t>(from, n);
      to = std::max(from, to);
      for (int l = 0; l < n; ++l) {
        if (l == from) l = static_cast<int>(to);
        if (l < n && (!mask || mask[l])) return out_of_range(read, l);
      }
      std::fill(dst, dst + from, T{});
      std::fill(dst + to, dst + n, T{});
    }
    if (from < to) {
      const Form& f = read.address;
      load(*read.tensor, f.at(slots_.data()) + from * f.lane, f.lane, dst + from, static_cast<int>(to - from));
    }
    return true;
  }
  bool out_of_range(const Read& read, int lane) {
    for (const Read::Check& c : read.checks) {
      const int64_t index = c.index.at(slots_.data()) + lane * c.index.lane;
      if (index < 0 || index >= c.extent) return fail(index_error(index, c.extent));
    }
    return fail(Diagnostic("E-index-range", "an index is out of range"));
  }

  template <class T>
  bool gather(const Read& read, const int64_t* mask, int n, T* dst) {
    for (int l = 0; l < n; ++l) {
      if (mask && !mask[l]) {
        dst[l] = T{};
        continue;
      }
      int64_t at = 0;
      for (const Read::Index& x : read.indices) {
        const int64_t index = i(x.reg)[x.uniform ? 0 : l];
        if (index < 0 || index >= x.extent) return fail(index_error(index, x.extent));
        at += index * x.stride;
      }
      load(*read.tensor, at, 1, dst + l, 1);
    }
    return true;
  }

  bool better(const Instruction& x, double candidate, double best) const {
    return te::arg_better(static_cast<Combiner>(x.op), candidate, best);
  }
  bool better(const Instruction& x, int64_t candidate, int64_t best) const {
    return te::arg_better_int(static_cast<Combiner>(x.op), x.type, candidate, best);
  }
  template <class T>
  void arg(const Instruction& x, int n, const T* value, T* best) {
    const int64_t* mask;
    if (!active(x, mask)) return;
    const int64_t position = form(x).at(slots_.data());
    int64_t *at = i(x.dst), *seen = i(x.c);
    for (int l = 0; l < n; ++l) {
      if ((mask && !mask[l]) || (seen[l] && !better(x, value[l], best[l]))) continue;
      seen[l] = 1;
      best[l] = value[l];
      at[l] = position;
    }
  }

  const BlockProgram& p_;
  const Deadline& deadline_;
  std::vector<int64_t> slots_;
  std::vector<double> real_storage_;
  std::vector<int64_t> int_storage_;
  std::vector<double*> reals_;
  std::vector<int64_t*> ints_;
  int n_ = 0;
  uint32_t ticks_ = 0;
};

// How the stage's points are cut into blocks: all axes but the lane axis are fixed in one. The rows of the program's
// panel are neighbours in the order of blocks, then the pieces of the lane axis.
struct Blocks {
  std::vector<int64_t> dims;
  const std::vector<Derived>& derived;
  int lane_axis;
  std::vector<size_t> order;  // all axes but the lane axis, those of rows last
  int64_t lane_extent = 1, lane_stride = 1, lanes = 1, pieces = 1, rows = 1, count = 0;

  Blocks(const BlockProgram& p, const Tensor& out) : dims(out.dims()), derived(p.derived), lane_axis(p.lane_axis) {
    const std::vector<int> row_axes =
        p.panel < 0 ? std::vector<int>{} : p.contractions[static_cast<size_t>(p.panel)].row_axes;
    for (const bool last : {false, true})
      for (size_t k = 0; k < dims.size(); ++k) {
        if (static_cast<int>(k) == lane_axis) continue;
        if ((std::find(row_axes.begin(), row_axes.end(), static_cast<int>(k)) != row_axes.end()) != last) continue;
        order.push_back(k);
        if (last) rows *= dims[k];
      }
    int64_t wide = 0;
    for (const auto* file : {&p.real_uniform, &p.int_uniform}) wide += std::count(file->begin(), file->end(), false);
    const int64_t most = std::clamp<int64_t>(kRegisterBytes / (8 * std::max<int64_t>(1, wide)), 8, kLanes);
    if (lane_axis >= 0) {
      lane_extent = dims[static_cast<size_t>(lane_axis)];
      for (size_t k = static_cast<size_t>(lane_axis) + 1; k < dims.size(); ++k) lane_stride *= dims[k];
    }
    pieces = (lane_extent + most - 1) / most;
    lanes = (lane_extent + pieces - 1) / pieces;
    pieces = (lane_extent + lanes - 1) / lanes;
    count = out.size() / lane_extent * pieces;
  }

  // Sets the slots to the first point of block b; gives its first element and number of lanes.
  std::pair<int64_t, int> place(int64_t b, int64_t* slots) const {
    const int64_t piece = b / rows % pieces;
    int64_t rest = b / rows / pieces * rows + b % rows, first = 0, stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
      const size_t k = order[i];
      slots[k] = rest % dims[k];
      rest /= dims[k];
    }
    if (lane_axis >= 0) slots[lane_axis] = piece * lanes;
    for (size_t k = dims.size(); k-- > 0; stride *= dims[k]) first += slots[k] * stride;
    for (const Derived& d : derived) slots[d.slot] = d.at(slots);
    return {first, static_cast<int>(std::min(lanes, lane_extent - piece * lanes))};
  }
};

void run_range(const BlockProgram& p, const Blocks& blocks, int64_t from, int64_t to, DType type, std::byte* bytes,
               const Deadline& deadline, std::optional<Diagnostic>& error) {
  Worker w(p, blocks.lanes, deadline);
  const bool real = is_float(type);
  std::optional<PanelContraction> panel;
  if (p.panel >= 0) panel.emplace(p.contractions[static_cast<size_t>(p.panel)], blocks.lanes);
  int64_t panel_first = from, panel_end = from;  // blocks whose sums the panel holds
  std::vector<double> splat_real(static_cast<size_t>(p.result_uniform && real ? blocks.lanes : 0));
  std::vector<int64_t> splat_int(static_cast<size_t>(p.result_uniform && !real ? blocks.lanes : 0));
  for (int64_t b = from; b < to; ++b) {
    const auto [first, n] = blocks.place(b, w.slots());
    bool fine = true;
    if (panel) {
      if (b >= panel_end) {
        panel_first = b;
        const int64_t most = std::min(b / blocks.rows * blocks.rows + blocks.rows, to) - b;
        panel_end = b + panel->compute(
                            b, most, n, w.slots(), [&](int64_t at) { blocks.place(at, w.slots()); },
                            [&] { return w.in_time(); });
        fine = panel_end > b;
      }
      w.panel_row = panel->row(b - panel_first);
    }
    if (!fine || !w.block(n)) {
      error = w.error;
      return;
    }
    if (real) {
      const double* result = w.real(p.result);
      if (p.result_uniform) {
        std::fill_n(splat_real.begin(), n, *result);
        result = splat_real.data();
      }
      lanes::store(type, bytes, first, blocks.lane_stride, result, n);
    } else {
      const int64_t* result = w.integer(p.result);
      if (p.result_uniform) {
        std::fill_n(splat_int.begin(), n, *result);
        result = splat_int.data();
      }
      lanes::store_int(type, bytes, first, blocks.lane_stride, result, n);
    }
  }
}

}  // namespace

Diagnostic timeout_diagnostic() {
  return Diagnostic("E-timeout", "the run takes longer than the time limit allows; raise the limit or make it smaller");
}

Expected<void> run_blocks(const BlockProgram& program, Tensor& out, ThreadPool& pool, const Deadline& deadline) {
  if (out.size() == 0) return {};
  const Blocks blocks(program, out);
  std::byte* bytes = out.mutable_bytes();
  const double work = program.point_cost * static_cast<double>(out.size());
  const int64_t parts = work < kSerialCost ? 1 : std::min<int64_t>(pool.size(), blocks.count);
  std::vector<std::optional<Diagnostic>> errors(static_cast<size_t>(parts));
  pool.run(static_cast<int>(parts), [&](int part) {
    run_range(program, blocks, blocks.count * part / parts, blocks.count * (part + 1) / parts, out.dtype(), bytes,
              deadline, errors[static_cast<size_t>(part)]);
  });
  // Parts are in the order of blocks, so this is the error that one thread alone would have met first.
  for (auto& e : errors)
    if (e) return *std::move(e);
  return {};
}

}  // namespace isomer::interp
