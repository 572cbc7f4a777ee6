// The tensors of a region during plan construction: their current layouts, types and memory.

namespace annotated_region_dnnl {

// A tensor in one layout. A tensor may exist in several layouts; its first value is the one it was produced in.
struct Value {
  Desc desc;
  Place place;
  DataType stored = DataType::undef;  // of a constant of half the bits, whose layout is stated for float32

  bool is_half() const { return stored != DataType::undef; }
  Desc bytes() const { return is_half() ? retyped(desc, stored) : desc; }
};

// The answers to node builders depend on the current node: its types, whether its operands are constant, and which
// operands it may overwrite.
class Tensors {
 public:
  Tensors(const GraphTable& graph, const std::vector<Dims>& dims, Buffers& buffers)
      : graph_(graph), dims_(dims), buffers_(buffers), rounding_(graph, dims), values_(graph.tensors.size) {
    find_last_uses();
    find_varying();
  }

  // Sets the current node. It is folded, that is, computed immediately, if all of its operands are constant.
  void begin(int node) {
    node_ = node;
    folding_ = true;
    for_operands(graph_.nodes[node], [&](int tensor) { folding_ = folding_ && is_constant(tensor); });
  }

  // Ends the last node: steps added from now on run in the calls.
  void end() { folding_ = false; }

  const NodeRow& node() const { return graph_.nodes[node_]; }
  const GraphTable& graph() const { return graph_; }
  const Dims& dims(int tensor) const { return dims_[tensor]; }
  const std::vector<Dims>& all_dims() const { return dims_; }
  const Desc& layout(int tensor) const { return values_[tensor].front().desc; }

  // The storage type of a tensor: as produced, or as the current node will produce it.
  DataType type(int tensor) const {
    return values_[tensor].empty() ? made_type(tensor) : layout(tensor).get_data_type();
  }

  // The type in which the current node, a product, takes its factors.
  DataType factor_type(int tensor) const {
    if (rounds()) return kRounded;
    return type(tensor) == kRounded ? kFloat : type(tensor);
  }

  // Whether the current node is a bfloat16 product; and the withdrawal of that decision.
  bool rounds() const { return rounding_.rounds(node_) && !folding_; }
  bool rounds_attention() const { return rounding_.rounds_attention(node_) && !folding_; }
  void stay_in_float32() { rounding_.refuse(node_); }

  // The descriptor of a tensor at the boundary of the region.
  Desc border(int tensor) const {
    return annotated_region_dnnl::plain(dims_[tensor], type_row(graph_.tensors[tensor].type).stored);
  }

  Desc plain(int tensor) const { return annotated_region_dnnl::plain(dims_[tensor], type(tensor)); }

  // The descriptor that our kernels read: the plain layout, in float32 where products have left a rounded type.
  Desc stated(int tensor) const { return border(tensor); }

  // A descriptor that lets the primitive choose the layout of a tensor.
  Desc any(int tensor) const { return annotated_region_dnnl::any(dims_[tensor], type(tensor)); }

  // A named layout.
  Desc tagged(int tensor, Tag tag) const { return Desc(dims_[tensor], type(tensor), tag); }

  // The layout of a tensor if dense, or the plain layout for a slice with gaps.
  Desc dense(int tensor) const {
    const Desc& desc = layout(tensor);
    return is_dense(desc) ? desc : plain(tensor);
  }

  const Value& value(int tensor) const { return values_[tensor].front(); }

  bool is_constant(int tensor) const { return home(value(tensor).place) == Home::constant; }
  bool is_folding() const { return folding_; }

  // Whether the elements of a constant may depend on symbolic extents, such as computed positions.
  bool varies(int tensor) const { return varies_[tensor]; }

  // Whether a tensor is a 16-bit constant, and its type.
  bool is_stored_in_half(int tensor) const { return value(tensor).is_half(); }
  DataType stored_type(int tensor) const { return value(tensor).stored; }

