// Memory planning for intermediate tensors: buffers, which of them share memory, and their offsets in one arena.

namespace annotated_region_dnnl {

enum class Home { arena, constant, input, output, extents };  // extents: those of the call

struct Place {
  int buffer = -1;
  size_t offset = 0;
};

struct Buffer {
  Home home = Home::arena;
  size_t bytes = 0;
  int index = -1;                    // of the input, the output or the constant
  char* data = nullptr;              // of a constant
  std::shared_ptr<Storage> storage;  // keeps a packed constant alive
  int parent = -1;                   // a part of another buffer, from byte `shift` on
  size_t shift = 0;
  int first = INT_MAX;  // the steps between which the content matters
  int last = -1;
  size_t offset = 0;  // in the arena
};

// Allocates separate memory for a buffer immediately, for values computed at plan time.
inline void allocate(Buffer& buffer) {
  buffer.home = Home::constant;
  buffer.storage = std::make_shared<Storage>(buffer.bytes);
  buffer.data = buffer.storage->data();
}

// Buffers form a forest: the parts of a concatenation are children of its buffer. Only roots get memory.
class Buffers {
 public:
  int add(Buffer buffer) {
    list_.push_back(std::move(buffer));
    return static_cast<int>(list_.size()) - 1;
  }

  Buffer& operator[](int index) { return list_[index]; }
  const Buffer& operator[](int index) const { return list_[index]; }

  Place resolve(Place place) const {
    while (list_[place.buffer].parent >= 0) {
      place.offset += list_[place.buffer].shift;
      place.buffer = list_[place.buffer].parent;
    }
    return place;
  }

  const Buffer& root(const Place& place) const { return list_[resolve(place).buffer]; }

  void touch(const Place& place, int step) {
    Buffer& buffer = list_[resolve(place).buffer];
    buffer.first = std::min(buffer.first, step);
    buffer.last = std::max(buffer.last, step);
  }

  // First fit by decreasing size; buffers with overlapping live ranges never share memory. Quadratic in the
  // number of buffers. Returns the size of the arena in bytes.
  size_t pack() {
    std::vector<int> order;
    for (int index = 0; index < static_cast<int>(list_.size()); ++index) {
      if (is_placed(list_[index])) order.push_back(index);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return list_[a].bytes > list_[b].bytes; });
    size_t total = 0;
    std::vector<int> placed;  // sorted by offset
    for (int index : order) {
      Buffer& buffer = list_[index];
      buffer.offset = first_gap(buffer, placed);
      total = std::max(total, buffer.offset + round_up(buffer.bytes + kGap, kAlignment));
      const auto after = std::upper_bound(placed.begin(), placed.end(), buffer.offset, [&](size_t offset, int other) {
        return offset < list_[other].offset;
      });
      placed.insert(after, index);
    }
    return total;
  }

  // Poisons the bytes of an arena that belong to no buffer.
  void guard(const char* arena, size_t bytes) const {
    forbid(arena, bytes);
    for (const Buffer& buffer : list_) {
      if (is_placed(buffer)) allow(arena + buffer.offset, buffer.bytes);
    }
  }

 private:
  static bool is_placed(const Buffer& buffer) {
    return buffer.home == Home::arena && buffer.parent < 0 && buffer.last >= 0;
  }

  size_t first_gap(const Buffer& buffer, const std::vector<int>& placed) const {
    size_t candidate = 0;
    for (int index : placed) {
      const Buffer& other = list_[index];
      const bool is_apart = other.last < buffer.first || buffer.last < other.first;
      if (is_apart && !kGuarded) continue;
      if (candidate + buffer.bytes + kGap <= other.offset) break;
      candidate = std::max(candidate, round_up(other.offset + other.bytes + kGap, kAlignment));
    }
    return candidate;
  }

  std::vector<Buffer> list_;
};

}  // namespace annotated_region_dnnl
