// Runs a library that annotated-region exported: no Python, only TVM's runtime and the libraries of the engines.
//
//     run_model LIBRARY OUTPUT.npy INPUT.npy...
//
// The files are numpy's (numpy.save), one for each parameter of the model. OUTPUT is its first result.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sstream>
#include <string>
#include <vector>

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

namespace {

constexpr int64_t kPooledAllocator = 2;  // TVM's virtual machine keeps the memory of finished calls
constexpr size_t kAlignment = 64;        // what code compiled by TVM relies on

// Memory for a tensor, in the form that TVM's containers ask for.
struct HostMemory {
  void AllocData(DLTensor* tensor) {
    const size_t bytes = (ffi::GetDataSize(*tensor) + kAlignment - 1) / kAlignment * kAlignment;
    tensor->data = std::aligned_alloc(kAlignment, bytes);
    if (tensor->data == nullptr) throw std::bad_alloc();
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

// The functions of a library, through TVM's virtual machine for graphs.
ffi::Module load(const std::string& path) {
  // A name without a folder would be looked for among the system's libraries.
  const ffi::Module library = ffi::Module::LoadFromFile(std::filesystem::absolute(path).string());
  const auto load_executable = library->GetFunction("vm_load_executable", /*query_imports=*/false);
  if (!load_executable.has_value()) throw std::runtime_error(path + " holds no program for TVM's virtual machine");
  const auto machine = load_executable.value()().cast<ffi::Module>();
  machine->GetFunction("vm_initialization", false).value()(static_cast<int64_t>(kDLCPU), int64_t{0}, kPooledAllocator);
  return machine;
}

// Numpy's name of a type of numbers, and TVM's; both of this machine's byte order.
struct Type {
  const char* name;
  DLDataType type;
};

constexpr Type kTypes[] = {
    {"<f4", {kDLFloat, 32, 1}}, {"<f8", {kDLFloat, 64, 1}}, {"<f2", {kDLFloat, 16, 1}}, {"<i8", {kDLInt, 64, 1}},
    {"<i4", {kDLInt, 32, 1}},   {"<i2", {kDLInt, 16, 1}},   {"|i1", {kDLInt, 8, 1}},    {"<u8", {kDLUInt, 64, 1}},
    {"<u4", {kDLUInt, 32, 1}},  {"<u2", {kDLUInt, 16, 1}},  {"|u1", {kDLUInt, 8, 1}},   {"|b1", {kDLBool, 8, 1}},
};

// What a file of numpy begins with: these bytes, the length of the text behind it, and a dictionary as text,
//     {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 224, 224), }
constexpr char kMagic[] = "\x93NUMPY\x01\x00";
constexpr size_t kMagicSize = sizeof(kMagic) - 1;
constexpr size_t kUnit = 64;  // the numbers begin at a multiple of this

// The text between two others that follow each other.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const size_t end = text.find(after, begin + before.size());
  return end == std::string::npos ? "" : text.substr(begin + before.size(), end - begin - before.size());
}

std::string header_of(std::ifstream& file, const std::string& path) {
  char magic[kMagicSize + 2] = {};
  file.read(magic, sizeof(magic));
  if (std::memcmp(magic, kMagic, kMagicSize) != 0) {
    throw std::runtime_error(path + " is no file that numpy.save wrote (version 1.0)");
  }
  const auto low = static_cast<unsigned char>(magic[kMagicSize]);
  const auto high = static_cast<unsigned char>(magic[kMagicSize + 1]);
  std::string header(low + 256u * high, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (!file || between(header, "'fortran_order': ", ",") != "False") {
    throw std::runtime_error(path + " is cut, or its numbers stand column by column");
  }
  return header;
}

ffi::Tensor read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string header = header_of(file, path);
  const std::string name = between(header, "'descr': '", "'");
  const auto* known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& each) { return name == each.name; });
  if (known == std::end(kTypes)) throw std::runtime_error(path + " holds numbers of an unknown type: " + name);
  std::vector<int64_t> extents;
  std::istringstream shape(between(header, "'shape': (", ")"));
  for (std::string extent; std::getline(shape, extent, ',');) {
    if (extent.find_first_not_of(' ') != std::string::npos) extents.push_back(std::stoll(extent));
  }
  const ffi::Tensor tensor =
      ffi::Tensor::FromNDAlloc(HostMemory(), ffi::Shape(extents), known->type, DLDevice{kDLCPU, 0});
  const auto bytes = static_cast<std::streamsize>(ffi::GetDataSize(tensor));
  file.read(static_cast<char*>(tensor.data_ptr()), bytes);
  if (file.gcount() != bytes || file.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(path + " does not hold " + std::to_string(bytes) + " bytes of numbers");
  }
  return tensor;
}

void write(const std::string& path, const ffi::Tensor& tensor) {
  const DLDataType type = tensor.dtype();
  const auto* known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& each) {
    return each.type.code == type.code && each.type.bits == type.bits;
  });
  if (known == std::end(kTypes)) throw std::runtime_error("numpy has no type for the result");
  std::string header = std::string("{'descr': '") + known->name + "', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : tensor.shape()) header += std::to_string(extent) + ", ";
  header += "), }";
  header.append(kUnit - (kMagicSize + 2 + header.size() + 1) % kUnit, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, kMagicSize);
  file.put(static_cast<char>(header.size() % 256)).put(static_cast<char>(header.size() / 256));
  file << header;
  file.write(static_cast<const char*>(tensor.data_ptr()), static_cast<std::streamsize>(ffi::GetDataSize(tensor)));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

// A function returns a tensor, or a tuple of tensors, of which this example takes the first.
ffi::Tensor first_of(const ffi::Any& result) {
  if (const auto tensor = result.try_cast<ffi::Tensor>()) return *tensor;
  return result.cast<ffi::Array<ffi::Tensor>>()[0];
}

void run(int count, char** words) {
  if (count < 3) throw std::runtime_error("usage: run_model LIBRARY OUTPUT.npy INPUT.npy...");
  const ffi::Module machine = load(words[1]);
  std::vector<ffi::Any> inputs;
  for (int index = 3; index < count; ++index) inputs.push_back(read(words[index]));
  const std::vector<ffi::AnyView> arguments(inputs.begin(), inputs.end());
  const ffi::Function main = machine->GetFunction("main", false).value();
  const auto call = [&] {
    ffi::Any result;
    main.CallPacked(arguments.data(), static_cast<int32_t>(arguments.size()), &result);
    return result;
  };
  call();  // the first one packs the weights
  const auto began = std::chrono::steady_clock::now();
  const ffi::Any result = call();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  write(words[2], first_of(result));
  std::printf("%.2f ms\n", took.count());
}

}  // namespace

int main(int count, char** words) {
  try {
    run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
