// Small damage to a text, as an editor or a bad copy does it: pieces of the grammar put in, characters lost, changed or
// repeated, the end cut off.
#pragma once

#include <span>
#include <string>

#include "base/random.h"

namespace isomer {

inline void damage(std::string& text, std::span<const char* const> pieces, Random& r) {
  for (uint64_t n = 1 + r.below(3); n > 0; --n) {
    const size_t at = r.below(text.size() + 1);
    switch (r.below(5)) {
      case 0: text.insert(at, pieces[r.below(pieces.size())]); break;
      case 1: text.erase(at, 1 + r.below(8)); break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(r.below(256));
        break;
      case 3: text.resize(at); break;
      default: text.insert(at, text.substr(r.below(text.size() + 1), r.below(30))); break;
    }
  }
}

}  // namespace isomer
