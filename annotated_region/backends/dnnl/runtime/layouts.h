// Queries and transformations of memory descriptors: names, equality of layouts, views.

namespace annotated_region_dnnl {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

inline dnnl::algorithm algorithm_of(dnnl_alg_kind_t kind) { return static_cast<dnnl::algorithm>(kind); }

using DataType = dnnl::memory::data_type;

constexpr auto kFloat = DataType::f32;
// oneDNN has no 64-bit integers, and no primitive here processes them; their descriptors use a type of equal size.
constexpr auto kLong = DataType::f64;

inline bool is_whole(DataType type) { return type == DataType::s32 || type == kLong; }

// An element type in oneDNN, and in DLPack for the caller's tensors.
struct TypeRow {
  DataType stored;
  int code;
  int bits;
  const char* name;
};

inline TypeRow type_row(Type type) {
  switch (type) {
    case Type::float32: return {DataType::f32, kDLFloat, 32, "float32"};
    case Type::truth: return {DataType::u8, kDLBool, 8, "bool"};
    case Type::int8: return {DataType::s8, kDLInt, 8, "int8"};
    case Type::uint8: return {DataType::u8, kDLUInt, 8, "uint8"};
    case Type::int32: return {DataType::s32, kDLInt, 32, "int32"};
    case Type::int64: return {kLong, kDLInt, 64, "int64"};
    case Type::float16: return {DataType::f16, kDLFloat, 16, "float16"};
    case Type::bfloat16: return {DataType::bf16, kDLBfloat, 16, "bfloat16"};
  }
  return {};
}

inline Dims dims_of(const List<int64_t>& extents) { return Dims(extents.begin(), extents.end()); }

inline int64_t volume(const Dims& dims, size_t first, size_t last) {
  int64_t product = 1;
  for (size_t axis = first; axis < last; ++axis) product *= dims[axis];
  return product;
}

inline bool is_empty(const Dims& dims) { return std::find(dims.begin(), dims.end(), 0) != dims.end(); }

inline std::string text_of(const int64_t* extents, int rank) {
  std::ostringstream text;
  text << "(";
  for (int axis = 0; axis < rank; ++axis) text << (axis > 0 ? ", " : "") << extents[axis];
  text << ")";
  return text.str();
}

inline std::string text_of(const Dims& dims) { return text_of(dims.data(), static_cast<int>(dims.size())); }

inline Dims dense_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (int axis = static_cast<int>(dims.size()) - 2; axis >= 0; --axis) {
    strides[axis] = strides[axis + 1] * std::max<int64_t>(dims[axis + 1], 1);
  }
  return strides;
}

// The strides of a dense tensor whose axis 1 is innermost in memory.
inline Dims channels_last_strides(const Dims& dims) {
  Dims order = dims;
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  Dims strides = dense_strides(order);
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return strides;
}

// Whether both strides place every element at the same offset; strides of axes of extent one do not matter.
inline bool same_places(const Dims& dims, const Dims& left, const Dims& right) {
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] != 1 && left[axis] != right[axis]) return false;
  }
  return true;
}

// Canonicalizes the strides of axes of extent one. They do not affect the layout, but oneDNN derives the order of
// axes in memory from all strides, and its primitives give wrong results if two operands with the same layout appear
// to have different orders. The canonical choice is the plain strides or those of channels last if equivalent;
// otherwise each axis of extent one is outside of all axes after it, which oneDNN's products need for the batch of
// interleaved heads.
inline Dims canonical_strides(const Dims& dims, Dims strides) {
  const Dims plain = dense_strides(dims);
  if (same_places(dims, strides, plain)) return plain;
  if (dims.size() > 2) {
    const Dims channels_last = channels_last_strides(dims);
    if (same_places(dims, strides, channels_last)) return channels_last;
  }
  int64_t reach = 1;  // of the axes behind this one
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] == 1) strides[axis] = reach;
    reach = std::max(reach, strides[axis] * dims[axis]);
  }
  return strides;
}

// The only function that creates descriptors from strides.
inline Desc strided(const Dims& dims, DataType type, const Dims& strides) {
  return Desc(dims, type, canonical_strides(dims, strides));
}

inline Desc plain(const Dims& dims, DataType type) { return strided(dims, type, dense_strides(dims)); }

inline Desc channels_last(const Dims& dims, DataType type) { return Desc(dims, type, channels_last_strides(dims)); }

inline Desc any(const Dims& dims, DataType type) { return Desc(dims, type, Tag::any); }

inline size_t element_bytes(const Desc& desc) { return dnnl::memory::data_type_size(desc.get_data_type()); }

inline bool is_blocked_kind(const Desc& desc) {
  return desc.get_format_kind() == dnnl::memory::format_kind::blocked;
}

inline bool is_strided(const Desc& desc) { return is_blocked_kind(desc) && desc.get_inner_nblks() == 0; }

inline bool is_padded(const Desc& desc) { return desc.get_padded_dims() != desc.get_dims(); }

