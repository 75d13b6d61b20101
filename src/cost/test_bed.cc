#include "cost/test_bed.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/random.h"
#include "cost/tile_rate.h"
#include "runtime/abi.h"
#include "runtime/memory.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace isomer::cost {
namespace {

constexpr uint64_t kZone = 256;  // bytes before and behind each buffer; the runtime lets kernels read ISO_SLACK of them
constexpr std::byte kMark{0xA5};
constexpr size_t kMostCopies = 16;

uint64_t rounded(uint64_t bytes) { return (bytes + ISO_ALIGNMENT - 1) / ISO_ALIGNMENT * ISO_ALIGNMENT; }

uint64_t bytes_of(const loop::Buffer& b) { return static_cast<uint64_t>(b.elements()) * size_of(b.dtype); }

}  // namespace

Expected<std::unique_ptr<TestBed>> TestBed::make(const loop::Function& function, const std::vector<Role>& roles,
                                                 const Shape& shape) {
  std::unique_ptr<TestBed> bed(new TestBed);
  bed->shape_ = shape;
  const auto arguments = static_cast<size_t>(function.arguments);
  const auto is_weight = [&](size_t i) { return i < roles.size() && roles[i] == Role::Weight; };
  uint64_t weights = 0, total = kZone;
  for (size_t i = 0; i < arguments; ++i)
    if (is_weight(i)) weights += bytes_of(function.buffers[i]);
  if (weights > 0 && !shape.far_weights) {
    const size_t least = std::min<size_t>(kMostCopies, shape.least_pool / weights + 1);
    bed->copies_ = std::clamp<size_t>(shape.weight_pool / weights, 1, std::max(shape.most_copies, least));
  }
  for (size_t i = 0; i < arguments; ++i)
    total += (is_weight(i) ? bed->copies_ : 1) * (rounded(bytes_of(function.buffers[i])) + 2 * kZone);
  const uint64_t junk = rounded(shape.traffic) * static_cast<uint64_t>(shape.threads);
  bed->bytes_ = total + junk;
  bed->memory_ = static_cast<std::byte*>(iso_map(bed->bytes_));
  if (!bed->memory_) return Diagnostic("E-measure", "there is no memory for the buffers of a kernel");
  bed->junk_ = bed->memory_ + total;
  std::memset(bed->junk_, 1, junk);
  std::byte* next = bed->memory_ + kZone;
  for (size_t i = 0; i < arguments; ++i) {
    const loop::Buffer& b = function.buffers[i];
    for (size_t copy = 0; copy < (is_weight(i) ? bed->copies_ : 1); ++copy) {
      bed->regions_.push_back({next, bytes_of(b), b.dtype, i, copy, !b.written && !is_weight(i), is_weight(i)});
      next += rounded(bytes_of(b)) + 2 * kZone;
      const Region& r = bed->regions_.back();
      std::memset(r.data - kZone, static_cast<int>(kMark), kZone);
      std::memset(r.data + r.bytes, static_cast<int>(kMark), rounded(r.bytes) - r.bytes + kZone);
      bed->fill(r);
    }
  }
  return bed;
}

TestBed::~TestBed() { iso_unmap(memory_, bytes_); }

void* TestBed::argument(size_t i, size_t copy) const {
  const Region* found = nullptr;
  for (const Region& r : regions_)
    if (r.argument == i && (r.copy == copy || !found)) found = &r;
  return found ? found->data : nullptr;
}

// Numbers of usual size: no denormals, which are slow, and integers that are in range of every index.
void TestBed::fill(const Region& r) const {
  constexpr size_t kPeriod = 4093 * 8;  // bytes; no multiple of a row, so that rows differ
  std::vector<std::byte> pattern(kPeriod, std::byte{0});
  Random random(r.argument + 1);
  const auto put = [&](auto make) {
    for (size_t i = 0; i < kPeriod; i += sizeof(make())) {
      const auto v = make();
      std::memcpy(&pattern[i], &v, sizeof(v));
    }
  };
  if (r.dtype == DType::F32) put([&] { return static_cast<float>(random.uniform(-0.5, 0.5)); });
  if (r.dtype == DType::F64) put([&] { return random.uniform(-0.5, 0.5); });
  if (r.dtype == DType::F16) put([] { return uint16_t{0x3800}; });
  if (r.dtype == DType::BF16) put([] { return uint16_t{0x3f00}; });
  for (uint64_t i = 0; i < r.bytes; i += kPeriod)
    std::memcpy(r.data + i, pattern.data(), std::min<uint64_t>(kPeriod, r.bytes - i));
}

