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
  explicit Region(const GraphTable& whole) : expanded_(suited(whole)), graph_(expanded_.graph()) {
    bind_onednn();
    ForkGate::watch();
    const char* const embedded = graph_.embedded.data;
    if (embedded == nullptr) return;
    for (int index = 0; index < graph_.constants; ++index) {
      const int64_t offset = reinterpret_cast<const int64_t*>(embedded)[index];
      constants_.data.push_back(const_cast<char*>(embedded + offset));
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
    give_back_library(graph_.symbol);
  }

 private:
  void run(const TVMFFIAny* arguments, int count) {
    thread_local Frame frame;  // keeps its memory, so that a call allocates none
    const Call in_progress;
    frame.read(graph_, arguments, count);
    if (frame.is_void()) return;
    execute(*plan_for(frame.key, frame.expressions), frame);
  }

  Dims extents(int tensor, const std::vector<int64_t>& expressions) const {
    return extents_of(graph_.tensors[tensor], expressions.data());
  }

  // Inputs too small for a window or a slice give tensors of a negative extent.
  void require_shape(const Dims& dims) const {
    if (std::all_of(dims.begin(), dims.end(), [](int64_t extent) { return extent >= 0; })) return;
    TVM_FFI_THROW(ValueError) << graph_.symbol << ": the inputs are out of range: a tensor of the region would have shape "
                              << text_of(dims);
  }

  // Whether a plan that was made for `made` serves a call with the extents `key`.
  bool serves(const Plan& plan, const Key& made, const Key& key) const {
    for (size_t index = 0; index < key.size(); ++index) {
      const bool is_extent = index < static_cast<size_t>(graph_.variables.size);
      const bool may_differ = plan.is_open && is_extent && graph_.variables[static_cast<int>(index)].is_open;
      if (made[index] != key[index] && !may_differ) return false;
    }
    return true;
  }

  std::shared_ptr<Plan> plan_for(const Key& key, const std::vector<int64_t>& expressions) {
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto known = plans_.begin(); known != plans_.end(); ++known) {
      if (!serves(*known->second, known->first, key)) continue;
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
    give_back_library(graph_.symbol);  // what TVM's loader has read
    plans_.emplace_front(key, build_plan(graph_, dims, expressions, constants_));
    give_back_library(graph_.symbol);  // what has been packed
    if (plans_.size() > kPlansKept) plans_.pop_back();
    return plans_.front().second;
  }

  // Each concurrent call uses a separate arena.
  static void execute(Plan& plan, const Frame& frame) {
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
    instance->run(frame.inputs, frame.outputs, frame.expressions);
    const ForkGate::Passage passage = ForkGate::pass();
    const std::lock_guard<std::mutex> lock(plan.mutex);
    if (plan.idle.size() < kInstancesKept) plan.idle.push_back(std::move(instance));
  }

  const Expanded expanded_;
  const GraphTable& graph_;
  std::mutex mutex_;
  std::vector<tvm::ffi::Tensor> held_;
  Constants constants_;
  bool is_released_ = false;
  std::list<std::pair<Key, std::shared_ptr<Plan>>> plans_;  // the last used first
};

// Marked used: the unit with the tables may have been compiled without these definitions.
#define ANNOTATED_REGION_DEFINE __attribute__((used)) inline

ANNOTATED_REGION_DEFINE void refuse_division_by_zero() {
  TVM_FFI_THROW(ValueError) << "the inputs are out of range: an extent of a region is divided by one that is 0";
}

ANNOTATED_REGION_DEFINE void run_once(Plan& plan) { Instance(plan).run({}, {}, {}); }

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