// The same layout with canonical strides.
inline Desc canonical(const Desc& desc) {
  if (!is_strided(desc) || is_padded(desc)) return desc;
  return strided(desc.get_dims(), desc.get_data_type(), desc.get_strides());
}

// Whether the layout has no gaps between elements.
inline bool is_dense(const Desc& desc) {
  if (!is_strided(desc)) return true;
  size_t count = 1;
  for (int64_t extent : desc.get_dims()) count *= static_cast<size_t>(extent);
  return desc.get_size() == count * element_bytes(desc);
}

struct Run {
  int64_t extent;
  int64_t stride;
};

// For each axis, its (extent, stride) runs from the outermost block to the innermost, without runs of extent one
// and with contiguous runs merged. Two layouts are equal if and only if these lists are equal.
inline std::vector<std::vector<Run>> axis_runs(const Desc& desc) {
  const Dims dims = desc.get_dims();
  const Dims strides = desc.get_strides();
  const Dims blocks = desc.get_inner_blks();
  const Dims axes = desc.get_inner_idxs();
  std::vector<std::vector<Run>> inner(dims.size());
  Dims outer = dims;
  int64_t stride = 1;
  for (int block = desc.get_inner_nblks() - 1; block >= 0; --block) {
    inner[axes[block]].insert(inner[axes[block]].begin(), Run{blocks[block], stride});
    outer[axes[block]] /= blocks[block];
    stride *= blocks[block];
  }
  std::vector<std::vector<Run>> runs(dims.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    inner[axis].insert(inner[axis].begin(), Run{outer[axis], strides[axis]});
    for (const Run& run : inner[axis]) {
      if (run.extent == 1) continue;
      auto& list = runs[axis];
      if (!list.empty() && list.back().stride == run.extent * run.stride) {
        list.back() = Run{list.back().extent * run.extent, run.stride};
      } else {
        list.push_back(run);
      }
    }
  }
  return runs;
}

// Whether both descriptors place every element at the same offset, so that no reorder is needed.
inline bool same_bytes(const Desc& left, const Desc& right) {
  if (left == right) return true;
  if (!is_blocked_kind(left) || !is_blocked_kind(right)) return false;
  if (left.get_dims() != right.get_dims() || left.get_data_type() != right.get_data_type()) return false;
  if (left.get_size() != right.get_size()) return false;  // int8 weights may be followed by their sums
  if (is_padded(left) || is_padded(right)) return false;
  if (left.get_submemory_offset() != 0 || right.get_submemory_offset() != 0) return false;
  const auto a = axis_runs(left);
  const auto b = axis_runs(right);
  for (size_t axis = 0; axis < a.size(); ++axis) {
    const bool equal = std::equal(
        a[axis].begin(), a[axis].end(), b[axis].begin(), b[axis].end(),
        [](const Run& x, const Run& y) { return x.extent == y.extent && x.stride == y.stride; });
    if (!equal) return false;
  }
  return true;
}

// Consecutive axes of two shapes with the same volume: [first, last) on each side.
struct AxisGroup {
  size_t from_first, from_last;
  size_t to_first, to_last;
};

// Splits a reshape into minimal groups of axes; trailing axes of extent one belong to the last group.
inline std::vector<AxisGroup> axis_groups(const Dims& from, const Dims& to) {
  std::vector<AxisGroup> groups;
  size_t old = 0, fresh = 0;
  while (old < from.size() || fresh < to.size()) {
    AxisGroup group{old, old, fresh, fresh};
    int64_t left = old < from.size() ? from[old++] : 1;
    int64_t right = fresh < to.size() ? to[fresh++] : 1;
    while (left != right) (left < right ? left : right) *= left < right ? from[old++] : to[fresh++];
    group.from_last = old;
    group.to_last = fresh;
    groups.push_back(group);
  }
  return groups;
}

// Sets the strides of the axes [first, last) so that they form one run with stride `stride`.
inline void lay_run(const Dims& dims, size_t first, size_t last, int64_t stride, Dims& strides) {
  for (size_t axis = last; axis-- > first; stride *= dims[axis]) strides[axis] = stride;
}

// A strided view of `desc` with other extents; empty unless the axes of each group form one run.
inline Desc restrided(const Desc& desc, const Dims& dims) {
  const Dims from = desc.get_dims(), strides = desc.get_strides();
  Dims result(dims.size(), 1);
  for (const AxisGroup& group : axis_groups(from, dims)) {
    int64_t innermost = 1, wanted = 0;
    for (size_t axis = group.from_last; axis-- > group.from_first;) {
      if (from[axis] == 1) continue;
      if (wanted == 0) innermost = wanted = strides[axis];
      if (strides[axis] != wanted) return Desc(dnnl_memory_desc_t{nullptr});
      wanted *= from[axis];
    }
    lay_run(dims, group.to_first, group.to_last, innermost, result);
  }
  return strided(dims, desc.get_data_type(), result);
}

