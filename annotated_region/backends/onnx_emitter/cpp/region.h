// What a generated unit tells of a region, for the runtime in C++ that runs it where there is none in Python.
#include <tvm/ffi/c_api.h>

namespace annotated_region_native {

// A stretch of the memory of a native model's constants: the weight of a number, or, where that is -1, bytes.
struct ModelPart {
  uint64_t offset;
  uint64_t size;
  int64_t weight;
  const unsigned char* bytes;
};

// The model in a form that the engine prefers to ONNX; without text where there is none.
struct NativeModel {
  const unsigned char* text;
  uint64_t text_size;
  const ModelPart* parts;
  uint64_t part_count;
  uint64_t data_size;
};

// Lists of names end with a null pointer. Settings are pairs of a name and a value.
struct RegionTable {
  const char* symbol;
  const unsigned char* model;
  uint64_t model_size;
  const char* const* inputs;
  const char* const* outputs;
  const char* const* weights;
  const char* const* settings;
  NativeModel native;
};

}  // namespace annotated_region_native
