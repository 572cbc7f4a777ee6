// The entries of regions: functions in TVM's calling convention that call a runner, which the first call creates.
//
// ANNOTATED_REGION_TARGET is the name of the target. ANNOTATED_REGION_OPEN creates a runner in C++; without it,
// regions run in Python processes only.

namespace {

struct Region {
  annotated_region_native::RegionTable table;
  const char* description;
  uint64_t description_size;
  TVMFFIObjectHandle weights;
  TVMFFIObjectHandle runner;
  bool released;

  static TVMFFIObjectHandle global(const char* name, uint64_t size) {
    const TVMFFIByteArray key = {name, static_cast<size_t>(size)};
    TVMFFIObjectHandle found = nullptr;
    return TVMFFIFunctionGetGlobal(&key, &found) == 0 ? found : nullptr;
  }

  static void drop(TVMFFIObjectHandle& held) {
    if (held != nullptr) TVMFFIObjectDecRef(held);
    held = nullptr;
  }

  // Creates the runner. If two threads do so concurrently, the first one's is kept.
  int open() {
    static const char name[] = "annotated_region." ANNOTATED_REGION_TARGET ".open";
    TVMFFIObjectHandle opener = global(name, sizeof(name) - 1);
    TVMFFIObjectHandle made = nullptr;
    const int failed = opener != nullptr ? open_in_python(opener, &made) : open_natively(&made);
    if (failed) return failed;
    TVMFFIObjectHandle expected = nullptr;
    if (!__atomic_compare_exchange_n(&runner, &expected, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      TVMFFIObjectDecRef(made);
    }
    return 0;
  }

  // The Python runtime is preferred because it also records kernel times and caches compiled models.
  int open_in_python(TVMFFIObjectHandle opener, TVMFFIObjectHandle* made) {
    TVMFFIByteArray text = {description, static_cast<size_t>(description_size)};
    TVMFFIByteArray bytes = {reinterpret_cast<const char*>(table.model), static_cast<size_t>(table.model_size)};
    TVMFFIAny arguments[3] = {};
    arguments[0].type_index = arguments[1].type_index = kTVMFFIByteArrayPtr;
    arguments[0].v_ptr = &text;
    arguments[1].v_ptr = &bytes;
    arguments[2].type_index = weights == nullptr ? kTVMFFINone : kTVMFFIArray;
    arguments[2].v_obj = static_cast<TVMFFIObject*>(weights);
    TVMFFIAny result = {};
    const int failed = TVMFFIFunctionCall(opener, arguments, 3, &result);
    TVMFFIObjectDecRef(opener);
    *made = failed ? nullptr : result.v_obj;
    return failed;
  }

  int open_natively(TVMFFIObjectHandle* made) {
#ifdef ANNOTATED_REGION_OPEN
    return annotated_region_native::ANNOTATED_REGION_OPEN(table, weights, made);
#else
    (void)made;
    const char* parts[] = {table.symbol, " runs in a Python process only, after: "
                           "import annotated_region.backends." ANNOTATED_REGION_TARGET};
    TVMFFIErrorSetRaisedFromCStrParts("RuntimeError", parts, 2);
    return -1;
#endif
  }

  int call(const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
    if (released) {
      const char* parts[] = {table.symbol, ": its executable was released"};
      TVMFFIErrorSetRaisedFromCStrParts("RuntimeError", parts, 2);
      return -1;
    }
    if (__atomic_load_n(&runner, __ATOMIC_ACQUIRE) == nullptr && open() != 0) return -1;
    return TVMFFIFunctionCall(runner, const_cast<TVMFFIAny*>(arguments), count, result);
  }

  int set_weights(const TVMFFIAny* arguments, TVMFFIAny* result) {
    if (weights == nullptr) {  // a library that is loaded twice has the same weights
      weights = arguments[0].v_obj;
      TVMFFIObjectIncRef(weights);
    }
    result->type_index = kTVMFFIInt;
    result->v_int64 = 0;
    return 0;
  }

  // Frees the runner and the weights; no call may be in progress.
  int release(TVMFFIAny* result) {
    released = true;
    drop(runner);
    drop(weights);
    result->type_index = kTVMFFINone;
    return 0;
  }
};

}  // namespace

#define ANNOTATED_REGION_SYMBOL(name) extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##name

#define ANNOTATED_REGION_EXPORT(symbol)                                                                           \
  ANNOTATED_REGION_SYMBOL(symbol)(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {          \
    return region_of_##symbol.call(arguments, count, result);                                                     \
  }                                                                                                               \
  ANNOTATED_REGION_SYMBOL(__init_##symbol)(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny* result) {       \
    return region_of_##symbol.set_weights(arguments, result);                                                     \
  }                                                                                                               \
  ANNOTATED_REGION_SYMBOL(symbol##__release)(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {               \
    return region_of_##symbol.release(result);                                                                    \
  }
