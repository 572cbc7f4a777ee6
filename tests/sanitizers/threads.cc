// Callers, sections, barriers and sections inside of sections on the workers of the dnnl runtime, for ThreadSanitizer.
//
//     make sanitize-threads
//
// oneDNN is not instrumented, so only the headers that share work take part. Shares write numbers that are no atomics;
// the caller, and behind a barrier the other shares, read them. Each answer is checked, too.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "processors.h"
#include "contention.h"
#include "workers.h"
#include "openmp.h"

namespace {

constexpr int kCallers = 6, kShares = 4;

struct Work {
  int round;
  std::array<int, kShares> written{}, read{};
};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::abort();
}

void write(void* data) {
  Work& work = *static_cast<Work*>(data);
  work.written[omp_get_thread_num()] = work.round;
}

// What a share wrote is read by the next one.
void write_and_meet(void* data) {
  Work& work = *static_cast<Work*>(data);
  const int share = omp_get_thread_num();
  work.written[share] = work.round;
  GOMP_barrier();
  work.read[share] = work.written[(share + 1) % kShares];
  GOMP_barrier();
}

// A section inside of a section is one share.
void nest(void* data) {
  Work inner{omp_get_thread_num() + 1};
  GOMP_parallel(write, &inner, 0, 0);
  static_cast<Work*>(data)->written[inner.round - 1] = inner.written[0];
}

void expect(const std::array<int, kShares>& found, int round, const char* what) {
  require(std::all_of(found.begin(), found.end(), [&](int each) { return each == round; }), what);
}

void call(int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    const annotated_region_dnnl::Call region;
    Work work{round};
    GOMP_parallel(write, &work, kShares, 0);
    expect(work.written, round, "a share was left out");
    Work met{round};
    GOMP_parallel(write_and_meet, &met, kShares, 0);
    expect(met.read, round, "a share did not see what was written before the barrier");
    Work old{round};
    GOMP_parallel_start(write, &old, kShares);
    write(&old);
    GOMP_parallel_end();
    expect(old.written, round, "a share of a section in the old form was left out");
    Work nested{round};
    GOMP_parallel(nest, &nested, kShares, 0);
    for (int share = 0; share < kShares; ++share) require(nested.written[share] == share + 1, "an inner section");
    if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));  // workers fall asleep
  }
}

}  // namespace

int main(int, char** arguments) {
  const int rounds = std::atoi(arguments[1]);
  call(rounds);
  std::vector<std::thread> callers;
  for (int index = 0; index < kCallers; ++index) callers.emplace_back(call, rounds);
  for (std::thread& caller : callers) caller.join();
  std::printf("%d callers, %d rounds each: no report\n", kCallers + 1, rounds);
}
