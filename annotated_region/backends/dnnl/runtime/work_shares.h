// Items of a step that threads take one after the other, each from its own share first.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace annotated_region_dnnl {

// A thread takes the items of its share in order, which it reads as one stream, and then what is left of other shares:
// processors are not equally fast, and one may begin late or be preempted.
class WorkShares {
 public:
  static size_t bytes(int64_t shares) { return static_cast<size_t>(shares) * sizeof(Share); }

  // `memory` is of `bytes(shares)` bytes, aligned as a line of the cache is. Up to `at_once` items are taken at once.
  WorkShares(char* memory, int64_t items, int64_t shares, int64_t at_once)
      : shares_(reinterpret_cast<Share*>(memory)), count_(shares), at_once_(at_once) {
    for (int64_t share = 0; share < shares; ++share) {
      new (shares_ + share) Share{{items * share / shares}, items * (share + 1) / shares};
    }
  }

  bool is_empty() const {
    return std::all_of(shares_, shares_ + count_, [](const Share& share) { return share.left() <= 0; });
  }

  // Calls `action` with the first and the end of some adjacent items until all are taken.
  template <typename Action>
  void each(int64_t first_share, Action action) const {
    for (int64_t other = 0; other < count_; ++other) {
      Share& share = shares_[(first_share + other) % count_];
      while (share.left() > 0) {
        const int64_t first = share.next.fetch_add(at_once_, std::memory_order_relaxed);
        if (first < share.end) action(first, std::min(first + at_once_, share.end));
      }
    }
  }

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;

    int64_t left() const { return end - next.load(std::memory_order_relaxed); }
  };

  Share* shares_;
  int64_t count_, at_once_;
};

}  // namespace annotated_region_dnnl
