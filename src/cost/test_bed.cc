#include "cost/test_bed.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "base/clock_seconds.h"
#include "base/random.h"
#include "compile/arena.h"
#include "runtime/abi.h"
#include "runtime/memory.h"
#include "te/substitute.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace isomer::cost {
namespace {

constexpr uint64_t kZone = 256;  // bytes before and behind each buffer; the runtime lets kernels read ISO_SLACK of them
constexpr std::byte kMark{0xA5};
constexpr int kLooks = 40;  // at a core's rate before a run: half a millisecond, in which it may become the usual one,
constexpr int kAllLooks = 400;   // and of a thread in all: a rate that stays another one is not waited for in every run
constexpr double kFresh = 1e-4;  // seconds: a rate lasts for milliseconds, and a look takes as long as many a kernel

bool reads(const loop::Stmt& s, int buffer) {
  bool found = s->kind == loop::StmtKind::Store && s->buffer == buffer && s->combiner;
  const auto look = [&](const te::Expr& e) {
    te::for_each_node(e, [&](const te::Expr& n) { found |= n->kind == te::Kind::Read && n->tensor == buffer; });
  };
  if (s->kind == loop::StmtKind::Store) look(s->value);
  if (s->kind == loop::StmtKind::If) look(s->condition);
  return found || std::any_of(s->body.begin(), s->body.end(), [&](const loop::Stmt& b) { return reads(b, buffer); });
}

// Numbers of usual size: no denormals, which are slow, and integers that are in range of every index.
std::vector<std::byte> contents_of(DType dtype, size_t argument) {
  constexpr size_t kPeriod = 4093 * 8;  // bytes; no multiple of a row, so that rows differ
  std::vector<std::byte> pattern(kPeriod, std::byte{0});
  Random random(argument + 1);
  const auto put = [&](auto make) {
    for (size_t i = 0; i < kPeriod; i += sizeof(make())) {
      const auto v = make();
      std::memcpy(&pattern[i], &v, sizeof(v));
    }
  };
  if (dtype == DType::F32) put([&] { return static_cast<float>(random.uniform(-0.5, 0.5)); });
  if (dtype == DType::F64) put([&] { return random.uniform(-0.5, 0.5); });
  if (dtype == DType::F16) put([] { return uint16_t{0x3800}; });
  if (dtype == DType::BF16) put([] { return uint16_t{0x3f00}; });
  return pattern;
}

}  // namespace

// Of all that is large: also what is touched before each run may have been far away before that.
void TestBed::count_copies(const loop::Function& function) {
  uint64_t pool = shape_.round;
  for (size_t i = 0; i < static_cast<size_t>(function.arguments); ++i) {
    const Reach& reach = shape_.reaches[i];
    const uint64_t bytes = function.buffers[i].bytes();
    if (!own(i)) continue;
    if (reach.kind == Reach::Kind::Pool) pool = std::max(pool, reach.bytes);
    if (rotates(reach, bytes)) copied_ += bytes;
    if (reach.kind != Reach::Kind::Near && reach.kind != Reach::Kind::Second) continue;
    auto it = std::find_if(touched_.begin(), touched_.end(), [&](const Group& g) { return g.reach == reach; });
    if (it == touched_.end()) it = touched_.insert(it, Group{reach});
    it->bytes += bytes;
    ++it->arguments;
  }
  order_touches();
  copies_of_.assign(static_cast<size_t>(function.arguments), 1);
  if (copied_ == 0) return;
  const size_t least = std::min<size_t>(kMostCopies, shape_.least_pool / copied_ + 1);
  copies_ = std::clamp<size_t>(pool / copied_, 1, std::max(shape_.most_copies, least));
  if (shape_.round > 0 && copies_ * copied_ < pool) push_ = compile::rounded_up(pool / copies_ - copied_);
  for (size_t i = 0; i < copies_of_.size(); ++i) {
    const Reach& reach = shape_.reaches[i];
    if (!own(i) || !rotates(reach, function.buffers[i].bytes())) continue;
    const bool pooled = reach.kind == Reach::Kind::Pool;
    copies_of_[i] = pooled ? std::clamp<size_t>(reach.bytes / (copied_ + push_), 1, copies_) : copies_;
  }
}

