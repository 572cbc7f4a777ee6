// Builds a plan: follows each tensor's layout through the region and adds a reorder only where the
// layout that a primitive wants is not the one that its operand has.

namespace annotated_region_dnnl {

// A tensor in one layout. A tensor may exist in several: its first value is the one it was made in.
struct Value {
  Desc desc;
  Place place;
  DataType stored = DataType::undef;  // of a constant of half the bits, whose layout is stated for float32

  bool is_half() const { return stored != DataType::undef; }
  Desc bytes() const { return is_half() ? retyped(desc, stored) : desc; }
};

// A constant, or a view of one, in the layout that a primitive asked for.
struct Packed {
  Packed(const Value& value, const Desc& to, bool halved)
      : from(value.desc), stored(value.stored), to(to), halved(halved), storage(to.get_size() / (halved ? 2 : 1)) {}
  Desc from;
  DataType stored;  // as in Value
  Desc to;
  bool halved;  // its elements are as they are stored, not float32 as the layout says
  Storage storage;
  bool is_ready = false;
};

// Weights of half the bits stay so in memory if they are as large, and each is multiplied as often: then making float32
// of them in each call takes two or three per cent of the product's time. Others are held in float32.
constexpr size_t kLeastHalved = size_t{1} << 16;
constexpr int64_t kLeastUses = 1024;

// Packed once, for the plans of all shapes, and for all tensors that are the same view of a constant.
struct Constants {
  using Source = std::pair<int, size_t>;  // a constant, or what was computed from some, and where in it
  std::vector<char*> data;
  std::map<Source, std::vector<std::shared_ptr<Packed>>> packed;
};

class Builder {
 public:
  Builder(const GraphTable& graph, const std::vector<Dims>& dims, Constants& constants)
      : graph_(graph), dims_(dims), constants_(constants), rounding_(graph, dims), values_(graph.tensors.size),
        plan_(new Plan) {
    find_last_uses();
    for (int position = 0; position < graph.inputs.size; ++position) {
      Buffer buffer;
      buffer.home = Home::input;
      buffer.index = position;
      define(graph.inputs[position], border(graph.inputs[position]), {plan_->buffers.add(buffer), 0});
    }
    for (int tensor = 0; tensor < graph.tensors.size; ++tensor) {
      if (graph.tensors[tensor].source == Source::constant) define_constant(tensor);
    }
  }

  // --- what the node builders of primitives.h use

  const GraphTable& graph() const { return graph_; }
  const Dims& dims(int tensor) const { return dims_[tensor]; }
  const Desc& layout(int tensor) const { return values_[tensor].front().desc; }

  // What the elements of a tensor are stored as: as it was made, or as the current node is to make it.
  DataType type(int tensor) const {
    return values_[tensor].empty() ? made_type(tensor) : layout(tensor).get_data_type();
  }

  // What the current node takes a factor of a product as.
  DataType factor_type(int tensor) const {
    if (rounds()) return kRounded;
    return type(tensor) == kRounded ? kFloat : type(tensor);
  }

  // Whether the current node is a product of bfloat16; and that it is not to be one after all.
  bool rounds() const { return rounding_.rounds(node_) && !folding_; }
  void stay_in_float32() { rounding_.refuse(node_); }

  // How a tensor crosses the border of the region.
  Desc border(int tensor) const {
    return annotated_region_dnnl::plain(dims_[tensor], type_row(graph_.tensors[tensor].type).stored);
  }

  Desc plain(int tensor) const { return annotated_region_dnnl::plain(dims_[tensor], type(tensor)); }

  // What the kernels here read: the plain layout, and float32 where products have left a rounded type.
  Desc stated(int tensor) const { return border(tensor); }

  // That the primitive may choose the layout of a tensor.
  Desc any(int tensor) const { return annotated_region_dnnl::any(dims_[tensor], type(tensor)); }

  // A layout that has a name.
  Desc tagged(int tensor, Tag tag) const { return Desc(dims_[tensor], type(tensor), tag); }

  // The layout of a tensor, or the plain one where it is a part of something larger with gaps in between.
  Desc dense(int tensor) const {
    const Desc& desc = layout(tensor);
    return is_dense(desc) ? desc : plain(tensor);
  }

  const Value& value(int tensor) const { return values_[tensor].front(); }

  // A tensor in its own layout, as numbers that can be computed with.
  Value numbers(int tensor) {
    const Desc desc = layout(tensor);
    return {desc, fetch(tensor, desc)};
  }
  bool is_constant(int tensor) const { return home(value(tensor).place) == Home::constant; }
  bool is_folding() const { return folding_; }

