// A call of a generated function: checks the tensors, finds or builds the plan, runs it.

namespace annotated_region_dnnl {

constexpr size_t kPlansKept = 16;     // input shapes whose primitives are kept
constexpr size_t kInstancesKept = 4;  // arenas kept for concurrent calls of one shape

// Without instructions for 32-bit accumulation, oneDNN accumulates int8 products in 16 bits, which saturate.
inline const GraphTable& suited(const GraphTable& graph) {
  const bool is_exact =
      has_instructions(dnnl::cpu_isa::avx512_core_vnni) || has_instructions(dnnl::cpu_isa::avx2_vnni);
  return graph.in_floats == nullptr || is_exact ? graph : *graph.in_floats;
}

class Region {
 public:
  explicit Region(const GraphTable& whole) : graph_(suited(whole)) {
    bind_onednn();
    ForkGate::watch();
    const GraphTable& graph = graph_;
    if (graph.embedded.data == nullptr) return;
    for (int index = 0; index < graph.constants; ++index) {
      constants_.data.push_back(const_cast<char*>(graph.embedded.data) + graph.embedded.offsets[index]);
    }
  }

  void set_constants(const tvm::ffi::Array<tvm::ffi::Tensor>& tensors) {
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_released_ || !constants_.data.empty()) return;  // embedded, or the library was loaded a second time
    if (static_cast<int>(tensors.size()) != graph_.constants) {
      TVM_FFI_THROW(ValueError) << graph_.symbol << ": expected " << graph_.constants << " constants, got "
                                << tensors.size();
    }
    for (const tvm::ffi::Tensor& tensor : tensors) {
      held_.push_back(tensor);
      constants_.data.push_back(static_cast<char*>(tensor.data_ptr()));
    }
  }

  // Every error names the function.
  void call(const TVMFFIAny* arguments, int count) {
    try {
      run(arguments, count);
    } catch (const tvm::ffi::Error&) {
      throw;
    } catch (const dnnl::error& error) {
      TVM_FFI_THROW(RuntimeError) << graph_.symbol << ": " << error.what() << " (oneDNN status "
                                  << dnnl_status2str(error.status) << ")";
    } catch (const std::exception& error) {
      TVM_FFI_THROW(RuntimeError) << graph_.symbol << ": " << error.what();
    }
  }

  // The steps of the last plan that ran, one per line; empty before the first call.
  std::string describe() {
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    return plans_.empty() ? std::string() : plans_.front().second->describe();
  }

  // The same with the time of each step; see `Plan::times`.
  std::string times() {
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    return plans_.empty() ? std::string() : plans_.front().second->times();
  }

  int64_t plan_count() {
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(plans_.size());
  }

  // Frees plans and constants; later calls are errors.
  void release() {
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    plans_.clear();
    constants_ = {};
    held_.clear();
    is_released_ = true;
    give_back_library(&graph_);
  }

 private:
  using Key = std::vector<int64_t>;  // the symbolic extents, and the number of shares

  void run(const TVMFFIAny* arguments, int count) {
    const int given = graph_.inputs.size + graph_.shapes;  // the first output
    if (count != given + graph_.outputs.size) {
      TVM_FFI_THROW(TypeError) << graph_.symbol << ": expected " << given << " inputs and " << graph_.outputs.size
                               << " outputs, got " << count << " arguments";
    }
    std::vector<const DLTensor*> tensors;
    for (int position = 0; position < count; ++position) {
      const bool is_shape = position >= graph_.inputs.size && position < given;
      if (!is_shape) tensors.push_back(tensor_at(arguments, position));
    }
    const Call in_progress;
    Key key = bind_variables(tensors, arguments);
    std::vector<int64_t> expressions(graph_.expressions + 1);
    graph_.evaluate(key.data(), expressions.data());
    key.push_back(shares());
    const std::vector<char*> inputs = pointers(tensors, 0, graph_.inputs, "input", expressions);
    const std::vector<char*> outputs = pointers(tensors, graph_.inputs.size, graph_.outputs, "output", expressions);
    if (is_void(tensors)) return;
    execute(*plan_for(key, expressions), inputs, outputs);
  }

  // Whether all outputs are empty, as for an empty batch: then there is nothing to compute.
  bool is_void(const std::vector<const DLTensor*>& tensors) const {
    return std::all_of(tensors.begin() + graph_.inputs.size, tensors.end(), [](const DLTensor* tensor) {
      return is_empty(Dims(tensor->shape, tensor->shape + tensor->ndim));
    });
  }

