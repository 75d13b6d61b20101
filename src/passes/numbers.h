// What single numbers do in a graph: scalar constants by value, products taken apart, polynomials of one value. Patterns
// of exporters differ in order and association only, so recognisers ask for these and not for shapes of trees.
#pragma once

#include <optional>
#include <vector>

#include "passes/editor.h"

namespace isomer::passes {

// The value of a float constant of one element with at most `rank` axes, so that it makes no operand larger.
std::optional<double> number(const Editor& editor, Value v, size_t rank);
// a is b as far as a float type can tell: within a few units of its last place.
bool is_near(double a, double b, DType type);

// constant * factors[0] * factors[1] * ..., through products and quotients by numbers that nobody else reads.
struct Product {
  double constant = 1;
  std::vector<Value> factors;
};
std::optional<Product> product(const Editor& editor, Value v);

// v as a polynomial of x with coefficients by degree (3 at most, no trailing zeros); built from sums, products, powers.
std::optional<std::vector<double>> polynomial(const Editor& editor, Value v, Value x);
bool is_polynomial(const Editor& editor, Value v, Value x, const std::vector<double>& coefficients);

// The operand beside a number in a commutative node of two inputs.
struct Beside {
  Value other;
  double number = 0;
};
std::optional<Beside> beside_number(const Editor& editor, Value v, std::string_view op);

}  // namespace isomer::passes