// What is touched after something else is a part of the traffic behind that.
void TestBed::order_touches() {
  std::sort(touched_.begin(), touched_.end(),
            [&](const Group& a, const Group& b) { return traffic_of(a.reach) > traffic_of(b.reach); });
  uint64_t after = 0;
  for (size_t i = touched_.size(); i-- > 0;) {
    Group& g = touched_[i];
    const uint64_t bytes = shape_.round > 0 ? g.bytes / static_cast<uint64_t>(shape_.threads) : 0;
    const uint64_t there = after + bytes / g.arguments * (g.arguments - 1) / 2;
    g.traffic = traffic_of(g.reach) - std::min(traffic_of(g.reach), there);
    after += bytes + g.traffic;
  }
}

uint64_t TestBed::traffic_of(const Reach& reach) const {
  if (reach.kind == Reach::Kind::Near) return 0;
  return reach.bytes > 0 ? reach.bytes / static_cast<uint64_t>(shape_.threads) : shape_.traffic;
}

// What is touched and larger than a near cache was behind it before, and pushes others out.
bool TestBed::rotates(const Reach& reach, uint64_t bytes) const {
  if (reach.kind == Reach::Kind::Pool) return true;
  return shape_.round > 0 && reach.kind != Reach::Kind::Far &&
         bytes > shape_.traffic * static_cast<uint64_t>(shape_.threads);
}

size_t TestBed::copies_of(size_t argument) const { return copies_of_[argument]; }

void TestBed::add(const loop::Function& function, size_t argument, size_t copy, std::byte* at) {
  const loop::Buffer& b = function.buffers[argument];
  const bool weight = argument < shape_.weights.size() && shape_.weights[argument];
  Region r{at, b.bytes(), b.dtype, argument, copy, shape_.reaches[argument], weight, false, {}};
  r.changed = shape_.round > 0 && b.written && reads(function.body, static_cast<int>(argument));
  r.contents = contents_of(b.dtype, argument);
  std::memset(at - kZone, static_cast<int>(kMark), kZone);
  std::memset(at + r.bytes, static_cast<int>(kMark), compile::rounded_up(r.bytes) - r.bytes + kZone);
  fill(r, 0, r.bytes);
  if (!r.changed) r.contents = {};
  regions_.push_back(std::move(r));
}

Expected<std::unique_ptr<TestBed>> TestBed::make(const loop::Function& function, const Shape& shape) {
  std::unique_ptr<TestBed> bed(new TestBed);
  bed->shape_ = shape;
  bed->threads_.assign(static_cast<size_t>(shape.threads), Thread{.patience = kAllLooks});
  bed->count_copies(function);
  uint64_t total = kZone;
  for (size_t i = 0; i < static_cast<size_t>(function.arguments); ++i)
    if (bed->own(i)) total += bed->copies_of(i) * (compile::rounded_up(function.buffers[i].bytes()) + 2 * kZone);
  uint64_t traffic = 0;
  for (const Group& g : bed->touched_) traffic += g.traffic;
  bed->most_traffic_ = compile::rounded_up(std::max(shape.traffic, traffic));
  const uint64_t junk = bed->most_traffic_ * static_cast<uint64_t>(shape.threads);
  const uint64_t pushed = bed->push_ * bed->copies_;
  bed->bytes_ = total + junk + pushed;
  bed->memory_ = static_cast<std::byte*>(iso_map(bed->bytes_));
  if (!bed->memory_) return Diagnostic("E-measure", "there is no memory for the buffers of a kernel");
  bed->junk_ = bed->memory_ + total;
  bed->pushed_ = bed->junk_ + junk;
  std::memset(bed->junk_, 1, junk + pushed);
  std::byte* next = bed->memory_ + kZone;
  for (size_t i = 0; i < static_cast<size_t>(function.arguments); ++i)
    for (size_t copy = 0; bed->own(i) && copy < bed->copies_of(i); ++copy) {
      bed->add(function, i, copy, next);
      next += compile::rounded_up(function.buffers[i].bytes()) + 2 * kZone;
    }
  return bed;
}

TestBed::~TestBed() { iso_unmap(memory_, bytes_); }

void* TestBed::argument(size_t i, size_t copy) const {
  if (!own(i)) i = shape_.same[i];
  for (const Region& r : regions_)
    if (r.argument == i && r.copy == copy % copies_of(i)) return r.data;
  return nullptr;
}