  // Whether a tensor is a constant of half the bits, and of which type.
  bool is_stored_in_half(int tensor) const { return value(tensor).is_half(); }
  DataType stored_type(int tensor) const { return value(tensor).stored; }

  // Such a constant in a layout that is stated for float32, as it is stored.
  Place pack_halved(int tensor, const Desc& wanted) { return pack(tensor, wanted, /*halved=*/true); }

  // Whether the region concatenates the channels of single images, which blocked layouts do for nothing.
  bool concatenates_channels() const {
    for (const NodeRow& node : graph_.nodes) {
      const bool channels = node.kind == Kind::concat && parameters_of<ConcatRow>(node).axis == 1 && dims_[node.output].size() > 2;
      if (channels && dims_[node.output][0] == 1) return true;
    }
    return false;
  }

  // Whether the current node may write its result over `tensor`, one of its operands: no step reads the bytes
  // later, through whatever view, and the node itself reads them through this operand alone.
  bool may_overwrite(int tensor) const {
    const Place place = plan_->buffers.resolve(value(tensor).place);
    if (plan_->buffers[place.buffer].home != Home::arena) return false;
    int readers = 0;
    for (int other = 0; other < graph_.tensors.size; ++other) {
      if (!lies_in(other, place.buffer)) continue;
      if (last_use_[other] > node_) return false;
      readers += reads(other);
    }
    return readers == 1;
  }

  // A buffer for a result of the current node; memory at once where the node is computed at once.
  Place fresh(const Desc& desc) {
    Buffer buffer;
    buffer.bytes = desc.get_size();
    if (folding_) allocate(buffer);
    return {plan_->buffers.add(buffer), 0};
  }

  // Memory for a result in layout `desc`: that of the first operand, which lies at `first`, where it may be written
  // over and is in this layout.
  Place over_or_fresh(Place first, const Desc& desc) {
    const int operand = graph_.nodes[node_].inputs[0];
    return may_overwrite(operand) && layout(operand) == desc ? first : fresh(desc);
  }

  // Numbers that are known now, such as a scale.
  template <typename T>
  Place constant(const std::vector<T>& values) {
    Buffer buffer;
    buffer.bytes = values.size() * sizeof(T);
    allocate(buffer);
    std::memcpy(buffer.data, values.data(), buffer.bytes);
    return {plan_->buffers.add(buffer), 0};
  }

  void define(int tensor, const Desc& desc, Place place) { values_[tensor].push_back({canonical(desc), place}); }

  // The result of the current node as another view of the bytes of its operand.
  void define_view(const Desc& desc) {
    const NodeRow& node = graph_.nodes[node_];
    const Value& whole = value(node.inputs[0]);
    values_[node.output].push_back({canonical(desc), whole.place, whole.stored});
  }

  // Where `tensor` lies in the layout `wanted`; reorders it unless it has been there before.
  Place fetch(int tensor, const Desc& wanted) {
    for (const Value& candidate : values_[tensor]) {
      if (candidate.is_half() || !same_bytes(candidate.desc, wanted)) continue;
      if (folding_ && &candidate != &value(tensor)) pack_waiting();
      return candidate.place;
    }
    if (stays_halved(tensor, wanted)) return unpack(tensor, wanted);
    const Place place = is_constant(tensor) ? pack(tensor, wanted) : reorder(value(tensor), wanted, fresh(wanted));
    values_[tensor].push_back({wanted, place});
    return place;
  }

  // Copies a value into `place` in the layout `wanted`. oneDNN is handed float32, but for what it will multiply.
  Place reorder(const Value& from, const Desc& wanted, Place place) {
    if (from.is_half() && wanted.get_data_type() != from.stored) return widen(from, wanted, place);
    if (from.is_half()) return reorder({from.bytes(), from.place}, wanted, place);
    const DataType type = wanted.get_data_type();
    const std::string note = layout_name(from.desc) + " -> " + layout_name(wanted);
    if (is_whole(type) && from.desc.get_data_type() == type) {
      add_kernel(copying_kernel(from.desc, wanted),
                 {{DNNL_ARG_FROM, from.desc, from.place}, {DNNL_ARG_TO, wanted, place}}, "copy " + note);
      return place;
    }
    dnnl::primitive_attr attr = attributes();
    const dnnl::reorder::primitive_desc pd(cpu(), from.desc, cpu(), wanted, attr);
    add_step(pd, {{DNNL_ARG_FROM, from.desc, from.place}, {DNNL_ARG_TO, wanted, place}}, note);
    return place;
  }

