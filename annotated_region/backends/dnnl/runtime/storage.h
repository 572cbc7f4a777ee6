// Memory for packed weights and intermediate tensors: aligned, and on huge pages where profitable.

namespace annotated_region_dnnl {

// Under AddressSanitizer, tensors in the arena do not share memory and are separated by poisoned gaps.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kGuarded = true;
inline void forbid(const char* data, size_t bytes) { __asan_poison_memory_region(data, bytes); }
inline void allow(const char* data, size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
#else
constexpr bool kGuarded = false;
inline void forbid(const char*, size_t) {}
inline void allow(const char*, size_t) {}
#endif

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector
constexpr size_t kGap = kGuarded ? kAlignment : 0;
constexpr size_t kHugePage = size_t{2} << 20;

inline size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Releases the pages of a part of the library; later reads fetch them from the file again.
inline void give_back(const char* data, size_t bytes) {
  constexpr uintptr_t page = 4096;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// Releases the resident read-only pages of the library that contains `symbol`: constants that were packed, and those
// that TVM's loader has copied. Later reads fetch them from the file again.
inline void give_back_library(const void* symbol) {
  const auto visit = [](dl_phdr_info* library, size_t, void* symbol) {
    const auto address = reinterpret_cast<uintptr_t>(symbol) - library->dlpi_addr;
    const auto* const end = library->dlpi_phdr + library->dlpi_phnum;
    const auto holds = [&](const ElfW(Phdr)& part) {
      return part.p_type == PT_LOAD && address - part.p_vaddr < part.p_memsz;
    };
    if (std::none_of(library->dlpi_phdr, end, holds)) return 0;
    for (const auto* part = library->dlpi_phdr; part != end; ++part) {
      if (part->p_type != PT_LOAD || part->p_flags != PF_R) continue;
      give_back(reinterpret_cast<const char*>(library->dlpi_addr + part->p_vaddr), part->p_memsz);
    }
    return 1;
  };
  dl_iterate_phdr(visit, const_cast<void*>(symbol));
}

class Storage {
 public:
  explicit Storage(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    // With small pages, streaming weights incurs a TLB miss every 4 kB; failure of madvise is harmless. The tail
    // stays on small pages, because it would waste up to 2 MB for each of hundreds of weights.
    const size_t huge = bytes / kHugePage * kHugePage;
    if (posix_memalign(&data_, huge > 0 ? kHugePage : kAlignment, round_up(bytes, kAlignment)) != 0) {
      throw std::bad_alloc();
    }
    if (huge > 0) madvise(data_, huge, MADV_HUGEPAGE);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() { std::free(data_); }

  char* data() const { return static_cast<char*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

}  // namespace annotated_region_dnnl