void TestBed::fill(const Region& r, uint64_t begin, uint64_t end) {
  const uint64_t period = r.contents.size();
  for (uint64_t i = begin; i < end;) {
    const uint64_t n = std::min(end - i, period - i % period);
    std::memcpy(r.data + i, &r.contents[i % period], n);
    i += n;
  }
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

#if defined(__x86_64__)
bool flushes_in_any_order() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_CLFLUSHOPT);
}

// The order in which lines leave is left open: thirty times as fast as one after the other.
[[gnu::target("clflushopt")]] void flush_in_any_order(const std::byte* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 64) _mm_clflushopt(const_cast<std::byte*>(from) + i);
}
#endif

// Out of all caches of all cores.
void evict([[maybe_unused]] const std::byte* from, [[maybe_unused]] uint64_t bytes) {
#if defined(__x86_64__)
  static const bool any_order = flushes_in_any_order();
  if (any_order)
    flush_in_any_order(from, bytes);
  else
    for (uint64_t i = 0; i < bytes; i += 64) _mm_clflush(from + i);
  _mm_mfence();
#endif
}

void read_lines(const std::byte* from, uint64_t bytes) {
  const auto* at = reinterpret_cast<const volatile uint64_t*>(from);
  for (uint64_t i = 0; i < bytes / 8; i += 8) (void)at[i];
}

// One byte of a cache line makes it ours.
void touch_lines(std::byte* from, uint64_t bytes) {
  auto* at = reinterpret_cast<volatile std::byte*>(from);
  for (uint64_t i = 0; i < bytes; i += 64) at[i] = at[i];
}

}  // namespace

TestBed::Stamp TestBed::stamp() {
  Stamp s;
  s.preemptions = preemptions();
  s.cpu_seconds = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  return s;
}

void TestBed::begin() {
  stamps_.clear();
  runs_.clear();
  for (Thread& t : threads_) t.rates.clear();
  for (const Region& r : regions_)
    if (r.changed) fill(r, 0, r.bytes);
}

Rates TestBed::rates_now() const {
  return shape_.units == Units::Tiles ? core_rates(*shape_.target) : Rates{core_rate(Units::Vectors, *shape_.target)};
}

Rates TestBed::mean_rates(size_t look) const {
  std::vector<Rates> rates;
  for (const Thread& t : threads_)
    if (look < t.rates.size()) rates.push_back(t.rates[look]);
  return mean_of(rates);
}

std::vector<TestBed::Circumstances> TestBed::circumstances() {
  stamps_.push_back(stamp());  // the last kernel's end
  if (shape_.target) look(threads_[0], false);
  std::vector<Circumstances> out;
  for (size_t i = 1; i + 1 < stamps_.size(); i += 2) {
    Circumstances c{stamps_[i].preemptions == stamps_[i + 1].preemptions,
                    stamps_[i + 1].cpu_seconds - stamps_[i].cpu_seconds};
    for (const Watched& w : runs_[i / 2].threads) c.looks.push_back(w.looks);
    if (shape_.target) {
      c.before = mean_rates(i);
      c.after = mean_rates(i + 1);
    }
    out.push_back(c);
  }
  return out;
}

// The share of threads begin to end of all that has this reach.
void TestBed::touch(const Reach& reach, size_t copy, uint64_t begin, uint64_t end) const {
  const auto threads = static_cast<uint64_t>(shape_.threads);
  for (const Region& r : regions_) {
    if (r.reach != reach || r.copy != copy % copies_of(r.argument)) continue;
    if (r.weight) {
      read_lines(r.data, r.bytes);  // each thread all of them
      continue;
    }
    const auto touch_slice = [&](uint64_t from, uint64_t to) {
      if (r.changed)
        fill(r, from, to);
      else
        touch_lines(r.data + from, to - from);
    };
    if (reach.period == Reach::kFirst) {
      if (begin == 0) touch_slice(0, r.bytes);
      continue;
    }
    const uint64_t period = std::min(reach.period, r.bytes);
    for (uint64_t at = 0; at < r.bytes; at += period) {
      const uint64_t last = std::min(r.bytes, at + period);
      touch_slice(std::min(last, at + period * begin / threads), std::min(last, at + period * end / threads));
    }
  }
}