  // Whether the region concatenates channels with batch one, which blocked layouts do without a copy.
  bool concatenates_channels() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const NodeRow& node) {
      return node.kind == Kind::concat && parameters_of<ConcatRow>(node).axis == 1 && dims_[node.output].size() > 2 &&
             dims_[node.output][0] == 1;
    });
  }

  // Whether a convolution has groups of several channels, behind which networks shuffle channels.
  bool convolves_groups() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const NodeRow& node) {
      if (node.kind != Kind::convolution) return false;
      const Dims& kernel = dims_[node.inputs[1]];
      return kernel.size() > dims_[node.inputs[0]].size() && kernel[2] > 1;
    });
  }

  // Whether the current node may overwrite its operand `tensor` with its result: no later step reads the memory
  // through any view, and the node itself reads it only through this operand.
  bool may_overwrite(int tensor) const {
    const Place place = buffers_.resolve(value(tensor).place);
    if (buffers_[place.buffer].home != Home::arena) return false;
    int readers = 0;
    for (int other = 0; other < graph_.tensors.size; ++other) {
      if (!lies_in(other, place.buffer)) continue;
      if (last_use_[other] > node_) return false;
      readers += reads(other);
    }
    return readers == 1;
  }

  // A buffer for a result of the current node; allocated immediately if the node is folded.
  Place fresh(const Desc& desc) {
    Buffer buffer;
    buffer.bytes = desc.get_size();
    if (folding_) allocate(buffer);
    return {buffers_.add(buffer), 0};
  }

  // The place for a result in layout `desc`: that of the first operand, `first`, if it has this layout and may be
  // overwritten; otherwise a new buffer.
  Place over_or_fresh(Place first, const Desc& desc) {
    const int operand = node().inputs[0];
    return may_overwrite(operand) && layout(operand) == desc ? first : fresh(desc);
  }

  void define(int tensor, const Desc& desc, Place place) { values_[tensor].push_back({canonical(desc), place}); }

  // Leaves a tensor the value that was defined last.
  void supersede(int tensor) { values_[tensor].erase(values_[tensor].begin(), values_[tensor].end() - 1); }

  // Defines the result of the current node, which has no elements, so that nothing computes it.
  void define_empty() {
    const Desc desc = border(node().output);
    define(node().output, desc, fresh(desc));
  }

  // Defines the result of the current node as a view of its operand's memory.
  void define_view(const Desc& desc) {
    const NodeRow& node = this->node();
    const Value& whole = value(node.inputs[0]);
    values_[node.output].push_back({canonical(desc), whole.place, whole.stored});
  }

  // Adds a value of a tensor: in another layout, or an input or a constant.
  void add(int tensor, Value value) { values_[tensor].push_back(std::move(value)); }
  const std::vector<Value>& values(int tensor) const { return values_[tensor]; }

  // The line about the precision of products in the description of a plan.
  std::string precision_note() const { return rounding_.note(); }

 private:
  // The type that a node produces: products produce bfloat16 only for other products, nodes that feed products the
  // type that these need, and nodes in between keep the type of their operand.
  DataType made_type(int tensor) const {
    const DataType stated = type_row(graph_.tensors[tensor].type).stored;
    const NodeRow& node = this->node();
    if (stated != kFloat || folding_) return stated;
    if (rounding_.follows(node.kind)) return followed_type(node);
    const bool may_round = rounds() || rounding_.rounds_result(node.kind);
    return may_round && rounding_.wants(tensor) ? kRounded : stated;
  }

  DataType followed_type(const NodeRow& node) const {
    for (int tensor : node.inputs) {
      if (node.kind == Kind::concat && type(tensor) == kRounded) return kRounded;
    }
    return type(node.inputs[0]);
  }

  Home home(const Place& place) const { return buffers_.root(place).home; }

  void find_last_uses() {
    last_use_.assign(graph_.tensors.size, -1);
    for (int index = 0; index < graph_.nodes.size; ++index) {
      for_operands(graph_.nodes[index], [&](int tensor) { last_use_[tensor] = index; });
    }
    for (int tensor : graph_.outputs) last_use_[tensor] = graph_.nodes.size;
  }

  bool has_symbols(int tensor) const {
    const List<int64_t>& extents = graph_.tensors[tensor].extents;
    return std::any_of(extents.begin(), extents.end(), [](int64_t extent) { return extent < 0; });
  }

  // Whether a number of the node itself depends on extents.
  static bool has_symbolic_numbers(const NodeRow& node) {
    if (node.kind == Kind::range) return parameters_of<RangeRow>(node).start < 0;
    if (node.kind != Kind::slice) return false;
    const List<int64_t>& begins = parameters_of<BeginsRow>(node).begins;
    return std::any_of(begins.begin(), begins.end(), [](int64_t begin) { return begin < 0; });
  }

  void find_varying() {
    varies_.assign(graph_.tensors.size, false);
    for (const NodeRow& node : graph_.nodes) {
      bool varies = has_symbols(node.output) || has_symbolic_numbers(node);
      for_operands(node, [&](int tensor) { varies = varies || varies_[tensor] || has_symbols(tensor); });
      varies_[node.output] = varies;
    }
  }

  bool lies_in(int tensor, int buffer) const {
    return std::any_of(values_[tensor].begin(), values_[tensor].end(), [&](const Value& value) {
      return buffers_.resolve(value.place).buffer == buffer;
    });
  }

  // The number of uses of a tensor by the current node.
  int reads(int tensor) const {
    int count = 0;
    for_operands(node(), [&](int other) { count += other == tensor; });
    return count;
  }

  const GraphTable& graph_;
  const std::vector<Dims>& dims_;
  Buffers& buffers_;
  Rounding rounding_;
  std::vector<std::vector<Value>> values_;
  std::vector<int> last_use_;
  std::vector<bool> varies_;
  int node_ = 0;
  bool folding_ = false;
};

}  // namespace annotated_region_dnnl
