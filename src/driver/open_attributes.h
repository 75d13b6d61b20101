// From numbers in the attributes of a rule to names: strides, dilations, pads and window sizes that were numbers of the
// enumeration become sizes wherever the rule is still proved for all sizes.
#pragma once

#include "rewrite/rule.h"

namespace isomer::driver {

struct OpenedRule {
  rewrite::Rule rule;  // with a proof record
  bool opened = false;
};

// `rule` is proved; the answer is the most general of what was tried, one kind of attribute after another.
OpenedRule open_attributes(const rewrite::Rule& rule);

}  // namespace isomer::driver
