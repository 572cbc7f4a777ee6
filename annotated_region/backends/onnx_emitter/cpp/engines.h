// Opens the library of an engine from the run path of the library that contains this code.
//
// The run path of a bundle is its own folder ($ORIGIN), that of a library linked for this machine is the folder of the
// engine's wheel. The current folder, LD_LIBRARY_PATH and system folders are not searched: they may contain another
// version, or a file planted by an attacker.
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace annotated_region_native {
namespace {

namespace ffi = tvm::ffi;

// The run path of this library, unexpanded.
inline std::string written_run_path(const link_map* own) {
  const char* strings = nullptr;
  const ElfW(Dyn)* path = nullptr;
  for (const ElfW(Dyn)* entry = own->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_RUNPATH || entry->d_tag == DT_RPATH) path = entry;
  }
  return strings == nullptr || path == nullptr ? "" : strings + path->d_un.d_val;
}

// The folders of the run path: absolute ones, and the folder of this library.
inline std::vector<std::string> run_path() {
  static const char anchor = 0;
  Dl_info about;
  link_map* own = nullptr;
  char origin[PATH_MAX] = "";
  if (dladdr1(&anchor, &about, reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP) == 0) return {};
  if (dlinfo(own, RTLD_DI_ORIGIN, origin) != 0) return {};
  const std::string token = "$ORIGIN";
  std::vector<std::string> folders;
  std::istringstream entries(written_run_path(own));
  for (std::string entry; std::getline(entries, entry, ':');) {
    if (entry.compare(0, token.size(), token) == 0) entry.replace(0, token.size(), origin);
    if (!entry.empty() && entry[0] == '/') folders.push_back(entry);
  }
  return folders;
}

// The path of the first file in a folder, by name, with this prefix; empty if there is none.
inline std::string file_in(const std::string& folder, const std::string& beginning) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  std::string found;
  while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (name.compare(0, beginning.size(), beginning) == 0 && (found.empty() || name < found)) found = name;
  }
  return found.empty() ? found : folder + "/" + found;
}

// Opens the library whose file name has this prefix. It is never closed, because engines have threads.
inline void* open_engine(const char* engine, const std::string& beginning) {
  std::string looked_in;
  for (const std::string& folder : run_path()) {
    looked_in += (looked_in.empty() ? "" : ", ") + folder;
    const std::string file = file_in(folder, beginning);
    if (file.empty()) continue;
    if (void* opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
    TVM_FFI_THROW(BackendUnavailableError) << engine << "'s library cannot be loaded: " << dlerror();
  }
  TVM_FFI_THROW(BackendUnavailableError) << engine << "'s library " << beginning << " is not in "
                                         << (looked_in.empty() ? "the run path of this library, which is empty" : looked_in)
                                         << "; install the version that the model was built with, or export a bundle";
}

template <typename Function>
Function symbol_of(void* library, const char* engine, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) TVM_FFI_THROW(BackendUnavailableError) << engine << "'s library has no " << name;
  return reinterpret_cast<Function>(found);
}

}  // namespace
}  // namespace annotated_region_native
