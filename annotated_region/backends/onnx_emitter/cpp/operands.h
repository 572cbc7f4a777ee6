// The arguments of a region as dense memory, because engines receive an address and a shape, but no strides.

namespace annotated_region_native {
namespace {

inline size_t count_of(const char* const* names) {
  size_t count = 0;
  while (names[count] != nullptr) ++count;
  return count;
}

// Copies the elements of a tensor with strides; both strides are in bytes and may be negative.
inline void copy_elements(char* to, const std::vector<int64_t>& to_strides, const char* from,
                          const std::vector<int64_t>& from_strides, const std::vector<int64_t>& shape, size_t axis,
                          size_t width) {
  if (axis == shape.size()) {
    std::memcpy(to, from, width);
    return;
  }
  for (int64_t index = 0; index < shape[axis]; ++index) {
    copy_elements(to + index * to_strides[axis], to_strides, from + index * from_strides[axis], from_strides, shape,
                  axis + 1, width);
  }
}

// An argument that an engine can access: in place, or, if it is a view with gaps, as a dense copy.
class Operand {
 public:
  // A host tensor, or a shape, which becomes a vector of int64.
  Operand(const char* symbol, const TVMFFIAny& argument, int number) : symbol_(symbol) {
    const auto view = ffi::AnyView::CopyFromTVMFFIAny(argument);
    if (const auto shape = view.try_cast<ffi::Shape>()) {
      take(*shape);
    } else if (const auto tensor = view.try_cast<DLTensor*>()) {
      take(**tensor, number);
    } else {
      TVM_FFI_THROW(TypeError) << symbol << ": argument " << number << " is neither a tensor nor a shape";
    }
  }

  const std::vector<int64_t>& shape() const { return shape_; }
  DLDataType type() const { return type_; }
  size_t bytes() const { return bytes_; }

  // The memory of an input; a view is copied to it.
  void* read() {
    if (is_dense()) return address();
    make_room();
    copy_elements(copy_.get(), dense_, data_, strides_, shape_, 0, width_);
    return copy_.get();
  }

  // The memory of an output; `bring_back` copies it to a view.
  void* written() {
    if (is_dense()) return address();
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      if (shape_[axis] > 1 && strides_[axis] == 0) {
        TVM_FFI_THROW(ArgumentError) << symbol_ << ": an output has overlapping elements: its stride " << axis
                                     << " is 0";
      }
    }
    make_room();
    return copy_.get();
  }

  void bring_back() {
    if (copy_) copy_elements(data_, strides_, copy_.get(), dense_, shape_, 0, width_);
  }

 private:
  void take(const ffi::Shape& shape) {
    numbers_.assign(shape.begin(), shape.end());
    shape_ = {static_cast<int64_t>(numbers_.size())};
    type_ = {kDLInt, 64, 1};
    data_ = reinterpret_cast<char*>(numbers_.data());
    measure(nullptr);
  }

  void take(const DLTensor& tensor, int number) {
    if (tensor.device.device_type != kDLCPU) {
      TVM_FFI_THROW(ArgumentError) << symbol_ << ": argument " << number << " is on a device of kind "
                                   << tensor.device.device_type
                                   << ", which this region cannot access; copy it to cpu first";
    }
    shape_.assign(tensor.shape, tensor.shape + tensor.ndim);
    type_ = tensor.dtype;
    data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
    measure(tensor.strides);
  }

  // DLPack counts strides in elements, this class in bytes.
  void measure(const int64_t* strides) {
    width_ = (type_.bits * type_.lanes + 7) / 8;
    bytes_ = width_;
    dense_.resize(shape_.size());
    for (size_t axis = shape_.size(); axis-- > 0;) {
      dense_[axis] = static_cast<int64_t>(bytes_);
      bytes_ *= static_cast<size_t>(shape_[axis]);
    }
    strides_ = dense_;
    for (size_t axis = 0; strides != nullptr && axis < shape_.size(); ++axis) {
      strides_[axis] = strides[axis] * static_cast<int64_t>(width_);
    }
  }

  bool is_dense() const {
    if (bytes_ == 0) return true;
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      if (shape_[axis] != 1 && strides_[axis] != dense_[axis]) return false;
    }
    return true;
  }

  // Empty tensors may have a null address, which engines reject.
  void* address() {
    static char nothing = 0;
    return bytes_ == 0 ? &nothing : data_;
  }

  void make_room() { copy_ = std::make_unique<char[]>(bytes_); }

  const char* symbol_;
  std::vector<int64_t> numbers_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  std::vector<int64_t> dense_;
  DLDataType type_ = {};
  size_t width_ = 0;
  size_t bytes_ = 0;
  char* data_ = nullptr;
  std::unique_ptr<char[]> copy_;
};

// The operands of a call: inputs, then outputs.
inline std::vector<Operand> operands_of(const RegionTable& region, ffi::PackedArgs arguments) {
  const size_t expected = count_of(region.inputs) + count_of(region.outputs);
  if (static_cast<size_t>(arguments.size()) != expected) {
    TVM_FFI_THROW(TypeError) << region.symbol << ": expected " << expected << " arguments, got " << arguments.size();
  }
  std::vector<Operand> operands;
  operands.reserve(expected);
  for (int number = 0; number < arguments.size(); ++number) {
    operands.emplace_back(region.symbol, arguments[number].CopyToTVMFFIAny(), number);
  }
  return operands;
}

// The value of a setting; every region has all of them.
inline std::string setting_of(const RegionTable& region, const char* name) {
  for (const char* const* pair = region.settings; *pair != nullptr; pair += 2) {
    if (std::strcmp(pair[0], name) == 0) return pair[1];
  }
  TVM_FFI_THROW(InternalError) << region.symbol << " has no setting " << name;
}

// Creates the runner of a region.
template <typename Runner>
int make_runner(const RegionTable& region, TVMFFIObjectHandle weights, TVMFFIObjectHandle* made) {
  TVM_FFI_SAFE_CALL_BEGIN();
  ffi::Array<ffi::Tensor> held;
  if (weights != nullptr) {
    TVMFFIAny handed = {};
    handed.type_index = kTVMFFIArray;
    handed.v_obj = static_cast<TVMFFIObject*>(weights);
    held = ffi::AnyView::CopyFromTVMFFIAny(handed).cast<ffi::Array<ffi::Tensor>>();
  }
  const auto runner = std::make_shared<Runner>(region, held);
  ffi::Function function =
      ffi::Function::FromPacked([runner](ffi::PackedArgs arguments, ffi::Any*) { runner->run(arguments); });
  *made = ffi::details::ObjectUnsafe::MoveObjectRefToTVMFFIObjectPtr(std::move(function));
  TVM_FFI_SAFE_CALL_END();
}

}  // namespace
}  // namespace annotated_region_native
