#include "tensor/npy.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "tensor/random_fill.h"

namespace isomer {
namespace {

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }

std::string file(const std::string& header, const std::string& data, char version = 1) {
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>((header.size() >> (8 * i)) & 255);
  return out + header + data;
}

TEST(Npy, EveryElementTypeRoundTrips) {
  Random random(7);
  for (DType t : kAllDTypes)
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {3}, {2, 3, 4}, {2, 0}}) {
      const Tensor x = random_tensor(t, dims, random, {-100, 100, -50, 50});
      const auto y = parse_npy(bytes_of(npy_bytes(x)));
      ASSERT_TRUE(y.ok()) << y.error().to_string();
      if (t == DType::BF16) {
        EXPECT_EQ(y->dtype(), DType::U16);
        EXPECT_EQ(std::memcmp(y->bytes(), x.bytes(), x.byte_size()), 0);
      } else {
        EXPECT_EQ(*y, x) << name(t);
      }
    }
}

TEST(Npy, ElementsBeginAtAMultipleOf64) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {1}, {12, 1}, {1, 2, 3, 4, 5, 6, 7}}) {
    const Tensor x(DType::F32, dims);
    EXPECT_EQ((npy_bytes(x).size() - x.byte_size()) % 64, 0u);
  }
}

TEST(Npy, FortranOrderIsTransposed) {
  const auto t = parse_npy(bytes_of(file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n",
                                         std::string("\x00\x01\x02\x03\x04\x05", 6))));
  ASSERT_TRUE(t.ok()) << t.error().to_string();
  EXPECT_EQ(t->to_ints(), (std::vector<int64_t>{0, 2, 4, 1, 3, 5}));
}

TEST(Npy, BigEndianIsSwappedInEveryVersion) {
  for (char version : {1, 2, 3}) {
    const auto t = parse_npy(bytes_of(file("{\"shape\": (2,), 'fortran_order': False, 'descr': '>i2'}",
                                           std::string("\x01\x02\xff\xfe", 4), version)));
    ASSERT_TRUE(t.ok()) << t.error().to_string();
    EXPECT_EQ(t->to_ints(), (std::vector<int64_t>{258, -2}));
  }
}

TEST(Npy, HostileHeadersAreRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  const std::string data(4, '\0');
  ASSERT_TRUE(parse_npy(bytes_of(file(good, data))).ok());
  for (const std::string& header :
       {std::string(""), std::string("{"), std::string("{'descr': '<f4'"), std::string("{'descr': '<f4', }"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"),
        std::string("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }"),
        std::string("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
        std::string("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
        std::string("{'descr': '<f4', 'fortran_order': maybe, 'shape': (1,), }"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (1 1), }")})
    EXPECT_FALSE(parse_npy(bytes_of(file(header, data))).ok()) << header;
  const std::string whole = file(good, data);
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(parse_npy(bytes_of(whole.substr(0, n))).ok()) << n;
}

TEST(Npz, RoundTripsAndFindsDamage) {
  const NamedTensors tensors = {{"a", Tensor::ints({1, 2, 3})}, {"b/c", Tensor::scalar(DType::F32, 0.5)}};
  const auto bytes = npz_bytes(tensors);
  ASSERT_TRUE(bytes.ok());
  const auto back = parse_npz(bytes_of(*bytes));
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(*back, tensors);
  for (size_t n = 0; n < bytes->size(); ++n) EXPECT_FALSE(parse_npz(bytes_of(bytes->substr(0, n))).ok()) << n;
  // The contents of the first member lie before the header of the second.
  std::string damaged = *bytes;
  const size_t last = bytes->find("PK\x03\x04", 1) - 1;
  damaged[last] = static_cast<char>(damaged[last] ^ 1);
  EXPECT_FALSE(parse_npz(bytes_of(damaged)).ok());
  // No single damaged byte may do more than give a diagnostic or other values.
  for (size_t n = 0; n < bytes->size(); ++n) {
    std::string mutant = *bytes;
    mutant[n] = static_cast<char>(mutant[n] ^ 0xFF);
    static_cast<void>(parse_npz(bytes_of(mutant)).ok());
  }
}

TEST(Npz, CompressedMembersAreNamed) {
  std::string bytes = *npz_bytes({{"a", Tensor::ints({1})}});
  const size_t entry = bytes.find("PK\x01\x02");
  bytes[entry + 10] = 8;
  const auto t = parse_npz(bytes_of(bytes));
  ASSERT_FALSE(t.ok());
  EXPECT_NE(t.error().message.find("savez_compressed"), std::string::npos);
}

TEST(Npy, FilesRoundTripAndMissingOnesAreDiagnosed) {
  const std::string path = ::testing::TempDir() + "isomer_npy_test.npy";
  const Tensor x = Tensor::of<double>(DType::F32, {2, 2}, {1, 2, 3, 4});
  ASSERT_TRUE(write_npy(path, x).ok());
  const auto y = read_npy(path);
  ASSERT_TRUE(y.ok()) << y.error().to_string();
  EXPECT_EQ(*y, x);
  EXPECT_FALSE(read_raw(path, DType::F32, {2, 2}).ok());
  std::remove(path.c_str());
  EXPECT_FALSE(read_npy(path).ok());
}

TEST(Raw, NeedsExactlyTheBytesOfItsType) {
  const std::string data("\x01\x00\x02\x00", 4);
  const auto t = parse_raw(bytes_of(data), DType::I16, {2});
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->to_ints(), (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(parse_raw(bytes_of(data), DType::I16, {3}).ok());
  EXPECT_FALSE(parse_raw(bytes_of(data), DType::I16, {-2}).ok());
}

}  // namespace
}  // namespace isomer
