// Random programs and random steps on their schedules, drawn blindly from the names that are there.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "loop/intrinsics.h"
#include "loop/schedule.h"

namespace isomer::loop {

class ProgramMaker {
 public:
  explicit ProgramMaker(Random& r) : r_(r) {}

  std::string text() {
    m_ = r_.between(1, 9), n_ = r_.between(1, 20), k_ = r_.between(1, 11);
    type_ = r_.flip(0.25) ? "i32" : r_.flip(0.2) ? "f64" : "f32";
    switch (r_.below(13)) {
      case 0: return element_wise();
      case 1: return product();
      case 2: return convolution();
      case 3: return rows();
      case 4: return softmax();
      case 5: return stencil();
      case 6: return conditional();
      case 7: return norm();
      case 8: return batched();
      case 9: return gather();
      case 10: return two_axes();
      case 11: return nested();
      default: return positions();
    }
  }

 private:
  std::string fill(std::string s) const {
    const auto replace = [&](const std::string& what, const std::string& by) {
      for (size_t at = 0; (at = s.find(what, at)) != std::string::npos; at += by.size()) s.replace(at, what.size(), by);
    };
    replace("$M", std::to_string(m_));
    replace("$N", std::to_string(n_));
    replace("$K", std::to_string(k_));
    replace("$P", std::to_string(m_ + 2));
    replace("$Q", std::to_string(n_ + 2));
    replace("$T", type_);
    return s;
  }
  std::string element_wise() {
    return fill(
        "input x : $T[$M,$N]\ninput b : $T[$N]\ninput c : $T[$M,1]\n"
        "s[i<$M,j<$N] : $T = x[i,j] + b[j]\nt[j<$N,i<$M] : $T = s[i,j]*c[i,0]\n"
        "y[i<$M,j<$N] : $T = max(t[j,i],s[i,j])\noutput y" +
        std::string(r_.flip() ? ", t\n" : "\n"));
  }
  std::string product() {
    return fill(
        "input a : $T[$M,$K]\ninput b : $T[$K,$N]\ninput bias : $T[$N]\n"
        "p[i<$M,l<$K] : $T = a[i,l]*2\nc[i<$M,j<$N] : $T = sum(k<$K) p[i,k]*b[k,j]\n"
        "t[i<$M,j<$N] : $T = c[i,j] + bias[j]\ny[i<$M,j<$N] : $T = max(t[i,j],0)\noutput y" +
        std::string(r_.flip(0.3) ? ", t\n" : "\n"));
  }
  std::string convolution() {
    return fill(
        "input x : $T[$M,$N,2]\ninput w : $T[3,3,2,$K]\n"
        "p[i<$P,j<$Q,c<2] : $T = select(1 <= i && i <= $M && 1 <= j && j <= $N, x[i - 1,j - 1,c], 0)\n"
        "y[i<$M,j<$N,o<$K] : $T = sum(u<3,v<3,c<2) p[i + u,j + v,c]*w[u,v,c,o]\n"
        "z[i<$M,j<$N,o<$K] : $T = y[i,j,o] + 1\noutput z\n");
  }
  std::string rows() {
    return fill(
        r_.flip()
            ? "input x : $T[$M,$N]\ns[i<$M] : $T = sum(k<$N) x[i,k]\ny[i<$M,j<$N] : $T = x[i,j] - s[i]\noutput y\n"
            : "input x : $T[$M,$N]\ny[j<$N] : $T = max(k<$M) x[k,j]\noutput y\n");
  }
  std::string softmax() {
    type_ = "f32";
    return fill(
        "input x : $T[$M,$N]\nm[i<$M] : $T = max(k<$N) x[i,k]\ne[i<$M,j<$N] : $T = exp(x[i,j] - m[i])\n"
        "s[i<$M] : $T = sum(k<$N) e[i,k]\ny[i<$M,j<$N] : $T = e[i,j]/s[i]\noutput y\n");
  }
  std::string norm() {
    type_ = "f32";
    return fill(
        "input x : $T[$M,$N]\ninput r : $T[$M,$N]\nz[i<$M,j<$N] : $T = x[i,j] + r[i,j]\n"
        "u[i<$M] : $T = (sum(k<$N) z[i,k])/$N\n"
        "v[i<$M] : $T = (sum(k<$N) (z[i,k] - u[i])*(z[i,k] - u[i]))/$N\n"
        "y[i<$M,j<$N] : $T = (z[i,j] - u[i])/sqrt(v[i] + 1)\noutput y, z\n");
  }
  std::string stencil() {
    return fill(
        "input x : $T[$P,$Q]\na[i<$P,j<$N] : $T = x[i,j] + x[i,j + 1] + x[i,j + 2]\n"
        "b[i<$M,j<$N] : $T = a[i,j] + a[i + 1,j]*2 + a[i + 2,j]\ny[i<$M,j<$N] : $T = b[i,j] - x[i,j]\noutput y\n");
  }
  std::string conditional() {
    return fill(
        "input x : $T[$M,$N]\ny[i<$M,j<$N] : $T = sum(k<$N where k <= j && i <= k + 3) x[i,k]\n"
        "z[i<$M] : $T = sum(k<$N where x[i,k] <= 0) y[i,k]\noutput z\n");
  }
  std::string batched() {
    return fill(
        "input a : $T[3,$K,$M]\ninput b : $T[3,$N,$K]\n"
        "c[h<3,i<$M,j<$N] : $T = sum(k<$K) a[h,k,i]*b[h,j,k]\n"
        "y[i<$M,h<3,j<$N] : $T = c[h,i,j]*2\noutput y\n");
  }
  std::string gather() {
    return fill(
        "input x : $T[$N,$K]\ninput w : i64[$M]\ns[i<$M,k<$K] : $T = x[mod(w[i],$N),k]\n"
        "y[i<$M] : $T = sum(k<$K) s[i,k]*s[i,k]\noutput y\n");
  }
  std::string two_axes() {
    return fill(
        "input x : $T[$M,$N,$K]\nt[j<$N,i<$M,k<$K] : $T = x[i,j,k] + 1\n"
        "s[j<$N] : $T = sum(i<$M,k<$K) t[j,i,k]\nm[i<$M] : $T = max(j<$N,k<$K) x[i,j,k]\n"
        "y[i<$M,j<$N] : $T = s[j]*m[i]\noutput y, s\n");
  }
  std::string nested() {
    return fill(
        "input x : $T[$M,$N]\ninput w : $T[$N,$K]\n"
        "y[i<$M] : $T = sum(k<$K) max(sum(l<$N) x[i,l]*w[l,k],0)\n"
        "z[i<$M,j<$N] : $T = select(1 <= i,y[i - 1],0) + x[i,j]\noutput z\n");
  }
  std::string positions() {
    return fill(
        "input x : $T[$M,$N]\ny[i<$M] : i64 = argmax(k<$N) x[i,k]\nz[i<$M,j<$N] : $T = x[i,j] - x[i,y[i]]\noutput z\n");
  }

