// Runs a region in inference requests of a compiled model, through OpenVINO's C interface.
//
// The headers are those of the wheel that the module is built with. The library that is loaded must have the same
// year and number, because claims and repairs are specific to the plugin's release.
#include <openvino/c/openvino.h>
#include <unistd.h>

#include <string_view>

#define ANNOTATED_REGION_OPENVINO_FUNCTIONS(use)                                                          \
  use(ov_free) use(ov_get_last_err_msg) use(ov_get_openvino_version) use(ov_version_free)                 \
  use(ov_core_create) use(ov_core_read_model_from_memory_buffer) use(ov_core_compile_model_props)         \
  use(ov_model_free) use(ov_tensor_create_from_host_ptr) use(ov_tensor_free)                              \
  use(ov_compiled_model_inputs_size) use(ov_compiled_model_input_by_name)                                 \
  use(ov_compiled_model_create_infer_request) use(ov_infer_request_set_tensor_by_const_port)              \
  use(ov_infer_request_set_output_tensor_by_index) use(ov_infer_request_infer) use(ov_infer_request_free) \
  use(ov_output_const_port_free) use(ov_compiled_model_free)

namespace annotated_region_native {
namespace {

constexpr char kOpenVino[] = "OpenVINO";
constexpr char kDevice[] = "CPU";

// The functions of the C interface that are used, under their own names.
struct OpenVinoFunctions {
#define ANNOTATED_REGION_MEMBER(name) decltype(&::name) name;
  ANNOTATED_REGION_OPENVINO_FUNCTIONS(ANNOTATED_REGION_MEMBER)
#undef ANNOTATED_REGION_MEMBER

  explicit OpenVinoFunctions(void* library) {
#define ANNOTATED_REGION_FOUND(name) name = symbol_of<decltype(name)>(library, kOpenVino, #name);
    ANNOTATED_REGION_OPENVINO_FUNCTIONS(ANNOTATED_REGION_FOUND)
#undef ANNOTATED_REGION_FOUND
  }
};

// Keeps OpenVINO from converting divisions into products with rounded reciprocals. The C interface has no function
// for this, so it uses functions of the C++ library under their mangled names, and the shared pointer at the start
// of `ov_model_t`. This holds for the tested releases, which are checked before; a test divides by 41.
class Divisions {
 public:
  explicit Divisions(void* library)
      : ordered_(symbol_of<decltype(ordered_)>(library, kOpenVino, "_ZNK2ov5Model15get_ordered_opsEv")),
        name_(symbol_of<decltype(name_)>(library, kOpenVino, "_ZNK2ov4Node17get_friendly_nameB5cxx11Ev")),
        keep_(symbol_of<decltype(keep_)>(library, kOpenVino,
                                         "_ZN2ov25disable_divide_conversionERKSt10shared_ptrINS_4NodeEE")) {}

  void keep(const ov_model_t* model) const {
    const std::string beginning = "kept_quotient_";
    for (const std::shared_ptr<Node>& each : ordered_(*reinterpret_cast<const Model* const*>(model))) {
      if (name_(each.get()).compare(0, beginning.size(), beginning) == 0) keep_(each);
    }
  }

 private:
  struct Model;
  struct Node;
  std::vector<std::shared_ptr<Node>> (*ordered_)(const Model*);
  const std::string& (*name_)(const Node*);
  void (*keep_)(const std::shared_ptr<Node>&);
};

// OpenVINO's code of a data type.
inline ov_element_type_e openvino_type(const char* symbol, DLDataType type) {
  struct Row {
    int code, bits;
    ov_element_type_e number;
  };
  constexpr Row rows[] = {
      {kDLFloat, 32, F32}, {kDLFloat, 16, F16}, {kDLInt, 8, I8},       {kDLUInt, 8, U8},
      {kDLInt, 32, I32},   {kDLInt, 64, I64},   {kDLBool, 8, BOOLEAN}, {kDLUInt, 1, BOOLEAN},
  };
  for (const Row& row : rows) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.number;
  }
  TVM_FFI_THROW(TypeError) << symbol << ": regions of " << kOpenVino << " have no tensors of type "
                           << ffi::DLDataTypeToString(type);
}

// OpenVINO in this process, loaded when the first region runs.
class OpenVino {
 public:
  static const OpenVino& instance() {
    static const OpenVino loaded;
    return loaded;
  }

  const OpenVinoFunctions& functions() const { return functions_; }
  const Divisions& divisions() const { return divisions_; }
  const ov_core_t* core() const { return core_; }

  // Raises OpenVINO's last error message.
  void require(const char* symbol, ov_status_e status) const {
    if (status == OK) return;
    const char* said = functions_.ov_get_last_err_msg();
    const std::string message = said == nullptr ? "" : said;
    functions_.ov_free(said);
    TVM_FFI_THROW(RuntimeError) << symbol << ": " << kOpenVino << ": "
                                << (message.empty() ? "status " + std::to_string(status) : message);
  }

