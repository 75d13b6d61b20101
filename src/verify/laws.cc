#include "verify/laws.h"

#include <fmt/format.h>

#include <set>

#include "rewrite/instantiate.h"

namespace isomer::verify {
namespace {

// A way to type a law: what each operand is declared as, and operands that are lists of sizes.
struct Typing {
  std::string_view first, others;  // shapes
  std::string_view types = "";
  std::string_view a = "", b = "";  // what stands for ?a and ?b where they are lists of sizes
  std::string_view c = "T";         // the type of ?c
};
constexpr Typing kTypings[] = {{"S...", "S..."},
                               {"S...", ""},
                               {"N, N", "N, N"},
                               {"N, C, 2*H, 2*W", "N, C, 2*H, 2*W"},
                               {"M, K", "", "", "[1]"},
                               {"A, B", "", "", "[A*B]", "[B, A]"},
                               {"S...", "S...", "", "", "", "bool"},
                               {"S...", "S...", "  type T in {bool}\n"},
                               {"S...", "S...", "  type T in {i32}\n"}};

// Names of the operands in order of their letters, with "x" first.
std::vector<std::string> operands(const std::string& law) {
  std::set<std::string> names;
  for (size_t at = law.find('?'); at != std::string::npos; at = law.find('?', at + 1))
    names.insert(law.substr(at + 1, 1));
  std::vector<std::string> out;
  if (names.erase("x")) out.push_back("x");
  out.insert(out.end(), names.begin(), names.end());
  return out;
}

std::string replaced(std::string s, const std::string& from, std::string_view to) {
  for (size_t at = s.find(from); at != std::string::npos; at = s.find(from, at + to.size()))
    s.replace(at, from.size(), to);
  return s;
}

std::string text(const std::string& name, const std::string& law, const Typing& t) {
  const size_t middle = law.find(" == ");
  if (middle == std::string::npos || (!t.a.empty() && law.find("?x") == std::string::npos)) return "";
  std::string sides = law.substr(0, middle) + " => " + law.substr(middle + 4), declared;
  bool first = true;
  for (const std::string& o : operands(law)) {
    const std::string_view list = o == "a" ? t.a : o == "b" ? t.b : "";
    if (!list.empty()) {
      sides = replaced(sides, "?" + o, list);
      continue;
    }
    declared += fmt::format("  ?{} : {}[{}]\n", o, o == "c" ? t.c : "T", first ? t.first : t.others);
    first = false;
  }
  return fmt::format("rule {} : reassociating\n{}{}  {}\n", name, t.types, declared, sides);
}

// Whether every case is well typed at some sizes.
bool fits(const rewrite::Rule& rule, const ir::OpTable& table) {
  Random random(1);
  for (const rewrite::Bindings& c : rewrite::cases(rule)) {
    bool one = false;
    for (int i = 0; i < 4 && !one; ++i) {
      const auto sizes = rewrite::sample(rule, c, random);
      one = sizes && rewrite::instantiate(rule, *sizes, table).ok();
    }
    if (!one) return false;
  }
  return true;
}

}  // namespace

std::vector<rewrite::Rule> law_rules(const ir::OpTable& table, std::vector<std::string>* untyped) {
  std::vector<rewrite::Rule> out;
  for (const ir::OpDef& op : table.records())
    for (size_t i = 0; i < op.laws.size(); ++i) {
      bool found = false;
      for (const Typing& t : kTypings) {
        auto rules =
            rewrite::parse_rules(text(fmt::format("law-{}-{}", op.name, i + 1), op.laws[i], t), table, "", "laws");
        if (!rules.ok() || rules->size() != 1 || !fits(rules->front(), table)) continue;
        out.push_back(std::move(rules->front()));
        found = true;
        break;
      }
      if (!found && untyped) untyped->push_back(op.name + ": " + op.laws[i]);
    }
  return out;
}

}  // namespace isomer::verify
