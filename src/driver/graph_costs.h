// Graph costs: what a search asks about graphs, answered by a pricer. Graphs are parts of a model and may have open sizes, which
// are taken to be as given. Both arguments have to outlive what is returned.
#pragma once

#include "cost/pricer.h"
#include "driver/open_sizes.h"
#include "search/search.h"

namespace isomer::driver {

search::Cost estimate_by(cost::Pricer& pricer, const Sizes& sizes);
search::Cost price_by(cost::Pricer& pricer, const Sizes& sizes);
search::Compare comparison_by(cost::Pricer& pricer, const Sizes& sizes);

}  // namespace isomer::driver
