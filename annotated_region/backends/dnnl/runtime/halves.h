// Kernels that convert between the 16-bit storage types, float16 and bfloat16, and float32.

namespace annotated_region_dnnl {

constexpr auto kRounded = DataType::bf16;
constexpr int64_t kRunLength = 4096;  // elements that a thread takes at once

inline bool is_half(DataType type) { return type == DataType::f16 || type == DataType::bf16; }

// Converts between float32 and a 16-bit type, in either direction.
inline void convert_run(DataType from_type, const char* from, DataType to_type, char* to, int64_t size) {
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  const auto* floats = reinterpret_cast<const float*>(from);
  if (from_type == DataType::f16) return widen_float16(halves, reinterpret_cast<float*>(to), size);
  if (from_type == DataType::bf16) return widen_bfloat16(halves, reinterpret_cast<float*>(to), size);
  if (to_type == DataType::f16) return narrow_float16(floats, reinterpret_cast<uint16_t*>(to), size);
  return round_row(floats, reinterpret_cast<uint16_t*>(to), size);
}

// A kernel that converts contiguous elements.
inline Kernel converting_kernel(DataType from, DataType to, int64_t count) {
  const auto from_bytes = static_cast<int64_t>(dnnl::memory::data_type_size(from));
  const auto to_bytes = static_cast<int64_t>(dnnl::memory::data_type_size(to));
  return [=](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t first = 0; first < count; first += kRunLength) {
      const int64_t size = std::min(kRunLength, count - first);
      convert_run(from, pointers[0] + first * from_bytes, to, pointers[1] + first * to_bytes, size);
    }
  };
}

}  // namespace annotated_region_dnnl
