// What a fork leaves to the child: plans in a state to be used, and no threads that died.

namespace annotated_region_dnnl {

// A fork copies the calling thread alone. Two things of the others would stop the child for ever:
//
// 1. Workers are gone in the child, though they are noted there. It forgets them, and starts its own.
// 2. A mutex that another thread holds at that moment is never released in the child. Plans are therefore
//    looked up, made and given back under a gate that many threads may pass at once, and that a fork closes:
//    it waits for plans that are being made, and copies none that is half made. Running a plan needs no gate.
//
// fork() calls the handlers; vfork() and posix_spawn(), which start other programs, do not and need not.
class ForkGate {
 public:
  using Passage = std::shared_lock<std::shared_mutex>;

  // Holds forks off for as long as the result lives.
  static Passage pass() { return Passage(gate()); }

  // Has each fork of this process, from now on, go through the gate.
  static void watch() {
    static const int registered = pthread_atfork(before, in_parent, in_child);
    (void)registered;
  }

 private:
  // Never destroyed: a process may fork while it ends.
  static std::shared_mutex& gate() {
    static std::shared_mutex& only = *new std::shared_mutex;
    return only;
  }

  static void before() { gate().lock(); }
  static void in_parent() { gate().unlock(); }
  // The child has another thread id than the owner of the lock, so it cannot unlock; no other thread holds it.
  static void in_child() {
    new (&gate()) std::shared_mutex;
    Workers::all().forget();
    Call::forget();
  }
};

}  // namespace annotated_region_dnnl
