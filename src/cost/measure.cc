#include "cost/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "compile/host_program.h"
#include "cost/test_bed.h"
#include "runtime/abi.h"

namespace isomer::cost {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Of a go: so many runs, or so many seconds of them, since what disturbs for microseconds is lost in slow kernels.
constexpr size_t kLeastRuns = 5;
constexpr double kLeastSeconds = 0.05;
constexpr size_t kLeastRounds = 3;                  // and of a kernel in a plan so many runs of each copy
constexpr int kDoubtGoes = 3;                       // more, where no two goes agree
constexpr double kConfirmed = 1.03;                 // times the least
constexpr double kAgreement = 0.01;                 // of the low quantile and the fastest run
constexpr double kRound = 0.01;                     // seconds of all copies
constexpr uint64_t kNearCaches = 4;                 // second caches that the copies do not fit into
constexpr size_t kContextCopies = 32;               // at most, of a kernel in a plan
constexpr double kColdLimit = 3, kWarmLimit = 1.3;  // times the limit of a kernel, in its first run and later
// Times the usual limit, for a core at its full rate; tile registers lose most of theirs, the last is where there is a limit.
constexpr double kPatience = 2, kTilePatience = 5, kTryPatience = 2;

Diagnostic failure(std::string what) { return {"E-measure", std::move(what)}; }

// A plan of pairs of steps: one that prepares the caches, and the kernel on one of its copies.
class Rig {
 public:
  Rig(const Subject& subject, const MeasureOptions& options, BestRates& rates)
      : subject_(subject), options_(options), rates_(rates), units_(units_of(*subject.function, options.target)) {}
  ~Rig() {
    iso_free_context(context_, nullptr);
    if (model_) iso_close(model_, nullptr);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Expected<Timing> run(iso_kernel kernel);

 private:
  struct Sample {
    double seconds = 0;
    size_t copy = 0;
    TestBed::Circumstances when;
  };
  Expected<void> build(iso_kernel kernel);
  Expected<void> sample();
  bool counts(const Sample& s) const { return rates_.is_full(units_, s.when.rate); }
  std::vector<double> times(bool disturbed) const;
  Timing mean_of_copies() const;

  const Subject& subject_;
  const MeasureOptions& options_;
  BestRates& rates_;
  const Units units_;
  std::unique_ptr<TestBed> bed_;
  std::unique_ptr<compile::HostProgram> program_;
  iso_model* model_ = nullptr;
  iso_context* context_ = nullptr;
  std::vector<double> totals_;  // of each kernel step so far
  std::vector<Sample> samples_;
};

Expected<void> Rig::build(iso_kernel kernel) {
  const loop::Function& f = *subject_.function;
  // All copies run between two looks at the clock: of a slow kernel a few, as many as no near cache holds.
  TestBed::Shape shape;
  for (const Role r : subject_.roles) shape.weights.push_back(r == Role::Weight);
  shape.reaches = subject_.context.reaches;
  if (shape.reaches.empty())
    shape.reaches = standard_reaches(f, shape.weights, options_.far_weights);
  else
    shape.most_copies = kContextCopies;
  shape.same = subject_.context.same;
  shape.round = subject_.context.round;
  // What takes longer than a round gets few of its bytes from its weights.
  if (subject_.expected < kRound) shape.least_pool = kNearCaches * static_cast<uint64_t>(options_.target.l2_bytes);
  if (subject_.expected > 0)
    shape.most_copies =
        static_cast<size_t>(std::clamp(kRound / subject_.expected, 1.0, static_cast<double>(shape.most_copies)));
  shape.traffic = options_.traffic;
  shape.threads = options_.threads;
  shape.target = &options_.target;
  shape.units = units_;
  shape.least_rate = rates_.least_full(units_);
  ISOMER_TRY(bed_, TestBed::make(f, shape));
  compile::Plan plan;
  plan.model = "measurement";
  plan.target = options_.target;
  for (size_t copy = 0; copy < bed_->copies(); ++copy) {
    compile::Step prepare;
    prepare.function = "prepare";
    prepare.arguments = {{compile::Space::Address, 0, reinterpret_cast<uintptr_t>(bed_.get())},
                         {compile::Space::Address, 0, copy}};
    prepare.tasks = options_.threads;
    // What runs on one thread has its arguments in that thread's caches: the runtime decides the same for both.
    prepare.flops = f.tasks() > 1 ? subject_.flops : 1;
    prepare.bytes = f.tasks() > 1 ? subject_.bytes : 1;
    compile::Step step;
    step.function = "kernel";
    step.tasks = f.tasks();
    step.backward = subject_.context.turned;
    step.scratch_bytes = static_cast<uint64_t>(f.scratch_bytes());
    step.flops = subject_.flops;
    step.bytes = subject_.bytes;
    for (size_t i = 0; i < static_cast<size_t>(f.arguments); ++i)
      step.arguments.push_back({compile::Space::Address, 0, reinterpret_cast<uintptr_t>(bed_->argument(i, copy))});
    plan.steps.push_back(std::move(prepare));
    plan.steps.push_back(std::move(step));
  }
  ISOMER_TRY(program_, compile::HostProgram::make(std::move(plan), [&](std::string_view name) {
               return name == "prepare" ? &TestBed::renew : kernel;
             }));
  iso_error error;
  model_ = iso_open_program(program_->get(), &error);
  if (!model_) return failure(error.message);
  context_ = iso_new_context(model_, options_.threads, ISO_PROFILE, &error);
  if (!context_) return failure(error.message);
  totals_.assign(bed_->copies(), 0);
  return {};
}

// One run of the plan: the times of the kernel's steps.
Expected<void> Rig::sample() {
  bed_->begin();
  iso_error error;
  if (iso_run(context_, nullptr, 0, nullptr, 0, &error) != ISO_OK) return failure(error.message);
  const std::vector<TestBed::Circumstances> when = bed_->circumstances();
  for (size_t i = 0; i < totals_.size(); ++i) {
    iso_profile p;
    if (iso_step_profile(context_, static_cast<uint32_t>(i) * 2 + 1, &p, nullptr) != ISO_OK)
      return failure("the runtime has no times");
    samples_.push_back({p.seconds - totals_[i], i, i < when.size() ? when[i] : TestBed::Circumstances()});
    rates_.see(units_, samples_.back().when.rate);
    totals_[i] = p.seconds;
  }
  return {};
}

// Those at the full rate; of the disturbed ones, where they are wanted, the time that counts best.
std::vector<double> Rig::times(bool disturbed) const {
  std::vector<double> out;
  for (const Sample& s : samples_) {
    if (!counts(s)) continue;
    // Of one thread, the time that it had the core for is not far off.
    const bool own = options_.threads == 1 && s.when.cpu_seconds > 0 && s.when.cpu_seconds < s.seconds;
    if (s.when.undisturbed)
      out.push_back(s.seconds);
    else if (disturbed)
      out.push_back(own ? s.when.cpu_seconds : s.seconds);
  }
  return out;
}

// Some copies may stay in caches in which others do not: a low quantile over all would be that of the lucky ones.
Timing Rig::mean_of_copies() const {
  std::vector<std::vector<double>> by_copy(totals_.size());
  for (const Sample& s : samples_)
    if (counts(s) && s.when.undisturbed) by_copy[s.copy].push_back(s.seconds);
  Timing out = summarise(times(false));
  double sum = 0;
  size_t copies = 0;
  for (auto& samples : by_copy) {
    if (samples.empty()) continue;
    std::sort(samples.begin(), samples.end());
    sum += samples[std::min(samples.size() - 1, (samples.size() + 4) / 5)];
    ++copies;
  }
  out.seconds = sum / static_cast<double>(copies);
  return out;
}

Expected<Timing> Rig::run(iso_kernel kernel) {
  ISOMER_CHECK_OK(build(kernel));
  auto first = sample();  // warms up: code, page tables, threads
  if (!first.ok()) {
    bed_->fill_integers(1);  // a zero may be a divisor
    first = sample();
  }
  ISOMER_CHECK_OK(first);
  // By all runs that count.
  const auto too_slow = [&](double factor) {
    const std::vector<double> all = times(true);
    return subject_.limit > 0 && !all.empty() && *std::min_element(all.begin(), all.end()) > factor * subject_.limit;
  };
  if (too_slow(kColdLimit)) return summarise(times(true));
  samples_.clear();
  const auto start = Clock::now();
  std::vector<double> good;
  const size_t least = subject_.context.reaches.empty() ? kLeastRuns : kLeastRounds * bed_->copies();
  const auto enough = [&](const std::vector<double>& runs) {
    return runs.size() >= least || std::accumulate(runs.begin(), runs.end(), 0.0) >= kLeastSeconds;
  };
  const auto limit = [&] {
    const bool wait = since(start) >= options_.most_seconds && !enough(times(true));
    if (!wait) return options_.most_seconds;
    return options_.most_seconds * (subject_.limit > 0       ? kTryPatience
                                    : units_ == Units::Tiles ? kTilePatience
                                                             : kPatience);
  };
  while (good.size() < options_.most_runs && since(start) < limit()) {
    ISOMER_CHECK_OK(sample());
    if (too_slow(kWarmLimit)) return summarise(times(true));
    good = times(false);
    if (!enough(good)) continue;
    double timed = 0;
    for (const double s : good) timed += s;
    const double fastest = *std::min_element(good.begin(), good.end());
    const bool agree = good.size() >= 3 * kLeastRuns && summarise(good).seconds - fastest < kAgreement * fastest;
    if ((agree && timed > options_.seconds / 4) || timed > options_.seconds) break;
  }
  if (!bed_->intact()) return failure("the kernel writes outside of its buffers");
  if (enough(good)) return subject_.context.reaches.empty() ? summarise(good) : mean_of_copies();
  good = times(true);
  if (good.empty() && subject_.limit == 0)  // else it is not known whether the limit holds
    for (const Sample& s : samples_) good.push_back(s.seconds);
  return summarise(good);
}

uint64_t memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

Expected<Timing> measure_one(const Subject& subject, const MeasureOptions& options, BestRates& rates) {
  const loop::Function& f = *subject.function;
  uint64_t bytes = 0;
  for (size_t i = 0; i < static_cast<size_t>(f.arguments); ++i) bytes += f.buffers[i].bytes();
  if (bytes > memory_bytes() / 4) return failure(fmt::format("its buffers take {} bytes", bytes));
  return Rig(subject, options, rates).run(subject.code.entry);
}

// Code for those that have none, made together.
Expected<void> complete(std::vector<Subject>& subjects, const loop::Target& target) {
  std::vector<const loop::Function*> functions;
  std::vector<Subject*> open;
  for (Subject& s : subjects)
    if (!s.code.entry) functions.push_back(s.function), open.push_back(&s);
  if (open.empty()) return {};
  ISOMER_TRY(const std::vector<Code> codes, compile_together(functions, target, 0));
  for (size_t i = 0; i < open.size(); ++i) open[i]->code = codes[i];
  return {};
}

// Whether two goes agree on the least: one alone may have been lucky, or the others disturbed.
bool confirmed(std::vector<double> goes) {
  if (goes.size() < 2) return false;
  std::sort(goes.begin(), goes.end());
  return goes[1] <= kConfirmed * goes[0];
}

// The quicker of two goes; none when one of them failed.
Expected<Timing> lower_of(const Timing& a, Expected<Timing> b) {
  if (!b.ok()) return b;
  Timing t = a.seconds > 0 && (a.seconds < b->seconds || b->seconds <= 0) ? a : *b;
  t.runs = a.runs + b->runs;
  return t;
}

}  // namespace

Timing summarise(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) { return samples[static_cast<size_t>(q * static_cast<double>(samples.size() - 1))]; };
  Timing t;
  t.seconds = at(0.2);
  t.spread = t.seconds > 0 ? (at(0.75) - at(0.25)) / t.seconds : 0;
  t.runs = samples.size();
  return t;
}