  const DLTensor* tensor_at(const TVMFFIAny* arguments, int position) const {
    const auto view = tvm::ffi::AnyView::CopyFromTVMFFIAny(arguments[position]).try_cast<DLTensor*>();
    if (!view.has_value()) {
      TVM_FFI_THROW(TypeError) << graph_.symbol << ": argument " << position << " is not a tensor";
    }
    return *view;
  }

  int64_t number_of_shape(const TVMFFIAny* arguments, const VariableRow& variable) const {
    const auto view = tvm::ffi::AnyView::CopyFromTVMFFIAny(arguments[variable.input]).try_cast<tvm::ffi::Shape>();
    if (!view.has_value() || static_cast<int>(view->size()) <= variable.axis) {
      TVM_FFI_THROW(TypeError) << graph_.symbol << ": argument " << variable.input << " is not a shape of more than "
                               << variable.axis << " extents";
    }
    return (*view)[variable.axis];
  }

  Key bind_variables(const std::vector<const DLTensor*>& tensors, const TVMFFIAny* arguments) const {
    Key key;
    for (const VariableRow& variable : graph_.variables) {
      if (variable.input >= graph_.inputs.size) {
        key.push_back(number_of_shape(arguments, variable));
        continue;
      }
      const DLTensor* tensor = tensors[variable.input];
      if (tensor->ndim <= variable.axis) {
        TVM_FFI_THROW(ValueError) << graph_.symbol << ": input " << variable.input << " has rank " << tensor->ndim
                                  << "; expected " << graph_.tensors[graph_.inputs[variable.input]].extents.size;
      }
      key.push_back(tensor->shape[variable.axis]);
    }
    return key;
  }

  Dims extents(int tensor, const std::vector<int64_t>& expressions) const {
    Dims dims;
    for (int64_t extent : graph_.tensors[tensor].extents) {
      dims.push_back(extent < 0 ? expressions[-1 - extent] : extent);
    }
    return dims;
  }

  std::vector<char*> pointers(const std::vector<const DLTensor*>& tensors, int first, const List<int>& expected,
                              const char* role, const std::vector<int64_t>& expressions) const {
    std::vector<char*> result;
    for (int position = 0; position < expected.size; ++position) {
      const DLTensor* tensor = tensors[first + position];
      check(tensor, expected[position], extents(expected[position], expressions), role, position);
      result.push_back(static_cast<char*>(tensor->data) + tensor->byte_offset);
    }
    return result;
  }

  void check(const DLTensor* tensor, int expected, const Dims& dims, const char* role, int position) const {
    const int rank = static_cast<int>(dims.size());
    const bool is_number = tensor->ndim == 0 && dims == Dims{1};  // a rank of zero is a rank of one in the graph
    if (!is_number && (tensor->ndim != rank || !std::equal(dims.begin(), dims.end(), tensor->shape))) {
      TVM_FFI_THROW(ValueError) << graph_.symbol << ": " << role << " " << position << " has shape "
                                << text_of(tensor->shape, tensor->ndim) << "; expected "
                                << text_of(dims);
    }
    const TypeRow type = type_row(graph_.tensors[expected].type);
    if (tensor->dtype.code != type.code || tensor->dtype.bits != type.bits || tensor->dtype.lanes != 1) {
      TVM_FFI_THROW(TypeError) << graph_.symbol << ": " << role << " " << position << " is not " << type.name;
    }
    if (tensor->device.device_type != kDLCPU) {
      TVM_FFI_THROW(ValueError) << graph_.symbol << ": " << role << " " << position << " is not in CPU memory";
    }
    if (is_empty(dims)) return;  // has no element that strides could place
    const Dims strides = dense_strides(dims);
    for (int axis = 0; axis < tensor->ndim && tensor->strides != nullptr; ++axis) {
      if (dims[axis] != 1 && tensor->strides[axis] != strides[axis]) {
        TVM_FFI_THROW(ValueError) << graph_.symbol << ": " << role << " " << position << " is not contiguous";
      }
    }
  }

  // Inputs too small for a window or a slice give tensors of a negative extent.
  void require_shape(const Dims& dims) const {
    if (std::all_of(dims.begin(), dims.end(), [](int64_t extent) { return extent >= 0; })) return;
    TVM_FFI_THROW(ValueError) << graph_.symbol << ": the inputs are out of range: a tensor of the region would have shape "
                              << text_of(dims);
  }