void TestBed::fill_integers(int64_t value) {
  for (const Region& r : regions_) {
    if (is_float(r.dtype)) continue;
    for (uint64_t i = 0; i < r.bytes; ++i) r.data[i] = std::byte{0};
    for (uint64_t i = 0; i + size_of(r.dtype) <= r.bytes; i += size_of(r.dtype))
      r.data[i] = static_cast<std::byte>(value);
  }
}

bool TestBed::intact() const {
  const auto clean = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte b) { return b == kMark; });
  };
  return std::all_of(regions_.begin(), regions_.end(), [&](const Region& r) {
    return clean(r.data - kZone, r.data) && clean(r.data + r.bytes, r.data + r.bytes + kZone);
  });
}

namespace {

long preemptions() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

double cpu_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Out of all caches of all cores.
void evict([[maybe_unused]] const std::byte* from, [[maybe_unused]] uint64_t bytes) {
#if defined(__x86_64__)
  for (uint64_t i = 0; i < bytes; i += 64) _mm_clflush(from + i);
  _mm_mfence();
#endif
}

void read_lines(const std::byte* from, uint64_t bytes) {
  const auto* at = reinterpret_cast<const volatile uint64_t*>(from);
  for (uint64_t i = 0; i < bytes / 8; i += 8) (void)at[i];
}

}  // namespace

TestBed::Stamp TestBed::stamp() {
  Stamp s;
  s.preemptions = preemptions();
  s.cpu_seconds = cpu_seconds();
  return s;
}

void TestBed::begin() {
  stamps_.clear();
  rates_.assign(static_cast<size_t>(shape_.threads), {});
}

std::vector<TestBed::Circumstances> TestBed::circumstances() {
  stamps_.push_back(stamp());  // the last kernel's end
  if (shape_.tiles) rates_[0].push_back(tile_register_rate(*shape_.tiles));
  std::vector<Circumstances> out;
  for (size_t i = 1; i + 1 < stamps_.size(); i += 2) {
    Circumstances c{stamps_[i].preemptions == stamps_[i + 1].preemptions,
                    stamps_[i + 1].cpu_seconds - stamps_[i].cpu_seconds, 0};
    if (shape_.tiles) {
      c.tile_rate = std::min(rates_[0][i], rates_[0][i + 1]);
      for (const std::vector<double>& thread : rates_)
        for (size_t k = i; k < std::min(i + 2, thread.size()); ++k) c.tile_rate = std::min(c.tile_rate, thread[k]);
    }
    out.push_back(c);
  }
  return out;
}

// Rates are looked at outside of the time in which preemptions count.
int32_t TestBed::renew(void* const* arguments, int64_t begin, int64_t end, void* /*scratch*/) {
  auto* bed = static_cast<TestBed*>(arguments[0]);
  const auto threads = static_cast<uint64_t>(bed->shape_.threads);
  if (begin == 0) bed->stamps_.push_back(stamp());
  const auto look = [&](uint64_t t) {
    if (bed->shape_.tiles) bed->rates_[t].push_back(tile_register_rate(*bed->shape_.tiles));
  };
  for (auto t = static_cast<uint64_t>(begin); t < static_cast<uint64_t>(end); ++t) {
    look(t);
    for (const Region& r : bed->regions_) {
      if (!r.read) continue;
      const uint64_t share = r.bytes / 8 / threads;
      auto* at = reinterpret_cast<volatile uint64_t*>(r.data) + t * share;
      for (uint64_t i = 0; i < share; i += 8) at[i] = at[i];  // one word of a cache line makes it ours
    }
    if (bed->shape_.far_weights && t == 0)
      for (const Region& r : bed->regions_)
        if (r.weight) evict(r.data, r.bytes);
    read_lines(bed->junk_ + t * rounded(bed->shape_.traffic), bed->shape_.traffic);
    look(t);
  }
  if (begin == 0) bed->stamps_.push_back(stamp());
  return 0;
}

}  // namespace isomer::cost