  // Raises an error if the library is of another release than the one that the region was built for.
  void require_release(const std::string& wanted) const {
    if (version_.compare(0, wanted.size() + 1, wanted + ".") == 0) return;
    TVM_FFI_THROW(BackendUnavailableError) << kOpenVino << " " << version_ << " is installed; the region was built for "
                                           << wanted << "; build it again, or install that";
  }

 private:
  // The C interface depends on the C++ library, so looking up symbols in it also finds those of the C++ library.
  OpenVino() : OpenVino(open_engine(kOpenVino, "libopenvino_c.so")) {
    if (access("/proc/cpuinfo", R_OK) == 0) return;
    TVM_FFI_THROW(BackendUnavailableError) << kOpenVino << " counts processors in /proc/cpuinfo, which is not "
                                           << "readable, and would hang without it; mount /proc";
  }
  explicit OpenVino(void* library) : functions_(library), divisions_(library) {
    ov_version_t version = {};
    require("openvino", functions_.ov_get_openvino_version(&version));
    version_ = version.buildNumber;
    functions_.ov_version_free(&version);
    require("openvino", functions_.ov_core_create(&core_));
  }

  OpenVinoFunctions functions_;
  Divisions divisions_;
  std::string version_;
  ov_core_t* core_ = nullptr;
};

// An OpenVINO tensor in borrowed memory.
class OpenVinoTensor {
 public:
  OpenVinoTensor(const char* symbol, void* data, std::vector<int64_t> shape, ov_element_type_e type) {
    const OpenVino& runtime = OpenVino::instance();
    const ov_shape_t extents = {static_cast<int64_t>(shape.size()), shape.data()};
    runtime.require(symbol, runtime.functions().ov_tensor_create_from_host_ptr(type, extents, data, &tensor_));
  }
  OpenVinoTensor(const OpenVinoTensor&) = delete;
  OpenVinoTensor& operator=(const OpenVinoTensor&) = delete;
  ~OpenVinoTensor() { OpenVino::instance().functions().ov_tensor_free(tensor_); }

  const ov_tensor_t* get() const { return tensor_; }

 private:
  ov_tensor_t* tensor_ = nullptr;
};

// The compiled model of a region; concurrent calls use separate requests.
class CompiledRegion {
 public:
  CompiledRegion(const RegionTable& region, const ffi::Array<ffi::Tensor>& weights)
      : region_(region), runtime_(OpenVino::instance()) {
    runtime_.require_release(setting_of(region, "version"));
    if (weights.size() != count_of(region.weights)) {
      TVM_FFI_THROW(RuntimeError) << region.symbol << ": called before its constants were loaded";
    }
    lay_constants(weights);
    compile();
    find_inputs();
  }

  CompiledRegion(const CompiledRegion&) = delete;
  CompiledRegion& operator=(const CompiledRegion&) = delete;
  // Joins threads, so it must not run while a library is unloaded; the entry only destroys it on request.
  ~CompiledRegion() {
    for (ov_infer_request_t* request : idle_) functions().ov_infer_request_free(request);
    for (const Input& input : inputs_) functions().ov_output_const_port_free(input.port);
    functions().ov_compiled_model_free(compiled_);
  }

  void run(ffi::PackedArgs arguments) {
    std::vector<Operand> operands = operands_of(region_, arguments);
    const size_t input_count = count_of(region_.inputs);
    if (std::all_of(operands.begin() + input_count, operands.end(), is_empty)) return;
    if (pools_) require_elements(operands);
    // A request that failed is not reused.
    const auto release = [this](ov_infer_request_t* failed) { functions().ov_infer_request_free(failed); };
    std::unique_ptr<ov_infer_request_t, decltype(release)> request(take(), release);
    for (const Input& input : inputs_) {
      Operand& each = operands[input.number];
      const OpenVinoTensor tensor(region_.symbol, each.read(), each.shape(), type_of(each));
      require(functions().ov_infer_request_set_tensor_by_const_port(request.get(), input.port, tensor.get()));
    }
    for (size_t number = input_count; number < operands.size(); ++number) {
      Operand& each = operands[number];
      const OpenVinoTensor tensor(region_.symbol, each.written(), each.shape(), type_of(each));
      require(functions().ov_infer_request_set_output_tensor_by_index(request.get(), number - input_count, tensor.get()));
    }
    require(functions().ov_infer_request_infer(request.get()));
    give_back(request.release());
    for (size_t number = input_count; number < operands.size(); ++number) operands[number].bring_back();
  }

 private:
  // An input of the compiled model, and the number of its argument.
  struct Input {
    size_t number;
    ov_output_const_port_t* port;
  };

