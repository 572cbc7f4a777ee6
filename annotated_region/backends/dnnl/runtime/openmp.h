// The OpenMP entry points that parallel loops here and in oneDNN call, implemented on our own workers.

// At the end of each parallel loop, GNU OpenMP waits until every thread of its team has finished its share. A thread
// that was preempted by another process delays the loop by a time slice, a hundred times per run, and the spinning
// threads take processors from the working ones. Here the caller runs the shares that no worker has begun. The spin
// time of GNU OpenMP cannot be tuned instead: it is fixed at load time by environment variables that other libraries
// read too.
//
// The compiler lowers a parallel loop to calls of a few functions. In this module the calls bind to the functions
// below, which have hidden visibility, so that nothing outside of the module binds to them. oneDNN is already linked
// with GNU OpenMP; its entries in the global offset table are redirected (`bind_onednn`).

namespace annotated_region_dnnl {

// A section in the older ABI: one call begins it and another ends it; the caller runs the first share in between.
struct OpenSection {
  Section section;
  Post before;
  std::unique_ptr<OpenSection> outer;

  static std::unique_ptr<OpenSection>& innermost() {
    thread_local std::unique_ptr<OpenSection> open;
    return open;
  }
};

ANNOTATED_REGION_SHARED {

// The time in nanoseconds that the calling thread needs alone for the next section; zero to run without help. See
// `Pace`.
inline int64_t& help_is_worth() {
  thread_local int64_t worth = std::numeric_limits<int64_t>::max();
  return worth;
}

// The number of workers that may help the calling thread.
inline int& helpers() {
  thread_local int most = 0;
  return most;
}

// The scope of a call of a region. Workers help only on processors that no caller occupies.
class Call {
 public:
  Call() {
    const int others = active().fetch_add(1);
    helpers() = std::max(0, std::min(shares(), processors() - others) - 1);
    help_is_worth() = std::numeric_limits<int64_t>::max();
  }
  ~Call() { active().fetch_sub(1); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Resets the count in a forked child, where no other call is running.
  static void forget() { active().store(0); }

 private:
  static std::atomic<int>& active() {
    static std::atomic<int> count{0};
    return count;
  }
};

}  // shared

// Sections do not nest: a nested loop runs as a single share.
inline int shares_of(unsigned wanted) {
  if (Post::mine().section != nullptr) return 1;
  return wanted > 0 ? static_cast<int>(wanted) : shares();
}

inline void begin(Section& section) {
  const int most = help_is_worth() > 0 ? std::min(helpers(), section.shares - 1) : 0;
  if (most > 0) Workers::all().ask(section, most, help_is_worth() > kWorthWaking);
}

// Runs the shares that no worker has begun, then waits for the others.
inline void end(Section& section) {
  section.run(section.next.fetch_add(1));
  Workers::all().take_back(section);
  for (std::thread& thread : section.more) thread.join();
}

// A barrier needs a thread for every share. Shares that no worker has begun after a while get new threads.
inline void meet(Section& section, int share) {
  constexpr int64_t kLate = 100'000;
  const int passed = section.barriers.load();
  if (section.arrived.fetch_add(1) + 1 == section.shares) {
    section.arrived.store(0);
    section.barriers.store(passed + 1);
    return;
  }
  if (share == 0 && section.asked == 0) Workers::all().ask(section, section.shares - 1, true);
  for (const int64_t began = nanoseconds(); section.barriers.load() == passed;) {
    for (int spin = 0; spin < 64 && section.barriers.load() == passed; ++spin) pause();
    if (nanoseconds() - began < kLate) continue;
    if (share == 0) section.call_more();
    sched_yield();
  }
}

// The iterations of a statically scheduled loop that belong to one share.
struct StaticLoop {
  long start, step, count, block, next;

  static StaticLoop& mine() {
    thread_local StaticLoop loop;
    return loop;
  }

  bool take(long* first, long* last) {
    const Post post = Post::mine();
    const int shares = post.section == nullptr ? 1 : post.section->shares;
    const long begin = (post.share + next++ * shares) * block;
    if (begin >= count) return false;
    *first = start + begin * step;
    *last = start + std::min(begin + block, count) * step;
    return true;
  }
};

}  // namespace annotated_region_dnnl

#define ANNOTATED_REGION_HIDDEN __attribute__((weak, visibility("hidden")))

extern "C" {

ANNOTATED_REGION_HIDDEN void GOMP_parallel(void (*body)(void*), void* data, unsigned count, unsigned) {
  using namespace annotated_region_dnnl;
  Section section{body, data, shares_of(count)};
  Post& post = Post::mine();
  const Post before = post;
  begin(section);
  post = {&section, 0};
  body(data);
  post = before;
  end(section);
}

ANNOTATED_REGION_HIDDEN void GOMP_parallel_start(void (*body)(void*), void* data, unsigned count) {
  using namespace annotated_region_dnnl;
  std::unique_ptr<OpenSection>& innermost = OpenSection::innermost();
  Post& post = Post::mine();
  innermost.reset(new OpenSection{{body, data, shares_of(count)}, post, std::move(innermost)});
  begin(innermost->section);
  post = {&innermost->section, 0};
}

ANNOTATED_REGION_HIDDEN void GOMP_parallel_end() {
  using namespace annotated_region_dnnl;
  const std::unique_ptr<OpenSection> ended = std::move(OpenSection::innermost());
  OpenSection::innermost() = std::move(ended->outer);
  Post::mine() = ended->before;
  end(ended->section);
}

ANNOTATED_REGION_HIDDEN void GOMP_barrier() {
  const annotated_region_dnnl::Post post = annotated_region_dnnl::Post::mine();
  if (post.section != nullptr && post.section->shares > 1) annotated_region_dnnl::meet(*post.section, post.share);
}

ANNOTATED_REGION_HIDDEN bool GOMP_loop_static_start(long start, long end, long step, long block, long* first, long* last) {
  using namespace annotated_region_dnnl;
  const long count = std::max(0L, (end - start + step - (step > 0 ? 1 : -1)) / step);
  const long shares = omp_get_num_threads();
  StaticLoop::mine() = {start, step, count, block > 0 ? block : (count + shares - 1) / shares, 0};
  return StaticLoop::mine().take(first, last);
}

ANNOTATED_REGION_HIDDEN bool GOMP_loop_static_next(long* first, long* last) {
  return annotated_region_dnnl::StaticLoop::mine().take(first, last);
}

ANNOTATED_REGION_HIDDEN void GOMP_loop_end_nowait() {}

ANNOTATED_REGION_HIDDEN int omp_get_max_threads() { return annotated_region_dnnl::shares(); }

ANNOTATED_REGION_HIDDEN int omp_get_num_threads() {
  const annotated_region_dnnl::Section* section = annotated_region_dnnl::Post::mine().section;
  return section == nullptr ? 1 : section->shares;
}

ANNOTATED_REGION_HIDDEN int omp_get_thread_num() { return annotated_region_dnnl::Post::mine().share; }

ANNOTATED_REGION_HIDDEN int omp_in_parallel() { return omp_get_num_threads() > 1; }
}

namespace annotated_region_dnnl {

struct Binding {
  const char* name;
  void* target;
};

inline const auto& bindings() {
  static const std::array<Binding, 10> all{{
      {"GOMP_parallel_start", reinterpret_cast<void*>(GOMP_parallel_start)},
      {"GOMP_parallel_end", reinterpret_cast<void*>(GOMP_parallel_end)},
      {"GOMP_barrier", reinterpret_cast<void*>(GOMP_barrier)},
      {"GOMP_loop_static_start", reinterpret_cast<void*>(GOMP_loop_static_start)},
      {"GOMP_loop_static_next", reinterpret_cast<void*>(GOMP_loop_static_next)},
      {"GOMP_loop_end_nowait", reinterpret_cast<void*>(GOMP_loop_end_nowait)},
      {"omp_get_max_threads", reinterpret_cast<void*>(omp_get_max_threads)},
      {"omp_get_num_threads", reinterpret_cast<void*>(omp_get_num_threads)},
      {"omp_get_thread_num", reinterpret_cast<void*>(omp_get_thread_num)},
      {"omp_in_parallel", reinterpret_cast<void*>(omp_in_parallel)},
  }};
  return all;
}

// The dynamic section of a loaded library, with the addresses of its tables.
class Dynamic {
 public:
  explicit Dynamic(const dl_phdr_info& library) : base_(library.dlpi_addr) {
    for (int index = 0; index < library.dlpi_phnum; ++index) {
      const ElfW(Phdr)& part = library.dlpi_phdr[index];
      if (part.p_type == PT_DYNAMIC) entries_ = reinterpret_cast<const ElfW(Dyn)*>(base_ + part.p_vaddr);
      if (part.p_type != PT_GNU_RELRO) continue;
      read_only_ = base_ + part.p_vaddr;
      read_only_bytes_ = part.p_memsz;
    }
  }

