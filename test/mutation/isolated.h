// Runs numbered trials in child processes, so that one that crashes, hangs or asks for absurd memory is reported by its
// number and the trials after it still run. A trial that returns is a success; what it found is its own business.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>
#include "test/setting.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ISOMER_UNDER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ISOMER_UNDER_ASAN 1
#endif

namespace isomer::testing {

// Shared with the child: where it is, and counters of what it saw.
struct Progress {
  uint64_t trial = 0;
  uint64_t built = 0;
  uint64_t ran = 0;
};

class Isolated {
 public:
  Isolated()
      : progress_(static_cast<Progress*>(
            mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Isolated() { munmap(progress_, sizeof(Progress)); }
  Isolated(const Isolated&) = delete;
  Isolated& operator=(const Isolated&) = delete;

  Progress& progress() { return *progress_; }

  // Runs trials [0, count). `describe` names a trial for the message; `most` bounds the failures reported.
  void run(uint64_t count, const std::function<void(uint64_t)>& trial,
           const std::function<std::string(uint64_t)>& describe, int most = 20) {
    std::vector<std::string> failures;  // reported at the end: a child must not inherit one
    for (uint64_t start = 0; start < count && most > 0; --most) {
      const int status = child(start, count, trial);
      if (status == 0) break;
      start = progress_->trial + 1;
      failures.push_back(fmt::format("trial {}: {}\n{}", progress_->trial, reason(status), describe(progress_->trial)));
    }
    for (const std::string& f : failures) ADD_FAILURE() << f;
  }

 private:
#ifdef ISOMER_UNDER_ASAN
  static constexpr int kSeconds = 8;
#else
  static constexpr int kSeconds = 2;
#endif

  int child(uint64_t start, uint64_t count, const std::function<void(uint64_t)>& trial) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      const rlimit no_core{0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
#ifndef ISOMER_UNDER_ASAN  // the sanitizer reserves address space; it has a limit of its own, set below
      const rlimit memory{rlim_t{3} << 30, rlim_t{3} << 30};
      setrlimit(RLIMIT_AS, &memory);
#endif
      for (uint64_t i = start; i < count; ++i) {
        progress_->trial = i;
        const itimerval limit{{0, 0}, {kSeconds, 0}};  // of the process's own time, so that a busy machine is no hang
        setitimer(ITIMER_PROF, &limit, nullptr);
        trial(i);
        if (::testing::Test::HasFailure()) break;
      }
      std::fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
  }

  static std::string reason(int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) return fmt::format("ran for more than {} s", kSeconds);
    if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
    return fmt::format("exit status {} (1: a failed check or a sanitizer's report, 3: an assertion)",
                       WEXITSTATUS(status));
  }

  Progress* progress_;
};

}  // namespace isomer::testing