  static dnnl::primitive_attr attributes() {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }

  template <typename PrimitiveDesc>
  void add_step(const PrimitiveDesc& pd, std::vector<Argument> arguments, const std::string& note) {
    Step step;
    step.primitive = dnnl::primitive(pd.get());
    step.scratchpad = pd.scratchpad_desc().get_size();
    const char* const name = dnnl_prim_kind2str(static_cast<dnnl_primitive_kind_t>(pd.get_kind()));
    step.label = std::string(name) + " " + pd.impl_info_str() + " " + note;
    finish(std::move(step), std::move(arguments));
  }

  // A step from the first operand in layout `from` to a result of its own.
  template <typename PrimitiveDesc>
  void add_unary_step(const PrimitiveDesc& pd, const Desc& from) {
    const NodeRow& node = graph_.nodes[node_];
    const Desc to = pd.dst_desc();
    const Place place = fresh(to);
    add_step(pd, {{DNNL_ARG_SRC, from, fetch(node.inputs[0], from)}, {DNNL_ARG_DST, to, place}}, layout_name(to));
    define(node.output, to, place);
  }

  // The same with a kernel in the place of a primitive.
  void add_unary_kernel(Kernel kernel, const Desc& from, const Desc& to, const std::string& label,
                        size_t scratchpad = 0) {
    const NodeRow& node = graph_.nodes[node_];
    const Place source = fetch(node.inputs[0], from);
    const Place place = over_or_fresh(source, to);
    add_kernel(std::move(kernel), {{DNNL_ARG_SRC, from, source}, {DNNL_ARG_DST, to, place}}, label, scratchpad);
    define(node.output, to, place);
  }

  // The operands of a normalisation behind the data: its scale and its shift, or neither.
  std::vector<Argument> scale_and_shift() {
    const int roles[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT};
    std::vector<Argument> arguments;
    for (int index = 1; index < graph_.nodes[node_].inputs.size; ++index) {
      const int tensor = graph_.nodes[node_].inputs[index];
      arguments.push_back({roles[index - 1], plain(tensor), fetch(tensor, plain(tensor))});
    }
    return arguments;
  }

  // The kernel finds its scratchpad, if it asks for one, behind its arguments.
  void add_kernel(Kernel kernel, std::vector<Argument> arguments, const std::string& label, size_t scratchpad = 0) {
    Step step;
    step.kernel = std::move(kernel);
    step.scratchpad = scratchpad;
    step.label = label;
    finish(std::move(step), std::move(arguments));
  }

  // Makes the buffer at `part` a part of the one at `whole`, if it is free to move: then a write
  // to the part is a write into the whole, and nothing has to be copied.
  bool adopt(const Value& part, Place whole) {
    Buffer& buffer = plan_->buffers[part.place.buffer];
    const bool is_free = buffer.home == Home::arena && buffer.parent < 0 && part.place.offset == 0 &&
                         buffer.bytes == part.desc.get_size() && part.place.buffer != whole.buffer;
    if (!is_free) return false;
    buffer.parent = whole.buffer;
    buffer.shift = whole.offset;
    return true;
  }

  // --- the frame: called by build_plan

  void begin(int node) {
    node_ = node;
    folding_ = true;
    for_operands(graph_.nodes[node], [&](int tensor) { folding_ = folding_ && is_constant(tensor); });
  }

  std::shared_ptr<Plan> finish() {
    folding_ = false;
    pack_waiting();
    for (int position = 0; position < graph_.outputs.size; ++position) deliver(graph_.outputs[position], position);
    for (size_t index = 0; index < plan_->steps.size(); ++index) {
      for (const Argument& argument : plan_->steps[index].arguments) {
        plan_->buffers.touch(argument.place, static_cast<int>(index));
      }
      plan_->scratchpad_bytes = std::max(plan_->scratchpad_bytes, plan_->steps[index].scratchpad);
    }
    plan_->heading = rounding_.note();
    plan_->arena_bytes = round_up(plan_->buffers.pack(), kAlignment);
    return plan_;
  }

 private:
  // To be packed before the first call.
  struct Waiting {
    Place from, to;
    std::shared_ptr<Packed> packed;
  };

