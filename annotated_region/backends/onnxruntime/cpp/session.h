// Runs a region in a session of ONNX Runtime, by its C interface.
//
// That interface is a table of functions, in which each has its place for ever: later versions append. The places
// and signatures below are those of version 17 of it (ONNX Runtime 1.17, onnxruntime_c_api.h); the wheel has no
// header. A test calls every one of them.

namespace annotated_region_native {
namespace {

constexpr char kOnnxRuntime[] = "ONNX Runtime";
constexpr uint32_t kApiVersion = 17;
constexpr int kErrors = 3;           // log what is an error, and nothing below
constexpr int kDeviceAllocator = 0;  // memory as it is, without an arena
constexpr int kDefaultMemory = 0;

struct OrtStatus;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtMemoryInfo;
struct OrtValue;

struct OrtApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*version)();
};

// The functions that are used, with their places in the table.
struct OrtFunctions {
  explicit OrtFunctions(const void* const* table)
      : message(at<decltype(message)>(table, 2)),
        create_env(at<decltype(create_env)>(table, 3)),
        create_session(at<decltype(create_session)>(table, 8)),
        run(at<decltype(run)>(table, 9)),
        create_options(at<decltype(create_options)>(table, 10)),
        set_log_level(at<decltype(set_log_level)>(table, 22)),
        set_optimization(at<decltype(set_optimization)>(table, 23)),
        set_threads(at<decltype(set_threads)>(table, 24)),
        set_parallel_operators(at<decltype(set_parallel_operators)>(table, 25)),
        create_tensor(at<decltype(create_tensor)>(table, 49)),
        create_host_memory(at<decltype(create_host_memory)>(table, 69)),
        release_status(at<decltype(release_status)>(table, 93)),
        release_session(at<decltype(release_session)>(table, 95)),
        release_value(at<decltype(release_value)>(table, 96)),
        release_options(at<decltype(release_options)>(table, 100)),
        add_config_entry(at<decltype(add_config_entry)>(table, 130)),
        add_weights(at<decltype(add_weights)>(table, 210)) {}

  const char* (*message)(const OrtStatus*);
  OrtStatus* (*create_env)(int level, const char* name, OrtEnv**);
  OrtStatus* (*create_session)(const OrtEnv*, const void* model, size_t bytes, const OrtSessionOptions*, OrtSession**);
  OrtStatus* (*run)(OrtSession*, const void* options, const char* const* inputs, const OrtValue* const* values,
                    size_t input_count, const char* const* outputs, size_t output_count, OrtValue** results);
  OrtStatus* (*create_options)(OrtSessionOptions**);
  OrtStatus* (*set_log_level)(OrtSessionOptions*, int level);
  OrtStatus* (*set_optimization)(OrtSessionOptions*, int level);
  OrtStatus* (*set_threads)(OrtSessionOptions*, int count);
  OrtStatus* (*set_parallel_operators)(OrtSessionOptions*, int count);
  OrtStatus* (*create_tensor)(const OrtMemoryInfo*, void* data, size_t bytes, const int64_t* shape, size_t rank,
                              int type, OrtValue**);
  OrtStatus* (*create_host_memory)(int allocator, int kind, OrtMemoryInfo**);
  void (*release_status)(OrtStatus*);
  void (*release_session)(OrtSession*);
  void (*release_value)(OrtValue*);
  void (*release_options)(OrtSessionOptions*);
  OrtStatus* (*add_config_entry)(OrtSessionOptions*, const char* key, const char* value);
  OrtStatus* (*add_weights)(OrtSessionOptions*, const char* const* names, const OrtValue* const* values, size_t count);

 private:
  template <typename Function>
  static Function at(const void* const* table, int place) {
    return reinterpret_cast<Function>(const_cast<void*>(table[place]));
  }
};

// ONNX's number of a data type.
inline int onnx_type(const char* symbol, DLDataType type) {
  struct Row {
    int code, bits, number;
  };
  constexpr Row rows[] = {
      {kDLFloat, 32, 1}, {kDLUInt, 8, 2},   {kDLInt, 8, 3},     {kDLUInt, 16, 4}, {kDLInt, 16, 5},
      {kDLInt, 32, 6},   {kDLInt, 64, 7},   {kDLBool, 8, 9},    {kDLUInt, 1, 9},  {kDLFloat, 16, 10},
      {kDLFloat, 64, 11}, {kDLUInt, 32, 12}, {kDLUInt, 64, 13}, {kDLBfloat, 16, 16},
  };
  for (const Row& row : rows) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.number;
  }
  TVM_FFI_THROW(TypeError) << symbol << ": " << kOnnxRuntime << " has no tensors of type "
                           << ffi::DLDataTypeToString(type);
}

// ONNX Runtime in this process, loaded when the first region runs.
class OnnxRuntime {
 public:
  static const OnnxRuntime& instance() {
    static const OnnxRuntime loaded;
    return loaded;
  }

  const OrtFunctions& functions() const { return *functions_; }
  const OrtEnv* env() const { return env_; }
  const OrtMemoryInfo* host() const { return host_; }

  // Raises what a function of ONNX Runtime says that is wrong.
  void require(const char* symbol, OrtStatus* status) const {
    if (status == nullptr) return;
    const std::string message = functions_->message(status);
    functions_->release_status(status);
    TVM_FFI_THROW(RuntimeError) << symbol << ": " << kOnnxRuntime << ": " << message;
  }

