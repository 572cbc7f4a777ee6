// Worker threads for parallel sections: a worker that arrives in time takes shares; a late one is not waited for.

namespace annotated_region_dnnl {

ANNOTATED_REGION_SHARED {

// An idle worker spins for a while, because waking a sleeping thread takes microseconds. Under contention, spinning
// would take processors from working threads, so it then sleeps almost immediately.
constexpr int64_t kSpin = 1'000'000;     // nanoseconds for which a worker looks for the next section
constexpr int64_t kShortSpin = 3'000;    // the same while processors are contended for
constexpr int64_t kWorthWaking = 20'000;  // a section that takes less is done before a worker is awake
constexpr int64_t kPatience = 20'000;  // how long a caller waits before it asks whether the worker runs at all
constexpr int64_t kStandstill = 500;  // a thread that used less in that time does not run

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Sleeps until woken, if `word` is 1.
inline void sleep_on(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0); }
// Wakes the threads that sleep on `word`, if any may exist.
inline void wake(std::atomic<uint32_t>& word) {
  if (word.load() != 0 && word.exchange(0) != 0) syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Work split into shares, each of which any thread may take once. The caller begins with the first.
struct Section {
  void (*body)(void*);
  void* data;
  int shares;
  std::atomic<int> next{1};
  std::atomic<int> arrived{0};  // at the barrier
  std::atomic<int> barriers{0};
  size_t asked = 0;  // none of the workers from this one on was asked
  std::vector<std::thread> more{};

  // Runs share `first`, then unclaimed shares until none remain.
  void run(int first);
  // Starts a thread for each unclaimed share.
  void call_more();
};

// The section and the share that the current thread runs.
struct Post {
  Section* section = nullptr;
  int share = 0;

  static Post& mine() {
    thread_local Post post;
    return post;
  }
};

inline void Section::run(int first) {
  Post& post = Post::mine();
  const Post before = post;
  for (int share = first; share < shares; share = next.fetch_add(1)) {
    post = {this, share};
    body(data);
  }
  post = before;
}

inline void Section::call_more() {
  for (int share = next.fetch_add(1); share < shares; share = next.fetch_add(1)) {
    more.emplace_back([this, share] {
      Post::mine() = {this, share};
      body(data);
    });
  }
}

// A worker thread. It serves one caller at a time; when it is done, only the caller accesses the section again.
class Worker {
 public:
  Worker() {
    std::thread thread([this] { loop(); });
    pthread_getcpuclockid(thread.native_handle(), &clock_);
    thread.detach();  // it lives as long as the process
  }

  // Offers a section to the worker; false if it is not idle.
  bool ask(Section& section, bool is_worth_waking) {
    uintptr_t idle = 0;
    if (state_.load(std::memory_order_relaxed) != 0 || (asleep_.load() != 0 && !is_worth_waking)) return false;
    caller_.store(sched_getcpu(), std::memory_order_relaxed);
    if (!state_.compare_exchange_strong(idle, address(section))) return false;
    wake(asleep_);
    return true;
  }

  // Wakes the worker, so that it spins for the next section.
  void rouse() { wake(asleep_); }

  // Withdraws the section if the worker has not begun it; otherwise waits until the worker is done.
  void take_back(Section& section) {
    uintptr_t state = address(section);
    if (!state_.compare_exchange_strong(state, 0) && state == begun(section)) wait_for(section);
  }

 private:
  static uintptr_t address(const Section& section) { return reinterpret_cast<uintptr_t>(&section); }
  static uintptr_t begun(const Section& section) { return address(section) | 1; }

  void loop() {
    thread_.store(static_cast<pid_t>(syscall(SYS_gettid)));
    losses_.wake(nanoseconds());
    while (true) {
      uintptr_t state = next_section();
      step_aside();
      if (!state_.compare_exchange_strong(state, state | 1)) continue;  // it was taken back
      Section& section = *reinterpret_cast<Section*>(state);
      section.run(section.next.fetch_add(1));
      losses_.check(nanoseconds());
      state_.store(0);
      wake(waiting_);
      go_home();
    }
  }

  // Spins, then sleeps, until a section is offered.
  uintptr_t next_section() {
    for (int64_t began = nanoseconds(), now = began;;) {
      for (int spin = 0; spin < 16; ++spin, pause()) {
        if (const uintptr_t state = state_.load()) return state;
      }
      step_aside();
      losses_.check(now = nanoseconds());
      if (now - began < (Contention::is_on(now) ? kShortSpin : kSpin)) continue;
      losses_.sleep(now);
      asleep_.store(1);
      if (state_.load() == 0) sleep_on(asleep_);
      asleep_.store(0);
      losses_.wake(began = now = nanoseconds());
    }
  }

  // Leaves the processor of the caller, where the worker would compete with it instead of helping.
  void step_aside() {
    const int here = sched_getcpu();
    cpu_set_t home;
    if (here != caller_.load(std::memory_order_relaxed) || sched_getaffinity(0, sizeof home, &home) != 0) return;
    cpu_set_t others = home;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof home, &home);
  }

  // Spins while the worker runs. If the worker was preempted, moves it to the caller's processor and sleeps.
  void wait_for(const Section& section) {
    int64_t began = nanoseconds(), used = -1;
    while (true) {
      for (int spin = 0; spin < 64; ++spin, pause()) {
        if (state_.load() != begun(section)) return;
      }
      const int64_t now = nanoseconds();
      if (now - began < kPatience) continue;
      const int64_t used_before = used;
      began = now;
      used = processor_time();
      if (used_before < 0 || used - used_before > kStandstill) continue;
      call_here(section);
      waiting_.store(1);
      if (state_.load() == begun(section)) sleep_on(waiting_);
      used = -1;
    }
  }

  // Moves the worker to the caller's processor until it is done. The worker releases `state_`, then reads `move_`; the
  // caller writes `move_`, then reads `state_` (a store-load handshake, sequentially consistent). At least one of them
  // sees the other's write, so a worker that finishes concurrently is never left pinned there.
  void call_here(const Section& section) {
    if (move_.load() != kHome) return;
    const pid_t thread = thread_.load();
    move_.store(kMoving);
    const bool is_running = state_.load() == begun(section) && sched_getaffinity(thread, sizeof home_, &home_) == 0;
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    move_.store(is_running && sched_setaffinity(thread, sizeof here, &here) == 0 ? kMoved : kHome);
  }

  // Restores the original affinity.
  void go_home() {
    while (move_.load() == kMoving) sched_yield();
    if (move_.load() != kMoved) return;
    sched_setaffinity(0, sizeof home_, &home_);
    move_.store(kHome);
  }

  int64_t processor_time() const {
    timespec time{};
    clock_gettime(clock_, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  }

  alignas(64) std::atomic<uintptr_t> state_{0};  // a section's address; odd once the worker has begun
  alignas(64) std::atomic<uint32_t> asleep_{0};
  std::atomic<uint32_t> waiting_{0};
  enum Move { kHome, kMoving, kMoved };
  std::atomic<Move> move_{kHome};
  std::atomic<pid_t> thread_{0};
  std::atomic<int> caller_{-1};  // the processor that the last caller was on
  Losses losses_;
  cpu_set_t home_{};
  clockid_t clock_{};
};

// The workers of the process, shared by all modules and callers: one fewer than shares, for any number of callers.
class Workers {
 public:
  static Workers& all() {
    static Workers& only = *new Workers;  // never destroyed: the threads outlive everything
    return only;
  }

  // Offers a section to at most `most` idle workers; sleeping ones are woken only if that is worthwhile.
  void ask(Section& section, int most, bool is_worth_waking) {
    const std::vector<std::unique_ptr<Worker>>& workers = started();
    int asked = 0;
    for (size_t index = 0; index < workers.size() && asked < most; ++index) {
      if (!workers[index]->ask(section, is_worth_waking)) continue;
      ++asked;
      section.asked = index + 1;
    }
  }

  // Waits for the workers that have begun; then only the caller accesses the section. A worker that is done may
  // already serve another caller, so the list of workers asked is kept in the section, not in the workers.
  void take_back(Section& section) {
    for (size_t index = 0; index < section.asked; ++index) workers_[index]->take_back(section);
  }

  // Wakes sleeping workers before sections follow; does nothing under contention.
  void rouse() {
    if (Contention::is_on(nanoseconds())) return;
    for (const std::unique_ptr<Worker>& worker : started()) worker->rouse();
  }

  // Resets the list in a forked child, where no worker exists; the next section starts new ones.
  void forget() { new (this) Workers; }

 private:
  const std::vector<std::unique_ptr<Worker>>& started() {
    std::call_once(start_, [this] {
      try {
        for (int index = 1; index < shares(); ++index) workers_.push_back(std::make_unique<Worker>());
      } catch (const std::system_error&) {  // the process may start no more threads: the callers work alone
      }
    });
    return workers_;
  }

  std::once_flag start_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // shared
}  // namespace annotated_region_dnnl
