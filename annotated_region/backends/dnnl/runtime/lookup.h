// Functions of bytes with results of bytes, as tables of 256 results.

namespace annotated_region_dnnl {

using LookUp = void (*)(const uint8_t* from, const uint8_t* table, uint8_t* to, int64_t size);

inline void look_up(const uint8_t* from, const uint8_t* table, uint8_t* to, int64_t size) {
  for (int64_t item = 0; item < size; ++item) to[item] = table[from[item]];
}

#if defined(__x86_64__) && defined(__GNUC__)
#define ANNOTATED_REGION_VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))

// Four registers hold the table: one permutation reads the first half, one the second, and bit 7 chooses between them.
ANNOTATED_REGION_VBMI inline void look_up_64(const uint8_t* from, const uint8_t* table, uint8_t* to, int64_t size) {
  constexpr int64_t kWidth = 64;
  std::array<__m512i, 4> part;
  for (int64_t index = 0; index < 4; ++index) part[index] = _mm512_loadu_si512(table + index * kWidth);
  for (int64_t first = 0; first < size; first += kWidth) {
    const int64_t left = size - first;
    const __mmask64 present = left >= kWidth ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    const __m512i place = _mm512_maskz_loadu_epi8(present, from + first);
    const __m512i low = _mm512_permutex2var_epi8(part[0], place, part[1]);
    const __m512i high = _mm512_permutex2var_epi8(part[2], place, part[3]);
    _mm512_mask_storeu_epi8(to + first, present, _mm512_mask_blend_epi8(_mm512_movepi8_mask(place), low, high));
  }
}

inline LookUp fastest_look_up() { return __builtin_cpu_supports("avx512vbmi") ? look_up_64 : look_up; }
#else
inline LookUp fastest_look_up() { return look_up; }
#endif

// inputs: bytes; the table, in the order of bytes without signs.
inline void lookup(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  const Desc from = flat_layout(builder, src, builder.type(src)), to = retyped(from, builder.type(node.output));
  const Desc table = builder.plain(node.inputs[1]);
  const int64_t count = volume(builder.dims(src), 0, builder.dims(src).size());
  const LookUp run = fastest_look_up();
  const auto kernel = [=](const std::vector<char*>& pointers) {
    const auto bytes = [&](int index) { return reinterpret_cast<uint8_t*>(pointers[index]); };
#pragma omp parallel for
    for (int64_t first = 0; first < count; first += kRunLength) {
      run(bytes(0) + first, bytes(1), bytes(2) + first, std::min(kRunLength, count - first));
    }
  };
  const Place source = builder.fetch(src, from), results = builder.fetch(node.inputs[1], table);
  const Place place = builder.over_or_fresh(source, to);
  builder.add_kernel(kernel, {{DNNL_ARG_SRC, from, source}, {DNNL_ARG_SRC_1, table, results}, {DNNL_ARG_DST, to, place}},
                     "lookup " + layout_name(to));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
