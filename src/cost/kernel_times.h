// KernelTimes: what is known of the times of kernels: timed in this process, kept in the store by an earlier one, or by the
// analytic model. Any number of threads may ask at the same time; one of them measures at a time, in one process at a time,
// while the others may make code, or stop where timing takes all cores (Options::quiet).
#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock_seconds.h"
#include "base/quiet.h"
#include "cost/machine.h"
#include "cost/measure.h"
#include "cost/store.h"

namespace isomer::cost {

// A kernel in a plan: all that its time depends on. The key says it too: loops and sizes, which arguments are weights, and
// the numbers by which the runtime decides about threads.
struct Item {
  Subject subject;
  int64_t tasks = 1;
  std::string key;
  size_t signature_size = 0;

  // The end of the key: the loops, which alone decide about the code.
  std::string_view signature() const { return std::string_view(key).substr(key.size() - signature_size); }
};
Item item_of(const loop::Function& function, const std::string& signature, std::vector<Role> roles, double flops,
             double bytes);
// The kernel as a step of a plan: its time is that of its state there.
void put_in_context(Item& item, Context context);

class KernelTimes {
 public:
  struct Options {
    loop::Target target;
    int threads = 1;
    bool measure = true;  // off: what the store does not know is estimated
    std::string store;
    Reach weights = kStandardWeights;  // of the model (pricer.h)
    std::function<void()> between = nullptr;
    Quiet* quiet = nullptr;  // timing takes all cores: nobody else works meanwhile
  };
  explicit KernelTimes(Options options);

  struct Known {
    double estimate = 0;  // by the analytic model
    Mix mix = {};         // of the estimate, on one thread
    double seconds = 0;   // when measured
    bool failed = false;  // cannot be measured
    double tried = 0;     // by try_out
    double best() const { return seconds > 0 ? seconds : estimate; }
  };
  // `look_up`: also in the store.
  Known known(const Item& item, bool look_up);
  // Times those that nobody knows, when measuring is on, as long as there are seconds; how many.
  size_t measure(const std::vector<Item>& items, double seconds = std::numeric_limits<double>::infinity());
  // A second, third, ... timing of each, apart from those before and kept like them: what many first ones made look best may
  // have been lucky. Seconds, 0 where a kernel cannot be measured; nothing where its turn came too late.
  std::optional<std::vector<double>> measure_again(const std::vector<Item>& items, int look);
  // The same in a hurry, to tell what is worth being measured; no price counts these times. Those that are clearly slower
  // than their limit get a rough one.
  void try_out(const std::vector<Item>& items, const std::vector<double>& limits);

  // From this moment on (CLOCK_MONOTONIC) nobody begins to measure, whoever waits for his turn among them. Infinity: never.
  void end_at(double moment) { end_ = moment; }
  bool ended() const { return clock_seconds(CLOCK_MONOTONIC) >= end_; }

  bool measures() const { return options_.measure; }
  const Machine& machine() const { return machine_; }
  Store& store() { return *store_; }
  size_t measured() const { return measured_; }
  const std::shared_ptr<compile::KernelCode>& code() const { return code_; }

 private:
  void find_machine();
  std::string key_of(const Item& item) const;
  size_t time(const std::vector<Item>& items, const std::vector<double>* limits);
  std::vector<const Item*> unknown(const std::vector<Item>& items, bool hurried);
  // The right to measure.
  struct Measuring {
    std::unique_ptr<Quiet::Alone> alone;
    std::unique_lock<std::mutex> lock;  // given up first: who waits to go on working holds nothing
  };
  Measuring turn(const std::vector<const Item*>& items);
  std::vector<Expected<compile::Code>> codes(const std::vector<const Item*>& items, int threads);
  std::vector<Subject> subjects(const std::vector<const Item*>& items);
  MeasureOptions how() const;

  const Options options_;
  Machine machine_;
  std::unique_ptr<Store> store_;
  const std::shared_ptr<compile::KernelCode> code_;
  std::mutex measuring_;      // taken before `mutex_`
  mutable std::mutex mutex_;  // of what follows
  std::unordered_map<std::string, Known> kernels_;
  std::atomic<size_t> measured_ = 0;
  std::atomic<double> end_ = std::numeric_limits<double>::infinity();
};

}  // namespace isomer::cost
