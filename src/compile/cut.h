// Cut: how a scheme cuts its work, where somebody says so.
// Invariant: a cut changes how fast a kernel is, never what it computes; a number that does not fit is as good as none.
#pragma once

#include <cstdint>

namespace isomer::compile {

// 0: as the scheme does by itself.
struct Cut {
  int64_t rows = 0;     // of a block: those that a task takes, or tiles of minimal filtering
  int64_t parts = 0;    // into which the columns of a block are dealt out
  int64_t columns = 0;  // of a register tile
  int64_t outputs = 0;  // of minimal filtering, along an axis
  bool operator==(const Cut&) const = default;
};

}  // namespace isomer::compile
