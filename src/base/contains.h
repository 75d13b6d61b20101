// Whether a short list has an element, by looking at all of them.
#pragma once

#include <algorithm>
#include <vector>

namespace isomer {

template <class T>
bool contains(const std::vector<T>& list, const T& element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

}  // namespace isomer
