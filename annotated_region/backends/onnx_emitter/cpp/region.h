// The description of a region in a generated unit, for the C++ runtime, which runs it in processes without Python.
#include <tvm/ffi/c_api.h>

namespace annotated_region_native {

// A slice of the constant buffer of a native model: the weight with this index, or, if it is -1, these bytes.
struct ModelPart {
  uint64_t offset;
  uint64_t size;
  int64_t weight;
  const unsigned char* bytes;
};

// The model in a format that the engine reads instead of ONNX; without text if there is none.
struct NativeModel {
  const unsigned char* text;
  uint64_t text_size;
  const ModelPart* parts;
  uint64_t part_count;
  uint64_t data_size;
};

// Lists of names are null-terminated. Settings are pairs of a name and a value.
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