std::vector<Expected<Timing>> measure(std::vector<Subject> subjects, const MeasureOptions& options, BestRates* rates) {
  std::vector<Expected<Timing>> out;
  if (const auto made = complete(subjects, options.target); !made.ok()) {
    out.assign(subjects.size(), Expected<Timing>(made.error()));
    return out;
  }
  // Each in several goes with the others between them: what else the machine does comes in bursts.
  MeasureOptions part = options;
  part.seconds /= options.goes;
  part.most_seconds /= options.goes;
  BestRates seen = options.rates;
  std::vector<std::vector<double>> goes(subjects.size());  // seconds
  for (int go = 0; go < options.goes + kDoubtGoes; ++go)
    for (size_t i = 0; i < subjects.size(); ++i) {
      if (go > 0 && !out[i].ok()) continue;
      // One go is enough where it has a time; the core may have been slow all the while.
      if (go >= options.goes && (options.goes > 1 ? confirmed(goes[i]) : out[i]->seconds > 0)) continue;
      Expected<Timing> t = measure_one(subjects[i], part, seen);
      if (t.ok()) goes[i].push_back(t->seconds);
      if (go == 0)
        out.push_back(std::move(t));
      else
        out[i] = lower_of(*out[i], std::move(t));
    }
  if (rates) rates->see(seen);
  return out;
}

}  // namespace isomer::cost
