// The file of a profile store: its tables, what its rows hold, and what is said when something is wrong with it.
#pragma once

#include <cstdint>
#include <string>

#include "cost/database.h"

namespace isomer::cost {

// Tables of this version in an empty file; Fault::Version when there is something else in it.
Fault prepare(Database& db, bool write);

// A value of a row, or nothing of its kind where the file has another one.
int64_t integer(const Database::Value& v);
double real(const Database::Value& v);
std::string text(const Database::Value& v);

std::string hash_text(const std::string& key);  // by which a key is looked for

// "is damaged": the predicate of a sentence about the file.
std::string why(Fault f, const std::string& message);

}  // namespace isomer::cost