  Random& r_;
  int64_t m_ = 1, n_ = 1, k_ = 1;
  std::string type_;
};

inline const std::vector<IntrinsicPtr>& random_schedule_intrinsics() {
  static const std::vector<IntrinsicPtr> all = [] {
    std::vector<IntrinsicPtr> out;
    for (const DType t : {DType::F32, DType::F64, DType::I32})
      for (const auto& [m, n] : {std::pair(32, 32), std::pair(4, 8)}) out.push_back(outer_product(m, n, t, ""));
    return out;
  }();
  return all;
}

class StepMaker {
 public:
  StepMaker(Random& r, const Schedule& s) : r_(r), s_(s) {
    blocks_ = s.blocks();
    for (const std::string& b : blocks_)
      for (const std::string& l : s.loops(b))
        if (std::find(loops_.begin(), loops_.end(), l) == loops_.end()) loops_.push_back(l);
  }

  std::string step(int number) {
    if (loops_.empty()) return "";
    const std::string l = any(loops_), b = any(blocks_), buffer = any_buffer();
    const int64_t f = r_.flip(0.8) ? r_.between(1, 8) : 16;
    switch (r_.below(20)) {
      case 0:
      case 1:
      case 2: return fmt::format("split {} {} -> a{} b{}", l, f, number, number);
      case 3: {
        const Names around = s_.loops(b);
        if (around.size() < 2) return "";
        const size_t k = r_.below(around.size() - 1);
        return fmt::format("fuse {} {} -> f{}", around[k], around[k + 1], number);
      }
      case 4:
      case 5: {
        Names around = s_.loops(b);
        for (size_t k = around.size(); k > 1; --k) std::swap(around[k - 1], around[r_.below(k)]);
        const size_t keep = around.size() < 2 ? around.size() : 2 + r_.below(around.size() - 1);
        std::string line = "reorder";
        for (size_t k = 0; k < keep; ++k) line += " " + around[k];
        return line;
      }
      case 6: return "vectorize " + innermost(b);
      case 7: return "unroll " + l;
      case 8: return "parallel " + outermost(b);
      case 9:
      case 10:
      case 11: return fmt::format("compute_at {} {}", b, l);
      case 12:
      case 13: return fmt::format("reverse_compute_at {} {}", b, l);
      case 14: return r_.flip() ? fmt::format("compute_inline {}", b) : fmt::format("prefetch {} {} {}", b, buffer, l);
      case 15: return fmt::format("cache_read {} {} -> r{}", b, buffer, number);
      case 16: return fmt::format("cache_write {} -> w{}", b, number);
      case 17:
        return r_.flip() ? fmt::format("rfactor {} -> q{}", l, number) : fmt::format("decompose_reduction {} {}", b, l);
      case 18: return layout(f);
      default:
        return fmt::format("tensorize {} {}", l,
                           random_schedule_intrinsics()[r_.below(random_schedule_intrinsics().size())]->name);
    }
  }

 private:
  const std::string& any(const Names& names) { return names[r_.below(names.size())]; }
  std::string any_buffer() { return s_.nest().buffers[r_.below(s_.nest().buffers.size())].name; }
  std::string innermost(const std::string& b) {
    const Names l = s_.loops(b);
    return l.empty() ? "" : l.back();
  }
  std::string outermost(const std::string& b) {
    const Names l = s_.loops(b);
    return l.empty() ? "" : l.front();
  }
  // Of an intermediate: what the caller passes keeps its layout here.
  std::string layout(int64_t f) {
    const auto first = static_cast<size_t>(s_.nest().argument_count());
    if (s_.nest().buffers.size() == first) return "";
    const Buffer& b = s_.nest().buffers[first + r_.below(s_.nest().buffers.size() - first)];
    Names entries;
    for (size_t d = 0; d < b.dims.size(); ++d) {
      if (r_.flip(0.4)) {
        entries.push_back(fmt::format("d{}/{}", d, f));
        entries.push_back(fmt::format("d{}%{}", d, f));
      } else {
        entries.push_back(fmt::format("d{}", d));
      }
    }
    std::string line = "transform_layout " + b.name + " ->";
    for (size_t k = entries.size(); k > 1; --k) std::swap(entries[k - 1], entries[r_.below(k)]);
    for (const std::string& e : entries) line += " " + e;
    return line;
  }

  Random& r_;
  const Schedule& s_;
  Names blocks_, loops_;
};

}  // namespace isomer::loop
