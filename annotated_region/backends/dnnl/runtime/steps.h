// Appends steps to a plan: primitives, kernels, and copies from one layout or type to another.

namespace annotated_region_dnnl {

// Runs a plan that has no inputs and outputs. Defined with the regions: what runs plans is compiled in their unit.
void run_once(Plan& plan);

class Steps {
 public:
  explicit Steps(Plan& plan) : plan_(plan) {}

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
    append(std::move(step), std::move(arguments));
  }

  // The scratchpad of a kernel, if requested, follows its arguments.
  void add_kernel(Kernel kernel, std::vector<Argument> arguments, const std::string& label, size_t scratchpad = 0) {
    Step step;
    step.kernel = std::move(kernel);
    step.scratchpad = scratchpad;
    step.label = label;
    append(std::move(step), std::move(arguments));
  }

  // Copies a value to `place` in layout `wanted`. oneDNN gets float32, except for operands of reduced-precision
  // products.
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

 private:
  // Converts a 16-bit constant to float32, and to another layout if requested.
  Place widen(const Value& from, const Desc& wanted, Place place) {
    const Desc bytes = from.bytes();
    if (!is_dense(bytes)) throw std::logic_error("a constant of half the bits has gaps");
    const bool is_there = same_bytes(from.desc, wanted);
    Buffer between;
    if (!is_there) {
      between.bytes = from.desc.get_size();
      allocate(between);
    }
    const Place wide = is_there ? place : Place{plan_.buffers.add(between), 0};
    const int64_t count = volume(bytes.get_dims(), 0, bytes.get_dims().size());
    add_kernel(converting_kernel(bytes.get_data_type(), kFloat, count),
               {{DNNL_ARG_FROM, bytes, from.place}, {DNNL_ARG_TO, from.desc, wide}}, "widen " + layout_name(bytes));
    if (is_there) return place;
    reorder({from.desc, wide}, wanted, place);
    plan_.buffers[wide.buffer].storage.reset();  // has been read, because all that is constant runs at once
    return place;
  }

  // A step with only constant operands runs now, once; any other step is appended to the plan.
  void append(Step step, std::vector<Argument> arguments) {
    step.arguments = std::move(arguments);
    bool constant = true;
    for (const Argument& argument : step.arguments) {
      constant = constant && plan_.buffers.root(argument.place).home == Home::constant;
    }
    if (!constant) {
      plan_.steps.push_back(std::move(step));
      return;
    }
    Plan once;
    once.scratchpad_bytes = step.scratchpad;
    once.steps.push_back(std::move(step));
    std::swap(once.buffers, plan_.buffers);
    run_once(once);
    std::swap(once.buffers, plan_.buffers);
  }

  Plan& plan_;
};

}  // namespace annotated_region_dnnl