void TestBed::prepare(size_t copy, uint64_t begin, uint64_t end) const {
  const auto threads = static_cast<uint64_t>(shape_.threads);
  if (begin == 0)
    for (const Region& r : regions_)
      if (r.reach.kind == Reach::Kind::Far) evict(r.data, r.bytes);
  const uint64_t part = push_ / threads;
  read_lines(pushed_ + copy * push_ + begin * part, (end - begin) * part);
  // One thread that does the work of all has one second cache.
  std::byte* junk = junk_ + begin * most_traffic_;
  if (touched_.empty() && shape_.round == 0) read_lines(junk, shape_.traffic);
  for (const Group& g : touched_) {
    touch(g.reach, copy, begin, end);
    if (shape_.round > 0)
      touch_lines(junk, g.traffic);
    else
      read_lines(junk, g.traffic);
    junk += g.traffic;
  }
}

// Rates are looked at outside of the time in which preemptions count: of tile registers, which fall asleep, right before the
// kernel; of vectors before its arguments are touched, since a kernel of microseconds notices what ran last. Of a
// kernel in a plan, copies in a pool are not waited with: what they have of the last cache becomes less with every moment in
// which a neighbour uses it.
int32_t TestBed::renew(void* const* arguments, int64_t begin, int64_t end, void* /*scratch*/) {
  auto* bed = static_cast<TestBed*>(arguments[0]);
  const Shape& shape = bed->shape_;
  const bool tiles = shape.units == Units::Tiles, pooled = shape.round > 0 && bed->copies_ > 1;
  if (begin == 0) bed->stamps_.push_back(stamp());
  const auto look = [&](bool waits) {
    for (auto t = static_cast<size_t>(begin); shape.target && t < static_cast<size_t>(end); ++t)
      bed->look(bed->threads_[t], waits);
  };
  look(false);
  if (!tiles) look(!pooled);
  bed->prepare(reinterpret_cast<uintptr_t>(arguments[1]), static_cast<uint64_t>(begin), static_cast<uint64_t>(end));
  if (tiles) look(!pooled);
  if (begin == 0) {
    bed->stamps_.push_back(stamp());
    bed->runs_.push_back({std::chrono::steady_clock::now()});
  }
  return 0;
}

void TestBed::look_between() {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const std::thread::id self = std::this_thread::get_id();
  const Clock::time_point now = Clock::now();
  std::unique_lock lock(watching_);
  Run& run = runs_.back();
  auto it = std::find_if(run.threads.begin(), run.threads.end(), [&](const Watched& w) { return w.thread == self; });
  if (it == run.threads.end()) it = run.threads.insert(it, {self, run.begin});
  if (seconds(now - it->looked) < kBetweenLooks) return;
  const auto number = it - run.threads.begin();
  lock.unlock();
  const Rates rates = rates_now();
  const Clock::time_point end = Clock::now();
  lock.lock();
  Watched& own = run.threads[static_cast<size_t>(number)];
  own.looked = end;
  own.looks.push_back({seconds(now - run.begin), seconds(end - now), rates});
}

int32_t TestBed::run_watched(void* const* arguments, int64_t begin, int64_t end, void* scratch) {
  auto* bed = static_cast<TestBed*>(arguments[0]);
  const auto kernel = reinterpret_cast<iso_kernel>(arguments[1]);
  int32_t worst = 0;
  for (int64_t t = begin; t < end; ++t) {
    bed->look_between();
    worst = std::max(worst, kernel(arguments + 2, t, t + 1, scratch));
  }
  return worst;
}

// At the rate of this core, unless that was done a moment ago. `waits`: one that is not the usual one is looked at again.
void TestBed::look(Thread& thread, bool waits) const {
  const bool known = shape_.units == Units::Vectors && thread.last.vectors > 0 && seconds_since(thread.looked) < kFresh;
  const auto look_now = [&] {
    thread.last = rates_now();
    thread.looked = std::chrono::steady_clock::now();
  };
  const auto is_other = [&] { return !is_usual(thread.last.of(shape_.units), shape_.usual_rate); };
  if (!known) look_now();
  for (int i = 0; waits && i < kLooks && thread.patience > 0 && is_other(); ++i) {
    look_now();
    --thread.patience;
  }
  thread.rates.push_back(thread.last);
}

}  // namespace isomer::cost
