#include "ops/interpolation.h"

namespace isomer::ops {

te::Expr linear_weight(const te::Expr& d) { return te::max(te::Expr(1) - d, 0); }

te::Expr cubic_weight(const te::Expr& d, double a) {
  const auto real = [&](double v) { return te::Expr::real(d.dtype(), v); };
  const te::Expr near = ((real(a + 2) * d - real(a + 3)) * d) * d + real(1);
  const te::Expr far = ((real(a) * d - real(5 * a)) * d + real(8 * a)) * d - real(4 * a);
  return te::select(d <= real(1), near, te::select(d < real(2), far, real(0)));
}

te::Expr clamped(const te::Expr& i, const te::Expr& extent) { return te::min(te::max(i, 0), extent - te::Expr(1)); }

}  // namespace isomer::ops
