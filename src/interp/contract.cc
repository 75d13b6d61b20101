#include "interp/contract.h"

#include <algorithm>

#include "interp/clip.h"

namespace isomer::interp {
namespace {

// acc[j] += sum over k of a * b for `Width` lanes, held in registers meanwhile.
template <int Width, bool Unit, class A, class B>
void inner_block(const A* a, int64_t ak, int64_t al, const B* b, int64_t bk, int64_t bl, int64_t count, double* acc) {
  double sum[Width];
  for (int j = 0; j < Width; ++j) sum[j] = acc[j];
  for (int64_t k = 0; k < count; ++k, a += ak, b += bk) {
    if constexpr (Unit) {  // a is the same in all lanes, b's lanes are neighbours
      const double x = static_cast<double>(*a);
      for (int j = 0; j < Width; ++j) sum[j] += x * static_cast<double>(b[j]);
    } else {
      for (int j = 0; j < Width; ++j) sum[j] += static_cast<double>(a[j * al]) * static_cast<double>(b[j * bl]);
    }
  }
  for (int j = 0; j < Width; ++j) acc[j] = sum[j];
}

template <bool Unit, class A, class B>
void inner_lanes(const A* a, int64_t ak, int64_t al, const B* b, int64_t bk, int64_t bl, int64_t count, double* acc,
                 int64_t n) {
  const auto advance = [&](int width) {
    a += width * al;
    b += width * bl;
    acc += width;
    n -= width;
  };
  while (n >= 16) {
    inner_block<16, Unit>(a, ak, al, b, bk, bl, count, acc);
    advance(16);
  }
  while (n >= 4) {
    inner_block<4, Unit>(a, ak, al, b, bk, bl, count, acc);
    advance(4);
  }
  while (n >= 1) {
    inner_block<1, Unit>(a, ak, al, b, bk, bl, count, acc);
    advance(1);
  }
}

struct Guard {
  int64_t value;        // at the current point, lane 0, innermost axis 0
  int64_t inner, lane;  // coefficients
};

template <class A, class B>
class Runner {
 public:
  Runner(const Contraction& c, const int64_t* slots, double* acc, int n) : c_(c), acc_(acc), n_(n) {
    a_ = reinterpret_cast<const A*>(c.a.tensor->bytes());
    b_ = reinterpret_cast<const B*>(c.b.tensor->bytes());
    pa_ = c.a.address.form.at(slots);
    pb_ = c.b.address.form.at(slots);
    const size_t axes = c.extents.size();
    inner_extent_ = axes ? c.extents.back() : 1;
    const auto last = [&](const Contraction::Part& p) { return axes ? p.steps.back() : 0; };
    ak_ = last(c.a.address);
    bk_ = last(c.b.address);
    al_ = c.a.address.form.lane;
    bl_ = c.b.address.form.lane;
    for (const Contraction::Part& g : c.guards) guards_.push_back({g.form.at(slots), last(g), g.form.lane});
  }

  void run(const std::function<bool()>& keep_going) {
    std::fill(acc_, acc_ + n_, 0.0);
    const size_t outer = c_.extents.empty() ? 0 : c_.extents.size() - 1;
    std::vector<int64_t> at(outer, 0);
    const int64_t patience = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(1, inner_extent_ * n_));
    int64_t left = patience;
    while (true) {
      inner();
      if (--left == 0) {
        if (!keep_going()) return;
        left = patience;
      }
      size_t k = outer;
      while (k > 0) {
        --k;
        if (++at[k] < c_.extents[k]) {
          move(k, 1);
          break;
        }
        move(k, 1 - c_.extents[k]);
        at[k] = 0;
        if (k == 0) return;
      }
      if (outer == 0) return;
    }
  }

 private:
  void move(size_t axis, int64_t by) {
    pa_ += by * c_.a.address.steps[axis];
    pb_ += by * c_.b.address.steps[axis];
    for (size_t g = 0; g < guards_.size(); ++g) guards_[g].value += by * c_.guards[g].steps[axis];
  }

  void inner() {
    int64_t k0 = 0, k1 = inner_extent_, l0 = 0, l1 = n_;
    bool mixed = false;
    for (const Guard& g : guards_) {
      if (g.inner == 0)
        clip(g.value, g.lane, l0, l1);
      else if (g.lane == 0)
        clip(g.value, g.inner, k0, k1);
      else
        mixed = true;
    }
    if (k0 >= k1 || l0 >= l1) return;
    if (!mixed) return lanes(k0, k1, l0, l1);
    // Lanes on which the mixed guards hold for every k go together; the few at the edges one by one.
    int64_t m0 = l0, m1 = l1;
    for (const Guard& g : guards_)
      if (g.inner != 0 && g.lane != 0) clip(g.value + g.inner * (g.inner < 0 ? k1 - 1 : k0), g.lane, m0, m1);
    if (m0 >= m1) m0 = m1 = l1;
    for (int64_t l = l0; l < m0; ++l) edge(k0, k1, l);
    if (m0 < m1) lanes(k0, k1, m0, m1);
    for (int64_t l = std::max(m1, l0); l < l1; ++l) edge(k0, k1, l);
  }

  void edge(int64_t k0, int64_t k1, int64_t lane) {
    for (const Guard& g : guards_)
      if (g.inner != 0 && g.lane != 0) clip(g.value + g.lane * lane, g.inner, k0, k1);
    if (k0 < k1) lanes(k0, k1, lane, lane + 1);
  }

  void lanes(int64_t k0, int64_t k1, int64_t l0, int64_t l1) {
    const A* a = a_ + (pa_ + k0 * ak_ + l0 * al_);
    const B* b = b_ + (pb_ + k0 * bk_ + l0 * bl_);
    if (al_ == 0 && bl_ == 1) return inner_lanes<true>(a, ak_, al_, b, bk_, bl_, k1 - k0, acc_ + l0, l1 - l0);
    if (bl_ == 0 && al_ == 1) return inner_lanes<true>(b, bk_, bl_, a, ak_, al_, k1 - k0, acc_ + l0, l1 - l0);
    inner_lanes<false>(a, ak_, al_, b, bk_, bl_, k1 - k0, acc_ + l0, l1 - l0);
  }

  const Contraction& c_;
  double* acc_;
  const int n_;
  const A* a_;
  const B* b_;
  int64_t pa_, pb_, ak_, bk_, al_, bl_, inner_extent_;
  std::vector<Guard> guards_;
};

}  // namespace

void run_contraction(const Contraction& c, const int64_t* slots, double* acc, int n,
                     const std::function<bool()>& keep_going) {
  const bool wide_a = c.a.tensor->dtype() == DType::F64, wide_b = c.b.tensor->dtype() == DType::F64;
  if (wide_a && wide_b) return Runner<double, double>(c, slots, acc, n).run(keep_going);
  if (wide_a) return Runner<double, float>(c, slots, acc, n).run(keep_going);
  if (wide_b) return Runner<float, double>(c, slots, acc, n).run(keep_going);
  Runner<float, float>(c, slots, acc, n).run(keep_going);
}

}  // namespace isomer::interp
