// What groups were found to be computed best by, so that graphs which share most of their groups are not labelled from the
// beginning: a group is known by the kernels that the compiler would make for it.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "compile/labels.h"

namespace isomer::cost {

class KnownMethods {
 public:
  struct Best {
    compile::Method method;
    bool cuts = false;  // other cuts were looked at too
  };
  std::optional<Best> find(const std::string& group) const;
  void set(const std::string& group, const Best& best);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Best> best_;
};

}  // namespace isomer::cost
