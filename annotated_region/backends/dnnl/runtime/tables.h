// The format in which the code generator emits a region: constant tables, without computation.
// Units of regions include only these few headers, because larger ones would dominate their compile time.
#include <cstdint>

#if defined(__has_include)
#if !__has_include(<oneapi/dnnl/dnnl_types.h>)
#error "no headers of oneDNN: build the module with annotated_region.build(), which passes all options of the compiler"
#endif
#endif
#include <oneapi/dnnl/dnnl_types.h>

// Hidden visibility: a process may load several libraries, each with its own runtime. The attribute holds for this block
// of the namespace only; the files of the runtime are hidden by a pragma (`runtime_units.py`).
namespace annotated_region_dnnl __attribute__((visibility("hidden"))) {

constexpr float infinity = __builtin_inff();

constexpr int64_t larger(int64_t left, int64_t right) { return left < right ? right : left; }
constexpr int64_t smaller(int64_t left, int64_t right) { return right < left ? right : left; }

// Throws, where the processor would end the process; the runtime defines it.
[[noreturn]] void refuse_division_by_zero();

// Rounded down, as TVM divides; C++ rounds towards zero. A number computed from extents may be negative: -n % 4.
constexpr int64_t floor_remainder(int64_t left, int64_t right) {
  if (right == 0) refuse_division_by_zero();
  return (left % right + right) % right;
}
constexpr int64_t floor_quotient(int64_t left, int64_t right) { return (left - floor_remainder(left, right)) / right; }

template <typename T>
struct List {
  const T* data = nullptr;
  int size = 0;
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
  const T& operator[](int index) const { return data[index]; }
};

// Declarations shared with Python are generated from its classes (rows.py): enumerations and row structs.
enum class Kind : int;
enum class Type : int;
struct PostOpRow;
struct QuantizedRow;

// Products in bfloat16: none, all with a fast oneDNN implementation, or those that are faster than in float32.
enum class Precision { fp32, bf16, bf16_if_faster };

enum class Source { computed, input, constant };

// A negative extent refers to expression number -1 - extent.
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

// The parameters of a node whose kind uses `Row`.
template <typename Row>
const Row& parameters_of(const NodeRow& node) {
  return *static_cast<const Row*>(node.parameters);
}

// A symbolic extent is bound to one axis of one input, or to one number of a shape, which follow the inputs. Calls that
// differ in open extents alone may share a plan.
struct VariableRow {
  int input;
  int axis;
  bool is_open = false;
};

// A tensor with an open extent: an input, or a view of one. For each axis that of the input; -1 for an extent of one.
struct OpenViewRow {
  int tensor;
  int input;
  List<int64_t> axes;
};

// Nodes that follow each other several times with other operands, such as the layers of a transformer. The nodes number
// the arguments of a repetition first, then the tensors that it adds. Expanded in `repeats.h`.
struct RepeatRow {
  List<TensorRow> tensors;  // those that the first repetition adds
  List<NodeRow> nodes;
  List<int> arguments;  // those of the first repetition, then of the next
  int first_tensor;     // the place of the first repetition among the tensors and nodes of the region
  int first_node;
  int step;  // between the numbers of a constant in successive repetitions
  int times;
};

// Constants stored in the library itself, behind the offset of each, an int64_t; null if TVM passes them.
struct Embedded {
  const char* data = nullptr;
  int64_t size = 0;
};

// Tensors are numbered as if repeats were expanded.
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
  List<OpenViewRow> open_views;
  List<RepeatRow> repeats;  // what they add is not among the tensors and nodes above
};

}  // namespace annotated_region_dnnl
