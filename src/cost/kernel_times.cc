#include "cost/kernel_times.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "base/clock_seconds.h"
#include "cost/roofline.h"
#include "cost/test_bed.h"
#include "cost/work.h"

namespace isomer::cost {
namespace {

// All cores have to be undisturbed at the same time, which comes in phases of seconds: twice as many goes.
constexpr int kMoreGoes = 2;

const std::string kTried = "tried ";  // before the key of a rough time
// And of a later one.
std::string again(int look, const std::string& key) { return fmt::format("again {} {}", look, key); }

// Processes that share a store take turns in measuring, so that they do not time each other.
class Turn {
 public:
  explicit Turn(const Store& store) {
    if (store.in_memory()) return;
    file_ = open((store.path() + ".turn").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~Turn() {
    if (file_ >= 0) close(file_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace

Item item_of(const loop::Function& function, const std::string& signature, std::vector<Role> roles, double flops,
             double bytes) {
  Item item{{&function, std::move(roles), flops, bytes}, function.tasks(), {}, signature.size()};
  for (const Role r : item.subject.roles) item.key += r == Role::Weight ? 'w' : 'v';
  for (const double v : {flops, bytes}) {
    const auto bits = std::bit_cast<uint64_t>(v);
    for (int i = 0; i < 8; ++i) item.key += static_cast<char>(bits >> (8 * i));
  }
  item.key += signature;
  return item;
}

void put_in_context(Item& item, Context context) {
  std::string state = context.turned ? "turned " : "at ";
  for (size_t i = 0; i < context.reaches.size(); ++i)
    state += context.same[i] < i ? fmt::format("={}", context.same[i]) : text(context.reaches[i]);
  state += fmt::format(",{}", std::bit_width(context.round));
  item.key = state + ' ' + item.key;
  item.subject.context = std::move(context);
}

KernelTimes::KernelTimes(Options options)
    : options_(std::move(options)),
      store_(Store::open(options_.store, setting_text(options_.target, options_.threads))),
      code_(std::make_shared<compile::KernelCode>(options_.target)) {
  find_machine();
}

// The peaks that the analytic model uses, as the store has them: the same for every process.
void KernelTimes::find_machine() {
  machine_ = nominal_machine(options_.target);
  const std::pair<const char*, double*> facts[] = {
      {"flops", &machine_.flops},
      {"tile_rate", &machine_.tile_rate},
      {"usual_vectors", &machine_.usual.vectors},
      {"usual_tiles", &machine_.usual.tiles},
      {"instructions", &machine_.instructions},
      {"l2_bandwidth", &machine_.l2_bandwidth},
      {"pool_bandwidth", &machine_.pool_bandwidth},
      {"far_bandwidth", &machine_.far_bandwidth},
      {"step_seconds", &machine_.step_seconds},
      {"region_seconds", &machine_.region_seconds},
  };
  bool all = true;
  Machine stored = machine_;
  for (const auto& [name, value] : facts) {
    const auto v = store_->fact(name);
    all &= v && *v >= 0;
    if (v) *value = *v;
  }
  if (all) return;
  machine_ = stored;
  if (!options_.measure) return;
  machine_ = measure_machine(options_.target, options_.threads);
  for (const auto& [name, value] : facts) store_->set_fact(name, *value);
}

// What is known of a kernel; `look_up`: also in the store.
KernelTimes::Known KernelTimes::known(const Item& item, bool look_up) {
  constexpr size_t kMostKernels = 1 << 16;
  const std::string key = key_of(item);
  Known k;
  bool fresh = true;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = kernels_.find(key); it != kernels_.end()) {
      k = it->second;
      fresh = false;
    }
  }
  if (fresh) {
    Load load{work_of(*item.subject.function, options_.target), 0, options_.weights.kind == Reach::Kind::Far,
              item.tasks, options_.threads};
    for (size_t i = 0; i < load.work.of_argument.size(); ++i)
      if (item.subject.roles[i] == Role::Weight) load.weight_bytes += load.work.of_argument[i];
    k.estimate = estimated_seconds(load, machine_, options_.target);
    k.mix = mix_of(load, machine_, options_.target);
  }
  if (look_up && k.seconds == 0 && !k.failed)
    if (const auto timing = store_->find(key)) {
      k.seconds = timing->seconds;
      fresh = true;
    }
  if (!fresh) return k;
  const std::lock_guard lock(mutex_);
  if (kernels_.size() >= kMostKernels) kernels_.clear();
  kernels_[key] = k;
  return k;
}

std::string KernelTimes::key_of(const Item& item) const {
  if (item.subject.in_plan()) return item.key;
  uint64_t weights = 0;
  for (size_t i = 0; i < item.subject.roles.size(); ++i)
    if (item.subject.roles[i] == Role::Weight) weights += item.subject.function->buffers[i].bytes();
  if (weights == 0) return item.key;
  if (options_.weights.kind == Reach::Kind::Far) return "far " + item.key;
  // Of few weights as many copies are made as there may be, whatever the pool.
  const bool all = weights * TestBed::kMostCopies <= options_.weights.bytes;
  return all || options_.weights == kStandardWeights ? item.key : text(options_.weights) + ' ' + item.key;
}

size_t KernelTimes::measure(const std::vector<Item>& items, double seconds) {
  if (std::isinf(seconds)) return time(items, nullptr);
  constexpr size_t kTogether = 8;
  const auto now = [] { return clock_seconds(CLOCK_MONOTONIC); };
  const double end = now() + seconds;
  double each = 0;  // of the last ones
  size_t measured = 0;
  for (size_t i = 0; i < items.size() && now() + each < end;) {
    const double room = each > 0 ? std::min((end - now()) / each, 1.0 * kTogether) : kTogether;
    const size_t count = std::min(static_cast<size_t>(std::max(room, 1.0)), items.size() - i);
    const auto first = items.begin() + static_cast<ptrdiff_t>(i);
    const double begin = now();
    const size_t some = time({first, first + static_cast<ptrdiff_t>(count)}, nullptr);
    if (some > 0) each = (now() - begin) / static_cast<double>(some);
    measured += some;
    i += count;
  }
  return measured;
}

void KernelTimes::try_out(const std::vector<Item>& items, const std::vector<double>& limits) { time(items, &limits); }

MeasureOptions KernelTimes::how() const {
  MeasureOptions how;
  how.target = options_.target;
  how.threads = options_.threads;
  if (how.threads > 1) {
    how.goes *= kMoreGoes;
    how.seconds *= kMoreGoes;
    how.most_seconds *= kMoreGoes;
  }
  how.usual = machine_.usual;
  how.weights = options_.weights;
  how.between = options_.between;
  how.traffic = static_cast<uint64_t>(options_.target.l2_bytes) / 2;
  return how;
}

// The turn to measure, when there is code for all that is to be timed: made while others time, on one core, or on all of
// them when nobody does.
KernelTimes::Measuring KernelTimes::turn(const std::vector<const Item*>& items) {
  Measuring turn;
  if (options_.quiet) {
    codes(items, 0);
    turn.alone = std::make_unique<Quiet::Alone>(*options_.quiet);
    turn.lock = std::unique_lock(measuring_);
    return turn;
  }
  turn.lock = std::unique_lock(measuring_, std::try_to_lock);
  codes(items, turn.lock.owns_lock() ? 0 : 1);
  if (!turn.lock.owns_lock()) turn.lock.lock();
  return turn;
}

std::vector<Expected<compile::Code>> KernelTimes::codes(const std::vector<const Item*>& items, int threads) {
  std::vector<compile::KernelCode::Wanted> wanted;
  for (const Item* item : items) wanted.push_back({item->subject.function, item->signature()});
  return code_->of(wanted, threads);
}

std::vector<Subject> KernelTimes::subjects(const std::vector<const Item*>& items) {
  const std::vector<Expected<compile::Code>> code = codes(items, 0);
  std::vector<Subject> out;
  for (size_t n = 0; n < items.size(); ++n) {
    out.push_back(items[n]->subject);
    const Known k = known(*items[n], false);
    out.back().expected = k.estimate;
    out.back().mix = k.mix;
    if (code[n].ok()) out.back().code = *code[n];
  }
  return out;
}

std::optional<std::vector<double>> KernelTimes::measure_again(const std::vector<Item>& items, int look) {
  std::map<std::string, double> seconds;  // by key
  const auto unknown = [&] {
    std::vector<const Item*> open;
    seconds.clear();
    for (const Item& item : items) {
      const std::string key = again(look, key_of(item));
      if (seconds.count(key) > 0) continue;
      const auto known = store_->find(key);
      seconds[key] = known ? known->seconds : 0;
      if (!known) open.push_back(&item);
    }
    return open;
  };
  if (std::vector<const Item*> open = unknown(); !open.empty() && options_.measure) {
    const auto turn_of_thread = turn(open);
    const Turn turn_of_process(*store_);
    open = unknown();  // others may have measured them while we waited
    if (!open.empty() && ended()) return std::nullopt;
    const std::vector<Expected<Timing>> times = cost::measure(subjects(open), how());
    for (size_t n = 0; n < open.size(); ++n) {
      if (!times[n].ok() || times[n]->seconds <= 0) continue;
      const std::string key = again(look, key_of(*open[n]));
      seconds[key] = times[n]->seconds;
      store_->add(key, *times[n]);
      ++measured_;
    }
  }
  std::vector<double> out;
  for (const Item& item : items) out.push_back(seconds.at(again(look, key_of(item))));
  return out;
}

// Those that nobody knows, once each.
std::vector<const Item*> KernelTimes::unknown(const std::vector<Item>& items, bool hurried) {
  std::vector<const Item*> open;
  std::set<std::string_view> seen;
  for (const Item& item : items) {
    Known k = known(item, true);
    if (hurried && k.seconds == 0 && k.tried == 0)
      if (const auto timing = store_->find(kTried + key_of(item))) {
        k.tried = timing->seconds;
        const std::lock_guard lock(mutex_);
        kernels_[key_of(item)] = k;
      }
    if (k.seconds == 0 && !k.failed && !(hurried && k.tried > 0) && seen.insert(item.key).second) open.push_back(&item);
  }
  return open;
}

// Times the kernels that nobody knows; how many.
size_t KernelTimes::time(const std::vector<Item>& items, const std::vector<double>* limits) {
  const bool hurried = limits != nullptr;
  if (!options_.measure) return 0;
  std::vector<const Item*> open = unknown(items, hurried);
  if (open.empty()) return 0;
  const auto turn_of_thread = turn(open);
  const Turn turn_of_process(*store_);
  open = unknown(items, hurried);  // others may have measured them while we waited
  if (open.empty() || ended()) return 0;
  MeasureOptions how = this->how();
  if (hurried) {
    how.seconds /= how.goes;
    how.most_seconds /= how.goes;
    how.goes = 1;
  }
  std::vector<Subject> subjects = this->subjects(open);
  for (size_t n = 0; limits && n < open.size(); ++n)
    subjects[n].limit = (*limits)[static_cast<size_t>(open[n] - items.data())];
  const std::vector<Expected<Timing>> times = cost::measure(std::move(subjects), how);
  size_t measured = 0;
  for (size_t n = 0; n < open.size(); ++n) {
    Known k = known(*open[n], false);
    k.failed = !times[n].ok() || (times[n]->seconds <= 0 && !hurried);
    if (!k.failed && hurried && times[n]->seconds > 0) {
      k.tried = times[n]->seconds;
      store_->add(kTried + key_of(*open[n]), *times[n]);
    }
    if (!k.failed && !hurried) {
      k.seconds = times[n]->seconds;
      store_->add(key_of(*open[n]), *times[n]);
      ++measured;
    }
    const std::lock_guard lock(mutex_);
    kernels_[key_of(*open[n])] = k;
  }
  measured_ += measured;
  return measured;
}

}  // namespace isomer::cost