  uintptr_t value(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn)* entry = entries_; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == tag) return entry->d_un.d_ptr;
    }
    return 0;
  }

  // Whether the linker has made a slot read-only after relocation (RELRO).
  bool is_read_only(const void* slot) const {
    return reinterpret_cast<uintptr_t>(slot) - read_only_ < read_only_bytes_;
  }

  // Calls `action` with the symbol name and the slot address of each relocation to a symbol.
  template <typename Action>
  void each_slot(Action action) const {
    each_of(value(DT_JMPREL), value(DT_PLTRELSZ), action);
    each_of(value(DT_RELA), value(DT_RELASZ), action);
  }

 private:
  template <typename Action>
  void each_of(uintptr_t table, size_t bytes, Action action) const {
#if defined(__x86_64__)
    const auto* names = reinterpret_cast<const char*>(value(DT_STRTAB));
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(value(DT_SYMTAB));
    const auto* rows = reinterpret_cast<const ElfW(Rela)*>(table);
    for (size_t index = 0; index < bytes / sizeof *rows; ++index) {
      const auto type = ELF64_R_TYPE(rows[index].r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const char* name = names + symbols[ELF64_R_SYM(rows[index].r_info)].st_name;
      action(name, reinterpret_cast<void**>(base_ + rows[index].r_offset));
    }
#endif
  }

  uintptr_t base_;
  const ElfW(Dyn)* entries_ = nullptr;
  uintptr_t read_only_ = 0;
  size_t read_only_bytes_ = 0;
};

