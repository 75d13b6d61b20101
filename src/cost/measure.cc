#include "cost/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/clock_seconds.h"
#include "base/stolen_time.h"
#include "compile/host_program.h"
#include "cost/test_bed.h"
#include "runtime/abi.h"

namespace isomer::cost {
namespace {

using Clock = std::chrono::steady_clock;

// Of a go: so many runs, or so many seconds of them, since what disturbs for microseconds is lost in slow kernels.
constexpr size_t kLeastRuns = 5;
constexpr double kLeastSeconds = 0.05;
constexpr size_t kLeastRounds = 3;  // and of a kernel in a plan so many runs of each copy
constexpr int kDoubtGoes = 3;       // more, where no two goes agree
// Of a model of few kernels each decides about much of its price: so many goes of all together, and of each at most.
constexpr size_t kAllGoes = 96, kMostGoes = 8;
constexpr double kConfirmed = 1.03;                 // times the least
constexpr double kAgreement = 0.02;                 // of the middle half of the runs
constexpr double kRound = 0.01;                     // seconds of all copies
constexpr uint64_t kNearCaches = 4;                 // second caches that the copies do not fit into
constexpr size_t kContextCopies = 32;               // at most, of a kernel in a plan
constexpr double kColdLimit = 3, kWarmLimit = 1.3;  // times the limit of a kernel, in its first run and later
constexpr double kThefts = 0.01;                    // seconds: of shorter rounds nothing was stolen that anyone tells
constexpr double kWatched = 0.003;                  // seconds: of longer ones the rate is looked at meanwhile
constexpr double kLittle = 0.55, kMost = 0.8;       // of a kernel's time, that is the memory's

bool by_time(const Timing& a, const Timing& b) { return a.seconds < b.seconds; }

Diagnostic failure(std::string what) { return {"E-measure", std::move(what)}; }

// A plan of pairs of steps: one that prepares the caches, and the kernel on one of its copies.
class Rig {
 public:
  Rig(const Subject& subject, const MeasureOptions& options)
      : subject_(subject), options_(options), units_(units_of(*subject.function, options.target)), mix_(subject.mix) {
    if (mix_.seconds() <= 0) (units_ == Units::Tiles ? mix_.tiles : mix_.vectors) = 1;
  }
  ~Rig() {
    iso_free_context(context_, nullptr);
    if (model_) iso_close(model_, nullptr);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Expected<Timing> run(iso_kernel kernel);

 private:
  enum class Worth : uint8_t { Disturbed, Converted, Sure };
  struct Sample {
    double seconds = 0;  // at the usual rate
    size_t copy = 0;
    Worth worth = Worth::Disturbed;
  };
  Expected<void> build(iso_kernel kernel);
  Expected<void> sample();
  bool watched() const;
  Worth worth(const TestBed::Circumstances& when) const;
  double converted(double seconds, const TestBed::Circumstances& when) const;
  std::vector<double> times(Worth least) const;
  Timing mean_of_copies() const;

  const Subject& subject_;
  const MeasureOptions& options_;
  const Units units_;
  Mix mix_;
  std::unique_ptr<TestBed> bed_;
  std::unique_ptr<compile::HostProgram> program_;
  iso_model* model_ = nullptr;
  iso_context* context_ = nullptr;
  std::vector<double> totals_;  // of each kernel step so far
  std::vector<Sample> samples_;
  StolenTime stolen_;
};

Expected<void> Rig::build(iso_kernel kernel) {
  const loop::Function& f = *subject_.function;
  // All copies run between two looks at the clock: of a slow kernel a few, as many as no near cache holds.
  TestBed::Shape shape;
  for (const Role r : subject_.roles) shape.weights.push_back(r == Role::Weight);
  shape.reaches = subject_.context.reaches;
  if (subject_.in_plan())
    shape.most_copies = kContextCopies;
  else
    shape.reaches = standard_reaches(f, shape.weights, options_.weights);
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
  shape.usual_rate = options_.usual.of(units_);
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
    // In a plan every thread has what it touched last; in the standard state what runs on one thread has its arguments in that
    // thread's caches: the runtime decides the same for both.
    if (!subject_.in_plan()) {
      prepare.flops = f.tasks() > 1 ? subject_.flops : 1;
      prepare.bytes = f.tasks() > 1 ? subject_.bytes : 1;
    }
    compile::Step step;
    step.function = watched() ? "watched" : "kernel";
    if (watched())
      step.arguments = {{compile::Space::Address, 0, reinterpret_cast<uintptr_t>(bed_.get())},
                        {compile::Space::Address, 0, reinterpret_cast<uintptr_t>(kernel)}};
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
               return name == "prepare" ? &TestBed::renew : name == "watched" ? &TestBed::run_watched : kernel;
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
  const auto start = Clock::now();
  iso_error error;
  if (iso_run(context_, nullptr, 0, nullptr, 0, &error) != ISO_OK) return failure(error.message);
  const std::vector<TestBed::Circumstances> when = bed_->circumstances();
  const bool stolen = seconds_since(start) > kThefts && stolen_.grew();
  for (size_t i = 0; i < totals_.size(); ++i) {
    iso_profile p;
    if (iso_step_profile(context_, static_cast<uint32_t>(i) * 2 + 1, &p, nullptr) != ISO_OK)
      return failure("the runtime has no times");
    TestBed::Circumstances then = i < when.size() ? when[i] : TestBed::Circumstances();
    then.undisturbed = then.undisturbed && !stolen;
    samples_.push_back({converted(p.seconds - totals_[i], then), i, worth(then)});
    totals_[i] = p.seconds;
  }
  return {};
}

// Longer than what a core's rate stays the same for.
bool Rig::watched() const {
  return subject_.function->tasks() > 1 && options_.usual.of(units_) > 0 && subject_.expected > kWatched;
}

double Rig::converted(double seconds, const TestBed::Circumstances& when) const {
  const auto of_thread = [&](const std::vector<TestBed::Look>& looks) {
    WatchedRun run;
    double at = 0;
    Rates rates = when.before;
    for (const TestBed::Look& look : looks) {
      run.push_back({look.at - at, mean_of({rates, look.rates})});
      at = look.at + look.seconds;
      rates = look.rates;
    }
    run.push_back({std::max(0.0, seconds - at), mean_of({rates, when.after})});
    return at_usual_rates(run, options_.usual, mix_);
  };
  double out = when.looks.empty() ? of_thread({}) : 0;
  for (const std::vector<TestBed::Look>& looks : when.looks)
    out += of_thread(looks) / static_cast<double>(when.looks.size());
  // Of one thread that lost its core, the time that it had it for is not far off.
  const bool own = options_.threads == 1 && when.cpu_seconds > 0 && when.cpu_seconds < seconds;
  if (!when.undisturbed && own) out *= when.cpu_seconds / seconds;
  return out;
}

// How well a run tells the kernel's time.
Rig::Worth Rig::worth(const TestBed::Circumstances& when) const {
  if (!when.undisturbed) return Worth::Disturbed;
  const double usual = options_.usual.of(units_), before = when.before.of(units_), after = when.after.of(units_);
  // Half the core's and half the memory's: nobody knows what another rate does to it.
  const double memory = mix_.memory / mix_.seconds();
  const bool unsure = memory > kLittle && memory < kMost;
  const auto at_usual = [&](const auto& look) { return is_usual(look.rates.of(units_), usual); };
  const bool same = is_usual(before, usual) && is_usual(after, usual) &&
                    std::all_of(when.looks.begin(), when.looks.end(), [&](const auto& thread) {
                      return std::all_of(thread.begin(), thread.end(), at_usual);
                    });
  const bool steady = watched() || is_usual(before, after);
  return usual <= 0 || same || (steady && !unsure) ? Worth::Sure : Worth::Converted;
}

std::vector<double> Rig::times(Worth least) const {
  std::vector<double> out;
  for (const Sample& s : samples_)
    if (s.worth >= least) out.push_back(s.seconds);
  return out;
}

// Some copies may stay in caches in which others do not: one time of all would be that of the one kind or of the other.
Timing Rig::mean_of_copies() const {
  std::vector<std::vector<double>> by_copy(totals_.size());
  for (const Sample& s : samples_)
    if (s.worth == Worth::Sure) by_copy[s.copy].push_back(s.seconds);
  Timing out = summarise(times(Worth::Sure));
  double sum = 0;
  size_t copies = 0;
  for (auto& samples : by_copy) {
    if (samples.empty()) continue;
    std::sort(samples.begin(), samples.end());
    sum += samples[samples.size() / 2];
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
  const auto too_slow = [&](double factor) {
    const std::vector<double> all = times(Worth::Disturbed);
    return subject_.limit > 0 && *std::min_element(all.begin(), all.end()) > factor * subject_.limit;
  };
  if (too_slow(kColdLimit)) return summarise(times(Worth::Disturbed));
  samples_.clear();
  const auto start = Clock::now();
  const size_t least = subject_.in_plan() ? kLeastRounds * bed_->copies() : kLeastRuns;
  const auto enough = [&](const std::vector<double>& runs) {
    return runs.size() >= least || std::accumulate(runs.begin(), runs.end(), 0.0) >= kLeastSeconds;
  };
  std::vector<double> good;
  size_t next = 0;  // samples, before they are looked at again: sorting them takes longer than a quick kernel
  while (good.size() < options_.most_runs && seconds_since(start) < options_.most_seconds) {
    ISOMER_CHECK_OK(sample());
    if (samples_.size() < next) continue;
    next = samples_.size() + samples_.size() / 8;
    if (too_slow(kWarmLimit)) return summarise(times(Worth::Disturbed));
    good = times(Worth::Sure);
    if (!enough(good)) continue;
    const double timed = std::accumulate(good.begin(), good.end(), 0.0);
    const bool agree = good.size() >= 3 * kLeastRuns && summarise(good).spread < kAgreement;
    if ((agree && timed > options_.seconds / 4) || timed > options_.seconds) break;
  }
  good = times(Worth::Sure);
  if (!bed_->intact()) return failure("the kernel writes outside of its buffers");
  if (enough(good)) return subject_.in_plan() ? mean_of_copies() : summarise(good);
  good = times(Worth::Converted);
  return summarise(enough(good) ? good : times(Worth::Disturbed));
}

uint64_t memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

Expected<Timing> measure_one(const Subject& subject, const MeasureOptions& options) {
  const loop::Function& f = *subject.function;
  uint64_t bytes = 0;
  for (size_t i = 0; i < static_cast<size_t>(f.arguments); ++i) bytes += f.buffers[i].bytes();
  if (bytes > memory_bytes() / 4) return failure(fmt::format("its buffers take {} bytes", bytes));
  return Rig(subject, options).run(subject.code.entry);
}

// Code for those that have none, made together.
Expected<void> complete(std::vector<Subject>& subjects, const loop::Target& target) {
  std::vector<const loop::Function*> functions;
  std::vector<Subject*> open;
  for (Subject& s : subjects)
    if (!s.code.entry) functions.push_back(s.function), open.push_back(&s);
  if (open.empty()) return {};
  ISOMER_TRY(const std::vector<compile::Code> codes, compile::compile_together(functions, target, 0));
  for (size_t i = 0; i < open.size(); ++i) open[i]->code = codes[i];
  return {};
}

// Whether two goes agree: on the least, since one alone may have been lucky; of a kernel in a plan, whose time stands beside
// those of whole runs, on what is in the middle.
bool confirmed(std::vector<Timing> goes, bool in_plan) {
  if (goes.size() < 2) return false;
  std::sort(goes.begin(), goes.end(), by_time);
  const auto agree = [&](size_t i) { return goes[i + 1].seconds <= kConfirmed * goes[i].seconds; };
  const size_t middle = goes.size() / 2;
  return in_plan ? agree(middle - 1) || (goes.size() % 2 == 1 && agree(middle)) : agree(0);
}

// Between the two quickest: a go in a slow moment would make a kernel look slower than the one it is compared with. In a plan
// the one in the middle, as whole runs are timed.
Timing one_of(std::vector<Timing> goes, bool in_plan) {
  std::sort(goes.begin(), goes.end(), by_time);
  const size_t low = in_plan ? (goes.size() - 1) / 2 : 0;
  const size_t high = in_plan ? goes.size() / 2 : std::min<size_t>(1, goes.size() - 1);
  Timing t = goes[low];
  t.seconds = (goes[low].seconds + goes[high].seconds) / 2;
  t.runs = 0;
  for (const Timing& go : goes) t.runs += go.runs;
  return t;
}

}  // namespace

Timing summarise(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) { return samples[static_cast<size_t>(q * static_cast<double>(samples.size() - 1))]; };
  Timing t;
  t.seconds = at(0.5);
  t.spread = t.seconds > 0 ? (at(0.75) - at(0.25)) / t.seconds : 0;
  t.runs = samples.size();
  return t;
}

std::vector<Expected<Timing>> measure(std::vector<Subject> subjects, const MeasureOptions& options) {
  std::vector<Expected<Timing>> out;
  if (const auto made = complete(subjects, options.target); !made.ok()) {
    out.assign(subjects.size(), Expected<Timing>(made.error()));
    return out;
  }
  // Each in several goes with the others between them: what else the machine does comes in bursts.
  MeasureOptions part = options;
  part.seconds /= options.goes;
  part.most_seconds /= options.goes;
  const auto planned = [&](const Subject& s) {
    const bool quick = s.in_plan() && s.expected < kRound && options.goes > 1;
    const size_t more = std::min<size_t>(kMostGoes, kAllGoes / subjects.size());
    return std::max(options.goes, quick ? static_cast<int>(more) : 0);
  };
  std::vector<std::vector<Timing>> goes(subjects.size());
  std::vector<std::optional<Diagnostic>> failed(subjects.size());
  int most = 0;
  for (const Subject& s : subjects) most = std::max(most, planned(s) + (options.goes > 1 ? kDoubtGoes : 0));
  for (int go = 0; go < most; ++go)
    for (size_t i = 0; i < subjects.size(); ++i) {
      const int least = planned(subjects[i]);
      if (failed[i] || go >= least + kDoubtGoes || (go >= least && confirmed(goes[i], subjects[i].in_plan()))) continue;
      Expected<Timing> t = measure_one(subjects[i], part);
      if (t.ok())
        goes[i].push_back(*t);
      else
        failed[i] = t.error();
      if (options.between) options.between();
    }
  for (size_t i = 0; i < subjects.size(); ++i)
    out.push_back(failed[i] ? Expected<Timing>(*failed[i]) : Expected<Timing>(one_of(goes[i], subjects[i].in_plan())));
  return out;
}

}  // namespace isomer::cost