  // Products leave float32 behind only for other products, what prepares their operands does as they need it, and
  // what computes in between leaves the type as it is.
  DataType made_type(int tensor) const {
    const DataType stated = type_row(graph_.tensors[tensor].type).stored;
    const NodeRow& node = graph_.nodes[node_];
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

  Home home(const Place& place) const { return plan_->buffers.root(place).home; }

  void find_last_uses() {
    last_use_.assign(graph_.tensors.size, -1);
    for (int index = 0; index < graph_.nodes.size; ++index) {
      for_operands(graph_.nodes[index], [&](int tensor) { last_use_[tensor] = index; });
    }
    for (int tensor : graph_.outputs) last_use_[tensor] = graph_.nodes.size;
  }

  bool lies_in(int tensor, int buffer) const {
    return std::any_of(values_[tensor].begin(), values_[tensor].end(), [&](const Value& value) {
      return plan_->buffers.resolve(value.place).buffer == buffer;
    });
  }

  // How often the current node reads a tensor.
  int reads(int tensor) const {
    int count = 0;
    for_operands(graph_.nodes[node_], [&](int other) { count += other == tensor; });
    return count;
  }

  void define_constant(int tensor) {
    Buffer buffer;
    buffer.home = Home::constant;
    buffer.index = graph_.tensors[tensor].index;
    buffer.data = constants_.data[buffer.index];
    const DataType stored = type_row(graph_.tensors[tensor].half).stored;
    const Desc desc = border(tensor);
    const bool is_half = stored != desc.get_data_type();
    values_[tensor].push_back({desc, {plan_->buffers.add(buffer), 0}, is_half ? stored : DataType::undef});
  }

  // Makes float32 of a constant of half the bits, on the way to another layout if that is wanted.
  Place widen(const Value& from, const Desc& wanted, Place place) {
    const Desc bytes = from.bytes();
    if (!is_dense(bytes)) throw std::logic_error("a constant of half the bits has gaps");
    const bool is_there = same_bytes(from.desc, wanted);
    Buffer between;
    if (!is_there) {
      between.bytes = from.desc.get_size();
      allocate(between);
    }
    const Place wide = is_there ? place : Place{plan_->buffers.add(between), 0};
    const int64_t count = volume(bytes.get_dims(), 0, bytes.get_dims().size());
    add_kernel(converting_kernel(bytes.get_data_type(), kFloat, count),
               {{DNNL_ARG_FROM, bytes, from.place}, {DNNL_ARG_TO, from.desc, wide}}, "widen " + layout_name(bytes));
    if (is_there) return place;
    reorder({from.desc, wide}, wanted, place);
    plan_->buffers[wide.buffer].storage.reset();  // has been read, because all that is constant runs at once
    return place;
  }

  static void allocate(Buffer& buffer) {
    buffer.home = Home::constant;
    buffer.storage = std::make_shared<Storage>(buffer.bytes);
    buffer.data = buffer.storage->data();
  }

  Constants::Source source(int tensor) const {
    const Place place = plan_->buffers.resolve(value(tensor).place);
    const int constant = plan_->buffers[place.buffer].index;
    return {constant >= 0 ? constant : graph_.constants + tensor, place.offset};
  }

  // Whether a constant is a large operand of a product in float32, and of half the bits.
  bool stays_halved(int tensor, const Desc& wanted) const {
    return value(tensor).is_half() && !folding_ && Rounding::is_product(graph_.nodes[node_].kind) &&
           wanted.get_data_type() == kFloat && is_blocked_kind(wanted) && wanted.get_size() >= kLeastHalved &&
           uses_of_weights() >= kLeastUses;
  }

  // How often the current node, a product, multiplies each weight: once for each row, or place of an image.
  int64_t uses_of_weights() const {
    const NodeRow& node = graph_.nodes[node_];
    const Dims& out = dims_[node.output];
    if (node.kind == Kind::matmul) return volume(out, 0, out.size() - 1);
    return out[0] * volume(out, 2, out.size());
  }

  // Makes float32 of a packed constant of half the bits in every call, in memory that other such constants use, too.
  Place unpack(int tensor, const Desc& wanted) {
    const DataType stored = value(tensor).stored;
    const int64_t count = static_cast<int64_t>(wanted.get_size() / sizeof(float));
    const Place place = fresh(wanted);
    add_kernel(converting_kernel(stored, kFloat, count),
               {{DNNL_ARG_FROM, annotated_region_dnnl::plain({count}, stored), pack_halved(tensor, wanted)},
                {DNNL_ARG_TO, wanted, place}},
               "unpack " + layout_name(wanted));
    return place;
  }

  Place pack(int tensor, const Desc& wanted, bool halved = false) {
    const Value& original = value(tensor);
    std::vector<std::shared_ptr<Packed>>& known = constants_.packed[source(tensor)];
    const auto found = std::find_if(known.begin(), known.end(), [&](const std::shared_ptr<Packed>& packed) {
      return packed->from == original.desc && packed->stored == original.stored && packed->to == wanted &&
             packed->halved == halved;
    });
    const auto packed = found == known.end() ? std::make_shared<Packed>(original, wanted, halved) : *found;
    if (found == known.end()) known.push_back(packed);
    const Place place = keep(packed);
    waiting_.push_back({original.place, place, packed});
    if (folding_) pack_waiting();
    return place;
  }

  // The largest first, while little else is in memory: original and packed are there together for a moment.
  void pack_waiting() {
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
      return a.packed->storage.bytes() > b.packed->storage.bytes();
    });
    for (const auto& [from, to, packed] : waiting_) {
      if (packed->is_ready) continue;
      const Value value{packed->from, from, packed->stored};
      fill(*packed, value, to);
      packed->is_ready = true;
      const char* data = plan_->buffers.root(from).data;
      const Embedded& embedded = graph_.embedded;
      const bool is_embedded = data >= embedded.data && data < embedded.data + embedded.size;
      if (is_embedded) give_back(data + plan_->buffers.resolve(from).offset, value.bytes().get_size());
    }
    waiting_.clear();
  }