// For a reshape that must copy: dense layouts before and after it that keep the memory order of the groups, so that
// channels last is preserved.
inline std::pair<Desc, Desc> reordered_for(const Desc& desc, const Dims& dims) {
  const Dims from = desc.get_dims(), strides = desc.get_strides();
  std::vector<AxisGroup> groups = axis_groups(from, dims);
  const auto step = [&](const AxisGroup& group) {
    int64_t least = 0;
    for (size_t axis = group.from_first; axis < group.from_last; ++axis) {
      if (from[axis] != 1 && (least == 0 || strides[axis] < least)) least = strides[axis];
    }
    return least;
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return step(a) < step(b); });
  Dims before(from.size(), 1), after(dims.size(), 1);
  int64_t stride = 1;
  for (const AxisGroup& group : groups) {
    lay_run(from, group.from_first, group.from_last, stride, before);
    lay_run(dims, group.to_first, group.to_last, stride, after);
    for (size_t axis = group.from_first; axis < group.from_last; ++axis) stride *= from[axis];
  }
  const DataType type = desc.get_data_type();
  return {strided(from, type, before), strided(dims, type, after)};
}

// A view of `desc` with other extents; empty if the elements would have to move.
inline Desc reshaped(const Desc& desc, const Dims& dims) {
  const DataType type = desc.get_data_type();
  if (same_bytes(desc, plain(desc.get_dims(), type))) return plain(dims, type);
  if (is_strided(desc)) return restrided(desc, dims);
  return desc.reshape(dims, /*allow_empty=*/true);
}

// A view of `desc` whose axis i is axis axes[i] of `desc`.
inline Desc permuted(const Desc& desc, const List<int64_t>& axes) {
  std::vector<int> target(axes.size);
  for (int axis = 0; axis < axes.size; ++axis) target[axes[axis]] = axis;
  const Desc view = desc.permute_axes(target, /*allow_empty=*/true);
  return view ? canonical(view) : view;
}

struct NamedTag {
  Tag tag;
  int block;      // of axis 1; 1 where no axis is blocked
  bool channels_last;
};

inline const std::vector<NamedTag>& tags_of_rank(int rank) {
  static const std::vector<NamedTag> none;
  static const std::vector<NamedTag> table[] = {
      {},
      {{Tag::a, 1, false}},
      {{Tag::ab, 1, false}, {Tag::ba, 1, false}},
      {{Tag::abc, 1, false}, {Tag::aBc16b, 16, false}, {Tag::aBc8b, 8, false}, {Tag::aBc4b, 4, false},
       {Tag::acb, 1, true}},
      {{Tag::abcd, 1, false}, {Tag::aBcd16b, 16, false}, {Tag::aBcd8b, 8, false}, {Tag::aBcd4b, 4, false},
       {Tag::acdb, 1, true}},
      {{Tag::abcde, 1, false}, {Tag::aBcde16b, 16, false}, {Tag::aBcde8b, 8, false}, {Tag::aBcde4b, 4, false},
       {Tag::acdeb, 1, true}},
      {{Tag::abcdef, 1, false}},
  };
  return rank < static_cast<int>(std::size(table)) ? table[rank] : none;
}

// The named layout that `desc` has, or null.
inline const NamedTag* tag_of(const Desc& desc) {
  const Dims dims = desc.get_dims();
  for (const NamedTag& named : tags_of_rank(static_cast<int>(dims.size()))) {
    if (Desc(dims, desc.get_data_type(), named.tag) == desc) return &named;
  }
  return nullptr;
}

// The same memory order for another element type; the plain layout if the order has no name.
inline Desc retyped(const Desc& desc, DataType type) {
  if (desc.get_data_type() == type) return desc;
  if (is_strided(desc)) return Desc(desc.get_dims(), type, desc.get_strides());
  const NamedTag* tag = tag_of(desc);
  return tag == nullptr ? plain(desc.get_dims(), type) : Desc(desc.get_dims(), type, tag->tag);
}

// The type and the order of the axes in memory, such as bf16:acdb.
inline std::string layout_name(const Desc& desc) {
  if (desc.is_zero()) return "-";
  const DataType type = desc.get_data_type();
  std::string name = type == kLong ? "s64" : dnnl_dt2str(static_cast<dnnl_data_type_t>(type));
  name += ":";
  if (!is_blocked_kind(desc)) return name + "opaque";
  const Dims strides = desc.get_strides();
  std::vector<int> order(strides.size());
  for (size_t axis = 0; axis < order.size(); ++axis) order[axis] = static_cast<int>(axis);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  const Dims blocks = desc.get_inner_blks();
  const Dims axes = desc.get_inner_idxs();
  for (int axis : order) {
    const bool blocked = std::find(axes.begin(), axes.end(), axis) != axes.end();
    name += static_cast<char>((blocked ? 'A' : 'a') + axis);
  }
  for (size_t block = 0; block < blocks.size(); ++block) {
    name += std::to_string(blocks[block]) + static_cast<char>('a' + axes[block]);
  }
  return name;
}

}  // namespace annotated_region_dnnl