  std::shared_ptr<Plan> plan_for(const Key& key, const std::vector<int64_t>& expressions) {
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto known = plans_.begin(); known != plans_.end(); ++known) {
      if (known->first != key) continue;
      plans_.splice(plans_.begin(), plans_, known);
      return known->second;
    }
    if (is_released_) TVM_FFI_THROW(RuntimeError) << graph_.symbol << ": its executable was released";
    if (static_cast<int>(constants_.data.size()) != graph_.constants) {
      TVM_FFI_THROW(RuntimeError) << graph_.symbol << ": called before its constants were loaded";
    }
    std::vector<Dims> dims;
    for (int tensor = 0; tensor < graph_.tensors.size; ++tensor) {
      dims.push_back(extents(tensor, expressions));
      require_shape(dims.back());
    }
    give_back_library(&graph_);  // what TVM's loader has read
    plans_.emplace_front(key, build_plan(graph_, dims, expressions, constants_));
    give_back_library(&graph_);  // what has been packed
    if (plans_.size() > kPlansKept) plans_.pop_back();
    return plans_.front().second;
  }

  // Each concurrent call uses a separate arena.
  static void execute(Plan& plan, const std::vector<char*>& inputs, const std::vector<char*>& outputs) {
    std::unique_ptr<Instance> instance;
    {
      const ForkGate::Passage passage = ForkGate::pass();
      const std::lock_guard<std::mutex> lock(plan.mutex);
      if (!plan.idle.empty()) {
        instance = std::move(plan.idle.back());
        plan.idle.pop_back();
      }
    }
    if (!instance) instance = std::make_unique<Instance>(plan);
    instance->run(inputs, outputs);
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(plan.mutex);
    if (plan.idle.size() < kInstancesKept) plan.idle.push_back(std::move(instance));
  }

  const GraphTable& graph_;
  std::mutex mutex_;
  std::vector<tvm::ffi::Tensor> held_;
  Constants constants_;
  bool is_released_ = false;
  std::list<std::pair<Key, std::shared_ptr<Plan>>> plans_;  // the last used first
};

// Marked used: the unit with the tables may have been compiled without these definitions.
#define ANNOTATED_REGION_DEFINE __attribute__((used)) inline

ANNOTATED_REGION_DEFINE void run_once(Plan& plan) { Instance(plan).run({}, {}); }

ANNOTATED_REGION_DEFINE RegionHandle::RegionHandle(const GraphTable& graph) : region_(new Region(graph)) {}

ANNOTATED_REGION_DEFINE RegionHandle::~RegionHandle() { delete region_; }

ANNOTATED_REGION_DEFINE int RegionHandle::call(const TVMFFIAny* arguments, int32_t count) {
  TVM_FFI_SAFE_CALL_BEGIN();
  region_->call(arguments, count);
  TVM_FFI_SAFE_CALL_END();
}

ANNOTATED_REGION_DEFINE int RegionHandle::set_constants(const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  if (count != 1) TVM_FFI_THROW(TypeError) << "expected one array of constants, got " << count << " arguments";
  const auto constants = tvm::ffi::AnyView::CopyFromTVMFFIAny(arguments[0]).cast<tvm::ffi::Array<tvm::ffi::Tensor>>();
  region_->set_constants(constants);
  *reinterpret_cast<tvm::ffi::Any*>(result) = 0;
  TVM_FFI_SAFE_CALL_END();
}

ANNOTATED_REGION_DEFINE int RegionHandle::describe(TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *reinterpret_cast<tvm::ffi::Any*>(result) = tvm::ffi::String(region_->describe());
  TVM_FFI_SAFE_CALL_END();
}

ANNOTATED_REGION_DEFINE int RegionHandle::times(TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *reinterpret_cast<tvm::ffi::Any*>(result) = tvm::ffi::String(region_->times());
  TVM_FFI_SAFE_CALL_END();
}

ANNOTATED_REGION_DEFINE int RegionHandle::count_plans(TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *reinterpret_cast<tvm::ffi::Any*>(result) = region_->plan_count();
  TVM_FFI_SAFE_CALL_END();
}

ANNOTATED_REGION_DEFINE int RegionHandle::release(TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  region_->release();
  *reinterpret_cast<tvm::ffi::Any*>(result) = nullptr;
  TVM_FFI_SAFE_CALL_END();
}

}  // namespace annotated_region_dnnl
