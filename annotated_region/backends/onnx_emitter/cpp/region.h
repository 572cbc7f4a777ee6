// What a generated unit tells of a region, for the runtime in C++ that runs it where there is none in Python.
#include <tvm/ffi/c_api.h>

namespace annotated_region_native {

// Lists of names end with a null pointer. Settings are pairs of a name and a value.
struct RegionTable {
  const char* symbol;
  const unsigned char* model;
  uint64_t model_size;
  const char* const* inputs;
  const char* const* outputs;
  const char* const* weights;
  const char* const* settings;
};

}  // namespace annotated_region_native
