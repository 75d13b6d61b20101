// Element types. Names are those of the graph text: f32, bf16, i64, bool. Opaque marks a value that is no tensor of
// a supported type (a string, a sequence, an optional): such values are carried, never computed with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace isomer {

enum class DType : uint8_t { F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, Bool, Opaque };

inline constexpr DType kAllDTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64,
                                       DType::I32, DType::I16, DType::I8,  DType::U64,  DType::U32,
                                       DType::U16, DType::U8,  DType::Bool};

std::string_view name(DType type);
std::optional<DType> dtype_from_name(std::string_view text);
size_t size_of(DType type);  // bytes of one element; 0 for Opaque

constexpr bool is_float(DType t) { return t <= DType::BF16; }
constexpr bool is_byte(DType t) { return t == DType::U8 || t == DType::I8; }
constexpr bool is_signed_int(DType t) { return t >= DType::I64 && t <= DType::I8; }
constexpr bool is_unsigned_int(DType t) { return t >= DType::U64 && t <= DType::U8; }
constexpr bool is_int(DType t) { return t >= DType::I64 && t <= DType::U8; }

// A set of element types, as operator records use them for their constraints.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(DType t) : bits_(1u << static_cast<unsigned>(t)) {}  // NOLINT
  constexpr DTypeSet operator|(DTypeSet o) const { return DTypeSet(bits_ | o.bits_); }
  constexpr bool contains(DType t) const { return (bits_ >> static_cast<unsigned>(t)) & 1u; }
  constexpr bool operator==(const DTypeSet&) const = default;

 private:
  constexpr explicit DTypeSet(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

inline constexpr DTypeSet kFloats = DTypeSet(DType::F64) | DType::F32 | DType::F16 | DType::BF16;
inline constexpr DTypeSet kSignedInts = DTypeSet(DType::I64) | DType::I32 | DType::I16 | DType::I8;
inline constexpr DTypeSet kUnsignedInts = DTypeSet(DType::U64) | DType::U32 | DType::U16 | DType::U8;
inline constexpr DTypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr DTypeSet kNumbers = kFloats | kInts;
inline constexpr DTypeSet kSignedNumbers = kFloats | kSignedInts;
inline constexpr DTypeSet kAllTypes = kNumbers | DType::Bool;
inline constexpr DTypeSet kIndexInts = DTypeSet(DType::I64) | DType::I32;

// Smallest and largest value of an integer type (Bool: 0 and 1). Largest of U64 does not fit and is given as -1's bits.
int64_t lowest_int(DType type);
int64_t highest_int(DType type);

// Rounds a double to the nearest value of a float type, ties to even; overflow becomes infinity.
double round_to(DType type, double value);

// Wraps an integer to the range of an integer type, as two's complement storage does. Bool: nonzero becomes 1.
// U64 values keep their 64 bits.
int64_t wrap_to(DType type, int64_t value);

uint16_t half_from_double(double value);
double half_to_double(uint16_t bits);
uint16_t bfloat_from_double(double value);
double bfloat_to_double(uint16_t bits);

}  // namespace isomer
