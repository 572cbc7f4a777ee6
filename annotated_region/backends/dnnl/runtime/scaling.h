// The attributes with which oneDNN gets the scales and zero points of an int8 product.

namespace annotated_region_dnnl {

class Scaling {
 public:
  Scaling(Builder& builder, const NodeRow& node) : builder_(builder), node_(node), row_(node.quantized) {}

  void set(dnnl::primitive_attr& attr) const {
    if (row_ == nullptr) return;
    attr.set_scales_mask(DNNL_ARG_SRC, 0);
    if (row_->weights_scales >= 0) attr.set_scales_mask(DNNL_ARG_WEIGHTS, weights_mask());
    if (has_result_scale()) attr.set_scales_mask(DNNL_ARG_DST, 0);
    if (row_->zero != 0 || row_->source_zero >= 0) attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
    if (row_->weights_zero != 0) attr.set_zero_points_mask(DNNL_ARG_WEIGHTS, 0);
    if (row_->result_zero != 0) attr.set_zero_points_mask(DNNL_ARG_DST, 0);
  }

  void add_arguments(std::vector<Argument>& arguments) const {
    if (row_ == nullptr) return;
    add_scale(arguments, DNNL_ARG_SRC, row_->scale);
    if (row_->weights_scales >= 0) {
      const Desc desc = builder_.plain(row_->weights_scales);
      const Place place = builder_.fetch(row_->weights_scales, desc);
      arguments.push_back({DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, desc, place});
    }
    if (has_result_scale()) add_scale(arguments, DNNL_ARG_DST, row_->result_scale);
    if (row_->source_zero >= 0) {
      const Place place = builder_.fetch(row_->source_zero, builder_.plain(row_->source_zero));
      arguments.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, plain({1}, DataType::s32), place});
    }
    add_zero(arguments, DNNL_ARG_SRC, row_->zero);
    add_zero(arguments, DNNL_ARG_WEIGHTS, row_->weights_zero);
    add_zero(arguments, DNNL_ARG_DST, row_->result_zero);
  }

 private:
  bool has_result_scale() const { return builder_.type(node_.output) != kFloat; }

  // The mask of the axes of the weights that are channels of the result.
  int weights_mask() const {
    const size_t rank = builder_.dims(node_.inputs[1]).size();
    if (node_.kind == Kind::matmul) return 1 << (rank - 1);
    return rank > builder_.dims(node_.inputs[0]).size() ? 3 : 1;  // groups and channels, or channels
  }

  void add_scale(std::vector<Argument>& arguments, int role, float scale) const {
    const Place place = builder_.constant(std::vector<float>{scale});
    arguments.push_back({DNNL_ARG_ATTR_SCALES | role, plain({1}, kFloat), place});
  }

  void add_zero(std::vector<Argument>& arguments, int role, int zero) const {
    if (zero == 0) return;
    const Place place = builder_.constant(std::vector<int32_t>{zero});
    arguments.push_back({DNNL_ARG_ATTR_ZERO_POINTS | role, plain({1}, DataType::s32), place});
  }

  Builder& builder_;
  const NodeRow& node_;
  const QuantizedRow* row_;
};

}  // namespace annotated_region_dnnl
