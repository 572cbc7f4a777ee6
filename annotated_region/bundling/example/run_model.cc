// Runs a library that annotated-region exported: no Python, only TVM's runtime and oneDNN.
//
//     run_model LIBRARY INPUT OUTPUT EXTENT...
//
// INPUT and OUTPUT are files of float32 numbers without a header; the extents are those of the input.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
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

ffi::Tensor read(const std::string& path, const std::vector<int64_t>& extents) {
  const ffi::Tensor tensor =
      ffi::Tensor::FromNDAlloc(HostMemory(), ffi::Shape(extents), DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  std::ifstream file(path, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(ffi::GetDataSize(tensor));
  file.read(static_cast<char*>(tensor.data_ptr()), bytes);
  if (file.gcount() != bytes || file.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(path + " does not hold " + std::to_string(bytes) + " bytes");
  }
  return tensor;
}

void write(const std::string& path, const ffi::Tensor& tensor) {
  std::ofstream file(path, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(ffi::GetDataSize(tensor));
  file.write(static_cast<const char*>(tensor.data_ptr()), bytes);
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

// A function returns a tensor, or a tuple of tensors, of which this example takes the first.
ffi::Tensor first_of(const ffi::Any& result) {
  if (const auto tensor = result.try_cast<ffi::Tensor>()) return *tensor;
  return result.cast<ffi::Array<ffi::Tensor>>()[0];
}

void run(int count, char** words) {
  if (count < 5) throw std::runtime_error("usage: run_model LIBRARY INPUT OUTPUT EXTENT...");
  std::vector<int64_t> extents;
  for (int index = 4; index < count; ++index) extents.push_back(std::stoll(words[index]));
  const ffi::Module machine = load(words[1]);
  const ffi::Tensor input = read(words[2], extents);
  const ffi::Function main = machine->GetFunction("main", false).value();
  ffi::Tensor output = first_of(main(input));  // the first call packs the weights
  const auto began = std::chrono::steady_clock::now();
  output = first_of(main(input));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  write(words[3], output);
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
