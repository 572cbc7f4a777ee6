// The form in which the code generator writes a region down: constant tables, nothing computed.
// A unit of each region is compiled with these few headers alone: larger ones would be most of its time.
#include <cstdint>

#include <oneapi/dnnl/dnnl_types.h>

// Hidden: several libraries with a runtime of their own may live in one process.
namespace annotated_region_dnnl __attribute__((visibility("hidden"))) {

constexpr float infinity = __builtin_inff();

constexpr int64_t larger(int64_t left, int64_t right) { return left < right ? right : left; }
constexpr int64_t smaller(int64_t left, int64_t right) { return right < left ? right : left; }

template <typename T>
struct List {
  const T* data = nullptr;
  int size = 0;
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
  const T& operator[](int index) const { return data[index]; }
};

// What both sides know is declared once, by classes of Python (rows.py): enumerations, and of each class its row.
enum class Kind : int;
enum class Type : int;
struct PostOpRow;
struct QuantizedRow;

// Products in bfloat16: none, all that oneDNN can do fast, or those that take less time than in float32.
enum class Precision { fp32, bf16, bf16_if_faster };

enum class Source { computed, input, constant };

// An extent below zero stands for expression number -1 - extent.
struct TensorRow {
  List<int64_t> extents;
  Source source;
  int index;
  Type type;
  Type half;  // float16 or bfloat16: a constant is stored so, another tensor may be rounded so; else the type
};

struct NodeRow {
  Kind kind;
  List<int> inputs;
  int output;
  const void* parameters;  // null where the kind has none
  List<PostOpRow> post_ops;
  const QuantizedRow* quantized;  // null: no product of int8
};

// The parameters of a node whose kind has those of `Row`.
template <typename Row>
const Row& parameters_of(const NodeRow& node) {
  return *static_cast<const Row*>(node.parameters);
}

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
  Embedded embedded;
  const GraphTable* in_floats;  // the same without products of int8
};

}  // namespace annotated_region_dnnl
