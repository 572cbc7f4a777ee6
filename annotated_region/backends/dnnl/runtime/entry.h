// The interface of the runtime for generated units, and the export of a function.
#include <tvm/ffi/c_api.h>

namespace annotated_region_dnnl __attribute__((visibility("hidden"))) {

class Region;

// Owns the state of a function between calls. The methods follow TVM's calling convention: they return
// zero on success; otherwise they set TVM's error and return nonzero.
class RegionHandle {
 public:
  explicit RegionHandle(const GraphTable& graph);
  ~RegionHandle();
  int call(const TVMFFIAny* arguments, int32_t count);
  int set_constants(const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result);
  int describe(TVMFFIAny* result);
  int times(TVMFFIAny* result);
  int count_plans(TVMFFIAny* result);
  int release(TVMFFIAny* result);

 private:
  Region* region_;
};

}  // namespace annotated_region_dnnl

#define ANNOTATED_REGION_SYMBOL(name) \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##name

// Exports six functions: `symbol` itself; `__init_symbol`, which TVM calls with the constants;
// `symbol__plan`, the primitives of the last plan that ran; `symbol__times`, the same with their times;
// `symbol__plan_count`, the number of plans kept; `symbol__release`, which frees plans and constants for good.
#define ANNOTATED_REGION_EXPORT(symbol, table)                                                            \
  static annotated_region_dnnl::RegionHandle region_of_##symbol(table);                                   \
  ANNOTATED_REGION_SYMBOL(symbol)(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny*) {         \
    return region_of_##symbol.call(arguments, count);                                                     \
  }                                                                                                       \
  ANNOTATED_REGION_SYMBOL(__init_##symbol)                                                                \
  (void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {                                 \
    return region_of_##symbol.set_constants(arguments, count, result);                                    \
  }                                                                                                       \
  ANNOTATED_REGION_SYMBOL(symbol##__plan)(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {          \
    return region_of_##symbol.describe(result);                                                           \
  }                                                                                                       \
  ANNOTATED_REGION_SYMBOL(symbol##__times)(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {         \
    return region_of_##symbol.times(result);                                                              \
  }                                                                                                       \
  ANNOTATED_REGION_SYMBOL(symbol##__plan_count)(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {    \
    return region_of_##symbol.count_plans(result);                                                        \
  }                                                                                                       \
  ANNOTATED_REGION_SYMBOL(symbol##__release)(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {       \
    return region_of_##symbol.release(result);                                                            \
  }
