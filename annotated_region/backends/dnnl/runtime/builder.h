// Builds a plan: propagates the layout of each tensor through the region and adds a reorder only where a
// primitive needs a layout other than the one its operand has.

namespace annotated_region_dnnl {

// The interface for the node builders of primitives.h.
class Builder : public Tensors {
 public:
  Builder(const GraphTable& graph, const std::vector<Dims>& dims, const std::vector<int64_t>& expressions,
          Constants& constants)
      : Builder(graph, dims, expressions, constants, std::make_shared<Plan>()) {}

  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  int64_t number(int64_t code) const { return number_of(code, expressions_.data()); }

  // The row of a tensor of which steps learn the extents in each call only; null for any other tensor.
  const OpenViewRow* open_view(int tensor) const {
    if (!plan_->is_open) return nullptr;
    const List<OpenViewRow>& views = graph().open_views;
    const auto* const found = std::find_if(views.begin(), views.end(), [&](auto& view) { return view.tensor == tensor; });
    return found == views.end() ? nullptr : found;
  }

  // The values of the expressions over extents in a call, as an argument of a step.
  Argument extents_of_call() {
    Buffer buffer;
    buffer.home = Home::extents;
    return {DNNL_ARG_SRC_2, annotated_region_dnnl::plain({1}, kLong), {plan_->buffers.add(buffer), 0}};
  }

  // A tensor in its own layout, in a type that kernels compute with.
  Value numbers(int tensor) {
    const Desc desc = layout(tensor);
    return {desc, fetch(tensor, desc)};
  }

  // A constant tensor of numbers known at plan time, such as a scale.
  template <typename T>
  Place constant(const std::vector<T>& values) {
    Buffer buffer;
    buffer.bytes = values.size() * sizeof(T);
    allocate(buffer);
    std::memcpy(buffer.data, values.data(), buffer.bytes);
    return {plan_->buffers.add(buffer), 0};
  }

  // The place of `tensor` in layout `wanted`; adds a reorder unless the tensor already exists in this layout.
  Place fetch(int tensor, const Desc& wanted) {
    for (const Value& candidate : values(tensor)) {
      if (candidate.is_half() || !same_bytes(candidate.desc, wanted)) continue;
      if (is_folding() && &candidate != &value(tensor)) packing_.pack_waiting();
      return candidate.place;
    }
    if (packing_.stays_halved(tensor, wanted)) return packing_.unpack(tensor, wanted);
    const bool constant = is_constant(tensor);
    const Place place = constant ? packing_.pack(tensor, wanted) : reorder(value(tensor), wanted, fresh(wanted));
    add(tensor, {wanted, place});
    return place;
  }

  // A 16-bit constant, kept in its stored type, in a layout that is given for float32.
  Place pack_halved(int tensor, const Desc& wanted) { return packing_.pack_halved(tensor, wanted); }

  Place reorder(const Value& from, const Desc& wanted, Place place) {
    return is_empty(wanted.get_dims()) ? place : steps_.reorder(from, wanted, place);
  }

  static dnnl::primitive_attr attributes() { return Steps::attributes(); }

  template <typename PrimitiveDesc>
  void add_step(const PrimitiveDesc& pd, std::vector<Argument> arguments, const std::string& note) {
    steps_.add_step(pd, std::move(arguments), note);
  }

  void add_kernel(Kernel kernel, std::vector<Argument> arguments, const std::string& label, size_t scratchpad = 0) {
    steps_.add_kernel(std::move(kernel), std::move(arguments), label, scratchpad);
  }

  // A step from the first operand in layout `from` to a new result.
  template <typename PrimitiveDesc>
  void add_unary_step(const NodeRow& node, const PrimitiveDesc& pd, const Desc& from) {
    const Desc to = pd.dst_desc();
    const Place place = fresh(to);
    add_step(pd, {{DNNL_ARG_SRC, from, fetch(node.inputs[0], from)}, {DNNL_ARG_DST, to, place}}, layout_name(to));
    define(node.output, to, place);
  }

