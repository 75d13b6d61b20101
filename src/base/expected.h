// Expected<T>: a value, or the Diagnostic that says why the user's input has none. Exactly one of the two exists.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/diagnostic.h"

namespace isomer {

template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}                     // NOLINT
  Expected(Diagnostic diagnostic) : state_(std::in_place_index<1>, std::move(diagnostic)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return (check_ok(), std::get<0>(state_)); }
  const T& value() const& { return (check_ok(), std::get<0>(state_)); }
  T&& value() && { return (check_ok(), std::get<0>(std::move(state_))); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Diagnostic& error() & { return std::get<1>(state_); }
  const Diagnostic& error() const& { return std::get<1>(state_); }
  Diagnostic&& error() && { return std::get<1>(std::move(state_)); }

 private:
  void check_ok() const {
    if (!ok()) check_failed("Expected holds a value", std::get<1>(state_).to_string());
  }
  std::variant<T, Diagnostic> state_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Diagnostic diagnostic) : error_(std::move(diagnostic)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Diagnostic& error() & { return *error_; }
  const Diagnostic& error() const& { return *error_; }
  Diagnostic&& error() && { return *std::move(error_); }

 private:
  std::optional<Diagnostic> error_;
};

}  // namespace isomer

#define ISOMER_CONCAT_(a, b) a##b
#define ISOMER_CONCAT(a, b) ISOMER_CONCAT_(a, b)

// ISOMER_TRY(auto x, f()): binds x to the value of f(), or returns f()'s diagnostic from this function.
#define ISOMER_TRY(decl, ...) ISOMER_TRY_(ISOMER_CONCAT(try_, __COUNTER__), decl, __VA_ARGS__)
#define ISOMER_TRY_(tmp, decl, ...)             \
  auto tmp = (__VA_ARGS__);                     \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = *std::move(tmp)

// ISOMER_CHECK_OK(f()): returns f()'s diagnostic from this function when it has one.
#define ISOMER_CHECK_OK(...)                                                                  \
  do {                                                                                        \
    if (auto check_ok_ = (__VA_ARGS__); !check_ok_.ok()) return std::move(check_ok_).error(); \
  } while (false)
