#include "driver/open_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ops/table.h"
#include "verify/rule.h"

namespace isomer::driver {
namespace {

using rewrite::Rule;

struct AttributeKind {
  std::string attribute;
  std::vector<std::string> names;
  bool may_be_zero = false;
};

// Pads of a window that stays inside them come before the window: with both open at once most proofs fail.
const std::array<AttributeKind, 3>& kinds() {
  static const std::array<AttributeKind, 3> all = {AttributeKind{"strides", {"sh", "sw"}},
                                                   AttributeKind{"dilations", {"dh", "dw"}},
                                                   AttributeKind{"pads", {"pt", "pl", "pb", "pr"}, true}};
  return all;
}

bool replace_all(std::string& text, const std::string& from, const std::string& to) {
  bool any = false;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
    any = true;
  }
  return any;
}

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

// The rule's text with every list "attribute=[numbers]" of one value as names; nothing where there is none.
std::optional<std::string> opened(const std::string& text, const AttributeKind& kind) {
  const std::string head = kind.attribute + "=[";
  const size_t at = text.find(head);
  if (at == std::string::npos) return std::nullopt;
  const size_t end = text.find(']', at);
  const std::string list = text.substr(at, end + 1 - at);
  const std::string inside = list.substr(head.size(), list.size() - head.size() - 1);
  if (inside.find_first_not_of("0123456789, ") != std::string::npos) return std::nullopt;
  if (static_cast<size_t>(std::count(inside.begin(), inside.end(), ',')) + 1 != kind.names.size()) return std::nullopt;
  std::string out = text;
  replace_all(out, list, head + joined(kind.names) + "]");
  if (!kind.may_be_zero) return out;
  const std::string condition = "nonnegative(" + joined(kind.names) + ")";
  if (const size_t where = out.find("  where "); where != std::string::npos)
    out.insert(where + std::string("  where ").size(), condition + ", ");
  else
    out += "  where " + condition + "\n";
  return out;
}

std::optional<Rule> proved(const std::string& text, const Rule& like) {
  auto rules = rewrite::parse_rules(text, ops::table(), "", like.family);
  if (!rules.ok() || rules->size() != 1) return std::nullopt;
  Rule r = std::move(rules->front());
  verify::Options options;
  options.weaker = false;
  auto proof = verify::proof_of(r, verify::verify_rule(r, ops::table(), options), ops::table());
  if (!proof) return std::nullopt;
  r.proofs = {*std::move(proof)};
  return r;
}

}  // namespace

OpenedRule open_attributes(const Rule& rule) {
  OpenedRule out{rule, false};
  for (const AttributeKind& kind : kinds()) {
    const auto text = opened(rewrite::print(out.rule, false), kind);
    if (!text) continue;
    if (auto r = proved(*text, rule)) out = {*std::move(r), true};
  }
  return out;
}

}  // namespace isomer::driver
