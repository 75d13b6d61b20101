#include "cost/label_kin.h"

#include <algorithm>
#include <unordered_map>

namespace isomer::cost {

std::vector<Kin> kin_of(const compile::LabelSpace& space, const std::vector<size_t>& factors,
                        const std::function<double(size_t)>& seconds) {
  std::vector<Kin> out;
  std::unordered_map<std::string, size_t> known;
  for (const size_t f : factors) {
    std::string reduction = space.reduction_of(f);
    if (!reduction.empty()) reduction = "reduction " + reduction;
    const auto [at, fresh] = known.emplace(reduction, out.size());
    if (fresh || reduction.empty()) out.push_back({reduction, {}, 0});
    Kin& kin = reduction.empty() ? out.back() : out[at->second];
    kin.factors.push_back(f);
    kin.seconds += seconds(f);
  }
  for (Kin& kin : out)
    std::stable_sort(kin.factors.begin(), kin.factors.end(),
                     [&](size_t a, size_t b) { return seconds(a) > seconds(b); });
  std::stable_sort(out.begin(), out.end(), [](const Kin& a, const Kin& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace isomer::cost