 private:
  OnnxRuntime() {
    void* library = open_engine(kOnnxRuntime, "libonnxruntime.so");
    const auto* base = symbol_of<const OrtApiBase* (*)()>(library, kOnnxRuntime, "OrtGetApiBase")();
    const std::string version = base->version();
    int major = 0, minor = 0;
    char point = 0;
    std::istringstream(version) >> major >> point >> minor;
    const bool is_known = major == 1 && minor >= static_cast<int>(kApiVersion);
    const void* const* table = is_known ? base->get_api(kApiVersion) : nullptr;
    if (table == nullptr) {
      TVM_FFI_THROW(BackendUnavailableError) << kOnnxRuntime << " " << version << " is installed; regions need 1."
                                             << kApiVersion << " or a later 1.x";
    }
    functions_ = std::make_unique<OrtFunctions>(table);
    require("onnxruntime", functions_->create_env(kErrors, "annotated_region", &env_));
    require("onnxruntime", functions_->create_host_memory(kDeviceAllocator, kDefaultMemory, &host_));
  }

  std::unique_ptr<OrtFunctions> functions_;
  OrtEnv* env_ = nullptr;
  OrtMemoryInfo* host_ = nullptr;
};

// Tensors of ONNX Runtime in memory that belongs to others.
class Values {
 public:
  explicit Values(const char* symbol) : symbol_(symbol), runtime_(OnnxRuntime::instance()) {}
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  ~Values() {
    for (OrtValue* value : values_) runtime_.functions().release_value(value);
  }

  void add(void* data, size_t bytes, const std::vector<int64_t>& shape, DLDataType type) {
    OrtValue* value = nullptr;
    const int number = onnx_type(symbol_, type);
    runtime_.require(symbol_, runtime_.functions().create_tensor(runtime_.host(), data, bytes, shape.data(),
                                                                 shape.size(), number, &value));
    values_.push_back(value);
  }

  OrtValue** data() { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  const char* symbol_;
  const OnnxRuntime& runtime_;
  std::vector<OrtValue*> values_;
};

// The session of a region; several threads may run it at once.
class Session {
 public:
  Session(const RegionTable& region, const ffi::Array<ffi::Tensor>& weights)
      : region_(region), runtime_(OnnxRuntime::instance()), weights_(weights) {
    OrtSessionOptions* options = nullptr;
    require(functions().create_options(&options));
    const auto release = [this](OrtSessionOptions* made) { functions().release_options(made); };
    const std::unique_ptr<OrtSessionOptions, decltype(release)> owned(options, release);
    configure(options);
    Values values(region.symbol);
    for (const ffi::Tensor& tensor : weights) {
      const std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
      values.add(tensor.data_ptr(), ffi::GetDataSize(tensor), shape, tensor.dtype());
    }
    if (values.size() != count_of(region.weights)) {
      TVM_FFI_THROW(RuntimeError) << region.symbol << ": called before its constants were loaded";
    }
    if (values.size() > 0) require(functions().add_weights(options, region.weights, values.data(), values.size()));
    require(functions().create_session(runtime_.env(), region.model, region.model_size, options, &session_));
  }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Joins threads, so it must not run while a library is unloaded; the entry only destroys it on request.
  ~Session() {
    if (session_ != nullptr) functions().release_session(session_);
  }

  void run(ffi::PackedArgs arguments) {
    std::vector<Operand> operands = operands_of(region_, arguments);
    const size_t input_count = count_of(region_.inputs);
    Values inputs(region_.symbol), outputs(region_.symbol);
    for (size_t number = 0; number < operands.size(); ++number) {
      Operand& each = operands[number];
      const bool is_input = number < input_count;
      void* place = is_input ? each.read() : each.written();
      (is_input ? inputs : outputs).add(place, each.bytes(), each.shape(), each.type());
    }
    require(functions().run(session_, nullptr, region_.inputs, inputs.data(), inputs.size(), region_.outputs,
                            outputs.size(), outputs.data()));
    for (size_t number = input_count; number < operands.size(); ++number) operands[number].bring_back();
  }

 private:
  const OrtFunctions& functions() const { return runtime_.functions(); }
  void require(OrtStatus* status) const { runtime_.require(region_.symbol, status); }

  // Settings with a point in their names are ONNX Runtime's own entries.
  void configure(OrtSessionOptions* options) const {
    require(functions().set_threads(options, std::stoi(setting_of(region_, "threads"))));
    require(functions().set_parallel_operators(options, 1));
    require(functions().set_optimization(options, std::stoi(setting_of(region_, "optimization"))));
    require(functions().set_log_level(options, kErrors));
    for (const char* const* pair = region_.settings; *pair != nullptr; pair += 2) {
      if (std::strchr(pair[0], '.') != nullptr) require(functions().add_config_entry(options, pair[0], pair[1]));
    }
  }

  const RegionTable& region_;
  const OnnxRuntime& runtime_;
  ffi::Array<ffi::Tensor> weights_;  // the session may read them where they lie
  OrtSession* session_ = nullptr;
};

}  // namespace

extern "C" __attribute__((used, visibility("hidden"))) inline int annotated_region_open_onnxruntime(
    const RegionTable& region, TVMFFIObjectHandle weights, TVMFFIObjectHandle* made) {
  return make_runner<Session>(region, weights, made);
}

}  // namespace annotated_region_native
