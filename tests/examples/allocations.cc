// Counts the calls of the allocator, by the library that calls. To be loaded before all others (LD_PRELOAD).
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {
constexpr int kMost = 1 << 16;
void* callers[kMost];
std::atomic<int> count{0};
std::atomic<bool> counting{false};

void note(void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  int place = count.fetch_add(1);
  if (place < kMost) callers[place] = caller;
}
}  // namespace

// It has to stand in the function that is called.
#define CALLER __builtin_return_address(0)

extern "C" {
void* malloc(size_t size) {
  note(CALLER);
  return __libc_malloc(size);
}
void* calloc(size_t number, size_t size) {
  note(CALLER);
  return __libc_calloc(number, size);
}
void* realloc(void* memory, size_t size) {
  note(CALLER);
  return __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) {
  note(CALLER);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  note(CALLER);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  note(CALLER);
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : 12;  // ENOMEM
}

void begin_to_count() {
  count = 0;
  counting = true;
}
int end_to_count() {
  counting = false;
  return count;
}
// The path of the library that made a call; empty if it is not known.
const char* caller_of(int call) {
  Dl_info info;
  return dladdr(callers[call], &info) && info.dli_fname ? info.dli_fname : "";
}
}

// Without these, the caller would be the C++ library.
void* operator new(size_t size) {
  note(CALLER);
  return __libc_malloc(size);
}
void* operator new[](size_t size) {
  note(CALLER);
  return __libc_malloc(size);
}
void* operator new(size_t size, std::align_val_t alignment) {
  note(CALLER);
  return __libc_memalign(static_cast<size_t>(alignment), size);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
