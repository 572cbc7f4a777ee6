// Detects whether other threads compete with the workers for processors.

// All libraries of a process share the objects of this namespace: their symbols are unique in the process, because their
// visibility is not hidden. Increase the number when the layout or the meaning of one changes: a process may load
// libraries that were built by several versions of this runtime.
#define ANNOTATED_REGION_SHARED inline namespace threads_4 __attribute__((visibility("default")))

namespace annotated_region_dnnl {
ANNOTATED_REGION_SHARED {

constexpr int64_t kShortHold = 40'000'000, kLongHold = 320'000'000;  // nanoseconds for which contention is taken to last
constexpr int64_t kWindow = 40'000'000;    // awake time over which a worker adds up what it has lost
constexpr int64_t kMuchLost = 10'000'000;  // of a window: beside a thread of nice 10 a worker loses 4 ms, of its own 20
constexpr int64_t kCheck = 500'000;        // how often it looks

// Whether threads of this process have recently lost processors to others. Contention is assumed to last for a
// hold time, which doubles each time contention recurs soon after.
class Contention {
 public:
  static bool is_on(int64_t now) { return now < only().until.load(kRelaxed); }

  static void note(int64_t now) {
    const int64_t since = now - only().until.load(kRelaxed), held = only().held.load(kRelaxed);
    if (since < 0) return;
    const int64_t hold = since < held ? std::min(2 * held, kLongHold) : kShortHold;
    only().held.store(hold, kRelaxed);
    only().until.store(now + hold, kRelaxed);
  }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  static Contention& only() {
    static Contention contention;
    return contention;
  }

  std::atomic<int64_t> until{0}, held{kShortHold};
};

// The time for which a worker was awake without running, by its own clock: time taken by other threads counts,
// interrupts do not.
class Losses {
 public:
  void wake(int64_t now) { since_ = checked_ = now; }
  void sleep(int64_t now) { awake_ += now - since_; }

  void check(int64_t now) {
    if (now - checked_ < kCheck) return;
    checked_ = now;
    const int64_t awake = awake_ + now - since_, used = used_by_thread();
    const bool is_much = awake - (used - used_before_) > kMuchLost;
    if (is_much) Contention::note(now);
    if (!is_much && awake < kWindow) return;
    awake_ = 0;
    since_ = now;
    used_before_ = used;
  }

 private:
  static int64_t used_by_thread() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  }

  int64_t awake_ = 0, since_ = 0, checked_ = 0, used_before_ = 0;
};

}  // shared
}  // namespace annotated_region_dnnl
