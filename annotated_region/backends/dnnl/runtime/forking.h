// Keeps the runtime usable in forked children: plans are complete, and workers are started anew.

namespace annotated_region_dnnl {
ANNOTATED_REGION_SHARED {

// A fork copies only the calling thread. State of the other threads would deadlock the child in two ways:
//
// 1. The workers do not exist in the child, but its copy of the data still lists them. The child discards the
//    list and starts its own workers.
// 2. A mutex that another thread holds during the fork is never released in the child. Plans are therefore
//    looked up, built and returned under a shared lock that fork() takes exclusively: it waits for plans under
//    construction, so no half-built plan is copied. Running a plan does not need the lock.
//
// fork() calls the handlers; vfork() and posix_spawn(), which start other programs, do not and need not.
class ForkGate {
 public:
  using Passage = std::shared_lock<std::shared_mutex>;

  // Delays forks during the lifetime of the result.
  static Passage pass() { return Passage(gate()); }

  // Installs the fork handlers of this process.
  static void watch() {
    static const int registered = pthread_atfork(before, in_parent, in_child);
    (void)registered;
  }

 private:
  // Never destroyed: a process may fork during its exit.
  static std::shared_mutex& gate() {
    static std::shared_mutex& only = *new std::shared_mutex;
    return only;
  }

  static void before() { gate().lock(); }
  static void in_parent() { gate().unlock(); }
  // The thread id in the child differs from the owner of the lock, so it cannot unlock. The lock is constructed
  // anew, which is safe because no other thread exists.
  static void in_child() {
    new (&gate()) std::shared_mutex;
    Workers::all().forget();
    Call::forget();
  }
};

}  // shared
}  // namespace annotated_region_dnnl