// Writes a slot, and restores its read-only protection.
inline void overwrite(void** slot, void* target, bool is_read_only) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const first = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) / page * page);
  if (is_read_only && mprotect(first, page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(slot, target, __ATOMIC_RELEASE);
  if (is_read_only) mprotect(first, page, PROT_READ);
}

inline int bind_if_onednn(dl_phdr_info* library, size_t, void*) {
  if (std::strstr(library->dlpi_name, "libdnnl.so") == nullptr) return 0;
  const Dynamic dynamic(*library);
  dynamic.each_slot([&](const char* name, void** slot) {
    for (const Binding& binding : bindings()) {
      if (std::strcmp(binding.name, name) == 0) overwrite(slot, binding.target, dynamic.is_read_only(slot));
    }
  });
  return 0;
}

ANNOTATED_REGION_SHARED {

// Redirects oneDNN's calls to the functions above, once per process; this module must then stay loaded.
inline void bind_onednn() {
  static const int bound = [] {
    Dl_info module;
    if (dladdr(reinterpret_cast<void*>(bind_if_onednn), &module) != 0) dlopen(module.dli_fname, RTLD_NOW | RTLD_NODELETE);
    return dl_iterate_phdr(bind_if_onednn, nullptr);
  }();
  (void)bound;
}

}  // shared
}  // namespace annotated_region_dnnl