  const OpenVinoFunctions& functions() const { return runtime_.functions(); }
  void require(ov_status_e status) const { runtime_.require(region_.symbol, status); }
  ov_element_type_e type_of(const Operand& each) const { return openvino_type(region_.symbol, each.type()); }
  static bool is_empty(const Operand& each) {
    return std::find(each.shape().begin(), each.shape().end(), 0) != each.shape().end();
  }

  bool has_pools() const {
    const std::string_view text(reinterpret_cast<const char*>(region_.native.text), region_.native.text_size);
    return text.find("type=\"MaxPool\"") != text.npos || text.find("type=\"AvgPool\"") != text.npos;
  }

  // After a call without images, a pooling leaves the results of later ones as they were.
  void require_elements(const std::vector<Operand>& operands) const {
    for (const Input& input : inputs_) {
      if (!is_empty(operands[input.number])) continue;
      TVM_FFI_THROW(ArgumentError) << region_.symbol << ": argument " << input.number
                                      << " has no elements; after such a call OpenVINO's pooling returns stale results, so do "
                                      "not call the region with empty tensors";
    }
  }

  // Copies weights and small constants to the offsets that the IR of the model refers to.
  void lay_constants(const ffi::Array<ffi::Tensor>& weights) {
    const NativeModel& model = region_.native;
    constants_ = std::make_unique<char[]>(model.data_size + 1);  // the extra byte gives a buffer without constants an address
    for (const ModelPart* part = model.parts; part != model.parts + model.part_count; ++part) {
      const void* from = part->weight < 0 ? part->bytes : weights[part->weight].data_ptr();
      std::memcpy(constants_.get() + part->offset, from, part->size);
    }
  }

  void compile() {
    const NativeModel& text = region_.native;
    const std::vector<int64_t> extent = {static_cast<int64_t>(text.data_size)};
    const OpenVinoTensor constants(region_.symbol, constants_.get(), extent, U8);
    ov_model_t* model = nullptr;
    require(functions().ov_core_read_model_from_memory_buffer(
        runtime_.core(), reinterpret_cast<const char*>(text.text), text.text_size, constants.get(), &model));
    const auto release = [this](ov_model_t* read) { functions().ov_model_free(read); };
    const std::unique_ptr<ov_model_t, decltype(release)> owned(model, release);
    runtime_.divisions().keep(model);
    const std::vector<ov_property_t> properties = properties_of(region_);
    require(functions().ov_core_compile_model_props(runtime_.core(), model, kDevice, properties.size(),
                                                    properties.data(), &compiled_));
  }

  // All settings except the release, which is not a property of OpenVINO.
  static std::vector<ov_property_t> properties_of(const RegionTable& region) {
    std::vector<ov_property_t> found;
    for (const char* const* pair = region.settings; *pair != nullptr; pair += 2) {
      if (std::strcmp(pair[0], "version") != 0) found.push_back({pair[0], pair[1]});
    }
    return found;
  }

  // Finds the arguments that are inputs of the compiled model; unused arguments have no input.
  void find_inputs() {
    size_t count = 0;
    require(functions().ov_compiled_model_inputs_size(compiled_, &count));
    for (size_t number = 0; region_.inputs[number] != nullptr; ++number) {
      ov_output_const_port_t* port = nullptr;
      const char* name = region_.inputs[number];
      if (functions().ov_compiled_model_input_by_name(compiled_, name, &port) == OK) inputs_.push_back({number, port});
    }
    if (inputs_.size() != count) {
      TVM_FFI_THROW(InternalError) << region_.symbol << ": " << count << " inputs were compiled, " << inputs_.size()
                                   << " were found by name";
    }
  }

  // A request that no concurrent call uses; the pool grows to the number of concurrent calls.
  ov_infer_request_t* take() {
    {
      const std::lock_guard<std::mutex> guard(lock_);
      if (!idle_.empty()) {
        ov_infer_request_t* last = idle_.back();
        idle_.pop_back();
        return last;
      }
    }
    ov_infer_request_t* made = nullptr;
    require(functions().ov_compiled_model_create_infer_request(compiled_, &made));
    return made;
  }

  void give_back(ov_infer_request_t* request) {
    const std::lock_guard<std::mutex> guard(lock_);
    idle_.push_back(request);
  }

  const RegionTable& region_;
  const OpenVino& runtime_;
  std::unique_ptr<char[]> constants_;  // the compiled model may read them in place
  std::vector<Input> inputs_;
  const bool pools_ = has_pools();
  std::mutex lock_;
  std::vector<ov_infer_request_t*> idle_;
  ov_compiled_model_t* compiled_ = nullptr;
};

}  // namespace

extern "C" __attribute__((used, visibility("hidden"))) inline int annotated_region_open_openvino(
    const RegionTable& region, TVMFFIObjectHandle weights, TVMFFIObjectHandle* made) {
  return make_runner<CompiledRegion>(region, weights, made);
}

}  // namespace annotated_region_native