  // Brings a constant into the layout that was asked for, by way of float32 where it stays in half the bits.
  void fill(const Packed& packed, const Value& value, Place to) {
    if (!packed.halved) {
      reorder(value, packed.to, to);
      return;
    }
    const int64_t count = static_cast<int64_t>(packed.to.get_size() / sizeof(float));
    Buffer between;
    between.bytes = packed.to.get_size();
    allocate(between);
    const Place wide{plan_->buffers.add(between), 0};
    reorder(value, packed.to, wide);
    add_kernel(converting_kernel(kFloat, packed.stored, count),
               {{DNNL_ARG_FROM, packed.to, wide}, {DNNL_ARG_TO, annotated_region_dnnl::plain({count}, packed.stored), to}},
               "halve");
    plan_->buffers[wide.buffer].storage.reset();
  }

  Place keep(const std::shared_ptr<Packed>& packed) {
    Buffer buffer;
    buffer.home = Home::constant;
    buffer.bytes = packed->storage.bytes();
    buffer.storage = std::shared_ptr<Storage>(packed, &packed->storage);
    buffer.data = packed->storage.data();
    return {plan_->buffers.add(buffer), 0};
  }

  // A step whose operands are all constants runs now, once; every other one is kept for the calls.
  void finish(Step step, std::vector<Argument> arguments) {
    step.arguments = std::move(arguments);
    bool constant = true;
    for (const Argument& argument : step.arguments) constant = constant && home(argument.place) == Home::constant;
    if (!constant) {
      plan_->steps.push_back(std::move(step));
      return;
    }
    Plan once;
    once.scratchpad_bytes = step.scratchpad;
    once.steps.push_back(std::move(step));
    std::swap(once.buffers, plan_->buffers);
    Instance(once).run({}, {});
    std::swap(once.buffers, plan_->buffers);
  }

  // Puts a result where the caller wants it: its buffer becomes the caller's tensor if the layouts agree.
  void deliver(int tensor, int position) {
    const Desc wanted = border(tensor);
    for (const Value& candidate : values_[tensor]) {
      if (candidate.is_half() || !same_bytes(candidate.desc, wanted)) continue;
      const Place place = plan_->buffers.resolve(candidate.place);
      Buffer& buffer = plan_->buffers[place.buffer];
      if (buffer.home != Home::arena || place.offset != 0 || buffer.bytes != wanted.get_size()) continue;
      buffer.home = Home::output;
      buffer.index = position;
      return;
    }
    Buffer buffer;
    buffer.home = Home::output;
    buffer.index = position;
    reorder(numbers(tensor), wanted, {plan_->buffers.add(buffer), 0});
  }

  const GraphTable& graph_;
  const std::vector<Dims>& dims_;
  Constants& constants_;
  Rounding rounding_;
  std::vector<std::vector<Value>> values_;
  std::vector<int> last_use_;
  std::shared_ptr<Plan> plan_;
  std::vector<Waiting> waiting_;
  int node_ = 0;
  bool folding_ = false;
};

}  // namespace annotated_region_dnnl
