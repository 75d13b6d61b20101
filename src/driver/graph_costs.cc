#ifdef ISOMER_HAS_COMPILER

#include "driver/graph_costs.h"

namespace isomer::driver {

search::Cost estimate_by(cost::Pricer& pricer, const Sizes& sizes) {
  return [&pricer, &sizes](const ir::Graph& g) -> Expected<double> {
    ISOMER_TRY(const ir::Graph sized, with_sizes(g, sizes));
    ISOMER_TRY(const cost::Price p, pricer.estimate(sized, cost::Pricer::Extent::Piece));
    return p.seconds;
  };
}

search::Cost price_by(cost::Pricer& pricer, const Sizes& sizes) {
  return [&pricer, &sizes](const ir::Graph& g) -> Expected<double> {
    ISOMER_TRY(const ir::Graph sized, with_sizes(g, sizes));
    ISOMER_TRY(const cost::Price p, pricer.price(sized, cost::Pricer::Extent::Piece));
    return p.seconds;
  };
}

search::Compare comparison_by(cost::Pricer& pricer, const Sizes& sizes) {
  return [&pricer, &sizes](const ir::Graph& before, const ir::Graph& after, int look) -> Expected<search::Comparison> {
    ISOMER_TRY(const ir::Graph was, with_sizes(before, sizes));
    ISOMER_TRY(const ir::Graph is, with_sizes(after, sizes));
    ISOMER_TRY(const auto found, pricer.compare(was, is, cost::Pricer::Extent::Piece, look));
    return search::Comparison{found.seconds, found.changed, found.kernels, found.moves};
  };
}

}  // namespace isomer::driver

#endif
