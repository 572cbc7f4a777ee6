// The chain of operations that a primitive applies to its result before storing it.

namespace annotated_region_dnnl {

// Whether a post-op is the minimum with a number, `alpha`.
inline bool is_bound(const PostOpRow& post) { return post.operand < 0 && post.algorithm == dnnl_binary_min; }

// Whether oneDNN has only its slow reference code.
template <typename PrimitiveDesc>
bool is_reference(const PrimitiveDesc& pd) {
  return std::strstr(pd.impl_info_str(), "ref:") != nullptr;
}

class PostOps {
 public:
  PostOps(Builder& builder, const NodeRow& node)
      : builder_(builder), node_(node) {}

  // Whether an operand of the chain has the shape of the result, so that their layouts must agree.
  bool has_full_operand() const {
    for (const PostOpRow& post : node_.post_ops) {
      if (is_full(post)) return true;
    }
    return false;
  }

  // Whether an operand of the chain has one element per channel.
  bool has_channel_operand() const {
    for (const PostOpRow& post : node_.post_ops) {
      if (post.operand < 0 || is_full(post)) continue;
      const Dims& dims = builder_.dims(post.operand);
      if (volume(dims, 0, dims.size()) > 1) return true;
    }
    return false;
  }

  // The chain without its full operands, to query the layout that the primitive prefers.
  dnnl::primitive_attr probe() const {
    dnnl::post_ops chain;
    for (const PostOpRow& post : node_.post_ops) {
      if (!is_full(post)) append(chain, post, plain_or_none(post));
    }
    return with(chain);
  }

  // The whole chain for a result in layout `native`. The first full operand in this layout that has no later reader
  // is accumulated in place: the result overwrites it.
  dnnl::primitive_attr settle(const Desc& native, bool may_accumulate = true) {
    dnnl::post_ops chain;
    accumulator_ = -1;
    note_ = node_.quantized == nullptr ? "" : " int8";
    for (const PostOpRow& post : node_.post_ops) {
      if (may_accumulate && accumulates(post, native)) {
        accumulator_ = post.operand;
        chain.append_sum(1.0f);
        note_ += " +sum";
        continue;
      }
      note_ += post.operand < 0 && !is_bound(post) ? " +eltwise" : " +binary";
      append(chain, post, is_full(post) ? retyped(native, builder_.type(post.operand)) : plain_or_none(post));
    }
    return with(chain);
  }

  // Appends the operands of the settled chain to the arguments of the primitive.
  void add_arguments(std::vector<Argument>& arguments, const Desc& native) {
    int next = 0;
    for (const PostOpRow& post : node_.post_ops) {
      const int index = next;
      next += adds_positive_zero(post) ? 2 : 1;
      const int role = DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1;
      if (is_bound(post)) arguments.push_back({role, one_number(), builder_.constant(std::vector<float>{post.alpha})});
      if (post.operand < 0 || post.operand == accumulator_) continue;
      const Desc desc = is_full(post) ? retyped(native, builder_.type(post.operand)) : builder_.plain(post.operand);
      const Place place = builder_.fetch(post.operand, desc);
      arguments.push_back({role, desc, place});
    }
  }

  // The place of the result: the accumulated operand, or a new buffer.
  Place destination(const Desc& native) {
    return accumulator_ >= 0 ? builder_.value(accumulator_).place : builder_.fresh(native);
  }

  bool accumulates() const { return accumulator_ >= 0; }
  const std::string& note() const { return note_; }

 private:
  bool is_full(const PostOpRow& post) const {
    return post.operand >= 0 && builder_.dims(post.operand) == builder_.dims(node_.output);
  }

  bool accumulates(const PostOpRow& post, const Desc& native) const {
    return accumulator_ < 0 && is_full(post) && post.algorithm == dnnl_binary_add &&
           builder_.may_overwrite(post.operand) && builder_.layout(post.operand) == native;
  }

  Desc plain_or_none(const PostOpRow& post) const {
    return post.operand < 0 ? Desc() : builder_.plain(post.operand);
  }

  static bool adds_positive_zero(const PostOpRow& post) {
    return post.operand < 0 && post.algorithm == dnnl_eltwise_linear && post.beta == 0.0f && !std::signbit(post.beta);
  }

  Desc one_number() const { return plain(Dims(builder_.dims(node_.output).size(), 1), kFloat); }

  void append(dnnl::post_ops& chain, const PostOpRow& post, const Desc& operand) const {
    if (is_bound(post)) {
      chain.append_binary(algorithm_of(post.algorithm), one_number());
    } else if (post.operand < 0) {
      chain.append_eltwise(algorithm_of(post.algorithm), post.alpha, post.beta);
      // oneDNN's cache of primitives takes 0 and -0 for equal, and would give 0 - x where it made -x before. Times 1
      // plus -0 changes nothing, but makes another chain.
      if (adds_positive_zero(post)) chain.append_eltwise(dnnl::algorithm::eltwise_linear, 1.0f, -0.0f);
    } else {
      chain.append_binary(algorithm_of(post.algorithm), operand);
    }
  }

  dnnl::primitive_attr with(const dnnl::post_ops& chain) const {
    dnnl::primitive_attr attr = Builder::attributes();
    attr.set_post_ops(chain);
    Scaling(builder_, node_).set(attr);
    return attr;
  }

  Builder& builder_;
  const NodeRow& node_;
  int accumulator_ = -1;
  std::string note_;
};

// The bias of a product: its third operand, if it has one.
inline Desc bias_layout(const Builder& builder, const NodeRow& node) {
  return node.inputs.size > 2 ? builder.plain(node.inputs[2]) : Desc();
}

}  // namespace annotated_region_dnnl