  // The same with a kernel instead of a primitive.
  void add_unary_kernel(const NodeRow& node, Kernel kernel, const Desc& from, const Desc& to,
                        const std::string& label, size_t scratchpad = 0) {
    const Place source = fetch(node.inputs[0], from);
    const Place place = over_or_fresh(source, to);
    add_kernel(std::move(kernel), {{DNNL_ARG_SRC, from, source}, {DNNL_ARG_DST, to, place}}, label, scratchpad);
    define(node.output, to, place);
  }

  // The operands of a normalisation after the data: scale and shift, or neither.
  std::vector<Argument> scale_and_shift() {
    const int roles[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT};
    std::vector<Argument> arguments;
    for (int index = 1; index < node().inputs.size; ++index) {
      const int tensor = node().inputs[index];
      arguments.push_back({roles[index - 1], plain(tensor), fetch(tensor, plain(tensor))});
    }
    return arguments;
  }

  // Places the buffer at `part` inside the one at `whole`, if it has no fixed place yet: its producer then
  // writes into the whole directly, without a copy.
  bool adopt(const Value& part, Place whole) {
    Buffer& buffer = plan_->buffers[part.place.buffer];
    const bool is_free = buffer.home == Home::arena && buffer.parent < 0 && part.place.offset == 0 &&
                         buffer.bytes == part.desc.get_size() && part.place.buffer != whole.buffer;
    if (!is_free) return false;
    buffer.parent = whole.buffer;
    buffer.shift = whole.offset;
    return true;
  }

  // Completes the plan after the last node.
  std::shared_ptr<Plan> finish() {
    end();
    packing_.pack_waiting();
    for (int position = 0; position < graph().outputs.size; ++position) deliver(graph().outputs[position], position);
    for (size_t index = 0; index < plan_->steps.size(); ++index) {
      for (const Argument& argument : plan_->steps[index].arguments) {
        plan_->buffers.touch(argument.place, static_cast<int>(index));
      }
      plan_->scratchpad_bytes = std::max(plan_->scratchpad_bytes, plan_->steps[index].scratchpad);
    }
    plan_->heading = precision_note();
    plan_->arena_bytes = round_up(plan_->buffers.pack(), kAlignment);
    return plan_;
  }

 private:
  Builder(const GraphTable& graph, const std::vector<Dims>& dims, const std::vector<int64_t>& expressions,
          Constants& constants, std::shared_ptr<Plan> plan)
      : Tensors(graph, dims, plan->buffers), expressions_(expressions), plan_(std::move(plan)), steps_(*plan_),
        packing_(*this, steps_, plan_->buffers, constants) {
    plan_->is_open = leaves_open(graph, dims);
    for (int position = 0; position < graph.inputs.size; ++position) {
      Buffer buffer;
      buffer.home = Home::input;
      buffer.index = position;
      define(graph.inputs[position], border(graph.inputs[position]), {plan_->buffers.add(buffer), 0});
    }
    for (int tensor = 0; tensor < graph.tensors.size; ++tensor) {
      if (graph.tensors[tensor].source == Source::constant) define_constant(tensor, constants);
    }
  }

  void define_constant(int tensor, const Constants& constants) {
    Buffer buffer;
    buffer.home = Home::constant;
    buffer.index = graph().tensors[tensor].index;
    buffer.data = constants.data[buffer.index];
    const DataType stored = type_row(graph().tensors[tensor].half).stored;
    const Desc desc = border(tensor);
    const bool is_half = stored != desc.get_data_type();
    add(tensor, {desc, {plan_->buffers.add(buffer), 0}, is_half ? stored : DataType::undef});
  }

  // Stores a result in the caller's tensor: its buffer becomes that tensor if the layouts agree.
  void deliver(int tensor, int position) {
    const Desc wanted = border(tensor);
    for (const Value& candidate : values(tensor)) {
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

  const std::vector<int64_t>& expressions_;
  std::shared_ptr<Plan> plan_;
  Steps steps_;
  Packing packing_;
};

}  // namespace annotated_region_dnnl
