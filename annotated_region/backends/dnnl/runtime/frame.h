// The arguments of a call, checked against the tables of a region.

namespace annotated_region_dnnl {

using Key = std::vector<int64_t>;  // the symbolic extents, and the number of shares

inline Dims extents_of(const TensorRow& tensor, const int64_t* expressions) {
  Dims dims;
  for (int64_t extent : tensor.extents) dims.push_back(number_of(extent, expressions));
  return dims;
}

// What is known of a call.
class Frame {
 public:
  Key key;
  std::vector<int64_t> expressions;
  std::vector<char*> inputs, outputs;

  void read(const GraphTable& graph, const TVMFFIAny* arguments, int count) {
    graph_ = &graph;
    clear();
    const int given = graph.inputs.size + graph.shapes;  // the first output
    if (count != given + graph.outputs.size) {
      TVM_FFI_THROW(TypeError) << graph.symbol << ": expected " << given << " inputs and " << graph.outputs.size
                               << " outputs, got " << count << " arguments";
    }
    for (int position = 0; position < count; ++position) {
      const bool is_shape = position >= graph.inputs.size && position < given;
      if (!is_shape) tensors_.push_back(tensor_at(arguments, position));
    }
    bind_variables(arguments);
    expressions.resize(graph.expressions + 1);
    graph.evaluate(key.data(), expressions.data());
    key.push_back(shares());
    check_all(0, graph.inputs, "input", inputs);
    check_all(graph.inputs.size, graph.outputs, "output", outputs);
  }

  // Whether all outputs are empty, as for an empty batch: then there is nothing to compute.
  bool is_void() const {
    return std::all_of(graph_->outputs.begin(), graph_->outputs.end(), [&](int output) {
      const List<int64_t>& extents = graph_->tensors[output].extents;
      return std::any_of(extents.begin(), extents.end(), [&](int64_t code) { return number(code) == 0; });
    });
  }

 private:
  int64_t number(int64_t code) const { return number_of(code, expressions.data()); }

  void clear() {
    tensors_.clear();
    key.clear();
    inputs.clear();
    outputs.clear();
  }

  const DLTensor* tensor_at(const TVMFFIAny* arguments, int position) const {
    const auto view = tvm::ffi::AnyView::CopyFromTVMFFIAny(arguments[position]).try_cast<DLTensor*>();
    if (!view.has_value()) {
      TVM_FFI_THROW(TypeError) << graph_->symbol << ": argument " << position << " is not a tensor";
    }
    return *view;
  }

  int64_t number_of_shape(const TVMFFIAny* arguments, const VariableRow& variable) const {
    const auto view = tvm::ffi::AnyView::CopyFromTVMFFIAny(arguments[variable.input]).try_cast<tvm::ffi::Shape>();
    if (!view.has_value() || static_cast<int>(view->size()) <= variable.axis) {
      TVM_FFI_THROW(TypeError) << graph_->symbol << ": argument " << variable.input << " is not a shape of more than "
                               << variable.axis << " extents";
    }
    return (*view)[variable.axis];
  }

  void bind_variables(const TVMFFIAny* arguments) {
    for (const VariableRow& variable : graph_->variables) {
      if (variable.input >= graph_->inputs.size) {
        key.push_back(number_of_shape(arguments, variable));
        continue;
      }
      const DLTensor* tensor = tensors_[variable.input];
      if (tensor->ndim <= variable.axis) {
        TVM_FFI_THROW(ValueError) << graph_->symbol << ": input " << variable.input << " has rank " << tensor->ndim
                                  << "; expected " << graph_->tensors[graph_->inputs[variable.input]].extents.size;
      }
      key.push_back(tensor->shape[variable.axis]);
    }
  }

  // Checks the inputs or the outputs, which begin at tensor `first`, and notes where they lie.
  void check_all(int first, const List<int>& expected, const char* role, std::vector<char*>& data) {
    for (int position = 0; position < expected.size; ++position) {
      const DLTensor* tensor = tensors_[first + position];
      check(tensor, expected[position], role, position);
      data.push_back(static_cast<char*>(tensor->data) + tensor->byte_offset);
    }
  }

  void check(const DLTensor* tensor, int expected, const char* role, int position) const {
    if (!has_shape(tensor, graph_->tensors[expected].extents)) {
      TVM_FFI_THROW(ValueError) << graph_->symbol << ": " << role << " " << position << " has shape "
                                << text_of(tensor->shape, tensor->ndim) << "; expected "
                                << text_of(extents_of(graph_->tensors[expected], expressions.data()));
    }
    const TypeRow type = type_row(graph_->tensors[expected].type);
    if (tensor->dtype.code != type.code || tensor->dtype.bits != type.bits || tensor->dtype.lanes != 1) {
      TVM_FFI_THROW(TypeError) << graph_->symbol << ": " << role << " " << position << " is not " << type.name;
    }
    if (tensor->device.device_type != kDLCPU) {
      TVM_FFI_THROW(ValueError) << graph_->symbol << ": " << role << " " << position << " is not in CPU memory";
    }
    if (!is_contiguous(tensor)) {
      TVM_FFI_THROW(ValueError) << graph_->symbol << ": " << role << " " << position << " is not contiguous";
    }
  }

  bool has_shape(const DLTensor* tensor, const List<int64_t>& extents) const {
    if (tensor->ndim == 0 && extents.size == 1) return number(extents[0]) == 1;  // a number has rank one in the graph
    if (tensor->ndim != extents.size) return false;
    for (int axis = 0; axis < extents.size; ++axis) {
      if (number(extents[axis]) != tensor->shape[axis]) return false;
    }
    return true;
  }

  static bool is_contiguous(const DLTensor* tensor) {
    if (tensor->strides == nullptr) return true;
    int64_t stride = 1;
    bool is_dense = true;
    for (int axis = tensor->ndim - 1; axis >= 0; --axis) {
      const int64_t extent = tensor->shape[axis];
      if (extent == 0) return true;  // has no element that strides could place
      is_dense = is_dense && (extent == 1 || tensor->strides[axis] == stride);
      stride *= extent;
    }
    return is_dense;
  }

  const GraphTable* graph_ = nullptr;
  std::vector<const DLTensor*> tensors_;  // the inputs, then the outputs
};

}  // namespace annotated_region_dnnl
