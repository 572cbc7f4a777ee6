// The form in which the code generator writes a region down: constant tables, nothing computed.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <oneapi/dnnl/dnnl_types.h>

// Hidden: several libraries with a runtime of their own may live in one process.
namespace annotated_region_dnnl __attribute__((visibility("hidden"))) {

template <typename T>
struct List {
  const T* data = nullptr;
  int size = 0;
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
  const T& operator[](int index) const { return data[index]; }
};

// What nodes compute: `X` of each kind, which is also the name of the function that plans it.
#define ANNOTATED_REGION_KINDS(X)                                                                         \
  X(convolution) X(deconvolution) X(matmul) X(pooling) X(eltwise) X(binary) X(layer_norm)                 \
  X(softmax) X(lrn) X(reduction) X(concat) X(reshape) X(permute) X(expand) X(slice) X(cast) X(select)     \
  X(error_function) X(exponential) X(logarithm) X(guarded_softmax) X(sine) X(cosine) X(pad) X(group_norm) \
  X(rms_norm) X(prelu) X(resampling) X(attention) X(quantize) X(dequantize) X(gelu) X(reciprocal_root)
#define ANNOTATED_REGION_ENUMERATOR(kind) kind,
enum class Kind { ANNOTATED_REGION_KINDS(ANNOTATED_REGION_ENUMERATOR) };

// Products in bfloat16: none, all that oneDNN can do fast, or those that take less time than in float32.
enum class Precision { fp32, bf16, bf16_if_faster };

enum class Source { computed, input, constant };

// Truth values, one byte each, exist at the border of the region only; inside they are the numbers 0 and 1.
enum class Type { float32, truth, int8, uint8, int32 };

// An extent below zero stands for expression number -1 - extent.
struct TensorRow {
  List<int64_t> extents;
  Source source;
  int index;
  Type type;
};

struct PostOpRow {
  dnnl_alg_kind_t algorithm;
  float alpha;
  float beta;
  int operand;  // a tensor, or -1
};

// What the elements of an int8 product mean: e stands for scale * (e - zero). A scale of 0: the product is of floats.
struct QuantizedRow {
  float scale = 0.0f;  // of the source, times that of the weights unless these have one a channel
  int zero = 0;
  int weights_zero = 0;
  int weights_scales = -1;  // a tensor, or -1
  float result_scale = 1.0f;
  int result_zero = 0;
};

struct NodeRow {
  Kind kind;
  dnnl_alg_kind_t algorithm;
  List<int> inputs;
  int output;
  List<int64_t> ints;
  List<float> floats;
  List<PostOpRow> post_ops;
  QuantizedRow quantized = {};
};

// A symbolic extent is bound to one axis of one input, or to one number of a shape, which follow the inputs.
struct VariableRow {
  int input;
  int axis;
};

// Constants that lie in the library itself, one after the other; null where TVM hands them over.
struct Embedded {
  const char* data = nullptr;
  const int64_t* offsets = nullptr;
  int64_t size = 0;
};

struct GraphTable {
  const char* symbol;
  List<TensorRow> tensors;
  List<NodeRow> nodes;
  List<int> inputs;
  List<int> outputs;
  List<VariableRow> variables;
  int expressions;
  void (*evaluate)(const int64_t* variables, int64_t* expressions);
  int constants;
  int shapes;
  Precision precision;
  Embedded embedded = {};
  const GraphTable* in_floats = nullptr;  // the same without products of int8
};

}  // namespace annotated_region_dnnl
