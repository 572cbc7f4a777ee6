// One function per kind of node, which appends its steps to the plan, given parameters and layouts of operands.

namespace annotated_region_dnnl {

constexpr auto kInference = dnnl::prop_kind::forward_inference;

// Whether an optimized implementation exists.
template <typename PrimitiveDesc>
bool is_fast(const PrimitiveDesc& pd) {
  if (!pd) return false;
  return !is_reference(pd) && std::strstr(pd.impl_info_str(), "gemm") == nullptr;
}

// Whether channels are in blocks as long as the processor's vectors. oneDNN's convolutions of shorter ones use the
// instructions of older processors, at half the speed.
inline bool is_blocked_fully(const NamedTag& named) {
  return named.block >= (has_instructions(dnnl::cpu_isa::avx512_core) ? 16 : 8);
}

// Whether channels are in blocks rather than last. The processor's fastest convolutions with AVX-512 have them last,
// which costs a copy where channels are joined, and several where they are shuffled besides.
inline bool prefers_blocks(const Builder& builder) {
  if (!builder.concatenates_channels()) return false;
  return !has_instructions(dnnl::cpu_isa::avx512_core) || builder.convolves_groups();
}

// Candidate layouts for the operand of a convolution, in order of preference; the first with a fast implementation is
// used. oneDNN would often choose another layout that is equally fast in isolation, but every change of layout costs
// a reorder, and operands of a sum or a concatenation should agree. So the operand's own layout comes first, and
// blocked channels are preferred where concatenations can then be computed in place.
inline std::vector<Desc> source_layouts(Builder& builder, int src) {
  const Desc& current = builder.layout(src);
  const NamedTag* tag = tag_of(current);
  const DataType type = builder.factor_type(src);
  const Dims& dims = builder.dims(src);
  std::vector<Desc> layouts;
  if (tag != nullptr && (is_blocked_fully(*tag) || tag->channels_last)) {
    layouts.push_back(retyped(current, type));
  } else if (prefers_blocks(builder)) {
    for (const NamedTag& named : tags_of_rank(static_cast<int>(dims.size()))) {
      if (is_blocked_fully(named) && dims[1] % named.block == 0) layouts.emplace_back(dims, type, named.tag);
    }
  }
  layouts.push_back(any(dims, type));
  layouts.push_back(channels_last(dims, type));
  return layouts;
}

// The preferred layout of a convolution's result.
inline Desc preferred_result(Builder& builder, int tensor) {
  if (!has_instructions(dnnl::cpu_isa::avx512_core) || prefers_blocks(builder)) return builder.any(tensor);
  return channels_last(builder.dims(tensor), builder.type(tensor));
}

inline void eltwise(Builder& builder, const NodeRow& node);
inline void binary(Builder& builder, const NodeRow& node);

// Computes a node whose chain oneDNN cannot append, or appends by reference code: the first post-op is a step of its
// own, to which the others are appended if it is arithmetic.
template <typename Compute>
void in_steps(Builder& builder, const NodeRow& node, Compute compute) {
  NodeRow step = node;
  step.post_ops = {};
  compute(builder, step);
  builder.supersede(node.output);  // where the node itself is such a step
  for (const PostOpRow* post = node.post_ops.begin(); post != node.post_ops.end(); ++post) {
    const ArithmeticRow arithmetic{post->algorithm};
    // The minimum with a number is a clip, which treats NaN alike.
    const CurveRow curve = is_bound(*post) ? CurveRow{dnnl_eltwise_clip, -INFINITY, post->alpha}
                                           : CurveRow{post->algorithm, post->alpha, post->beta};
    const int operands[] = {node.output, post->operand};
    const bool is_curve = post->operand < 0;
    step.inputs = {operands, is_curve ? 1 : 2};
    step.parameters = is_curve ? static_cast<const void*>(&curve) : &arithmetic;
    if (!is_curve) step.post_ops = {post + 1, static_cast<int>(node.post_ops.end() - post) - 1};
    is_curve ? eltwise(builder, step) : binary(builder, step);
    builder.supersede(node.output);
    if (!is_curve) break;
  }
}

// Creates a primitive with the node's chain, adds its step and defines the node's result. `make` creates the primitive
// descriptor from attributes and the layout of the result; the descriptor gives the layouts of data, weights and bias.
// `compute` does all of this for a node, for one without its chain if oneDNN appends that by reference code.
// `data` is what is read instead of the first operand, if it is given.
template <typename Make, typename Compute>
void add_fused(Builder& builder, const NodeRow& node, Desc result, Make make, Compute compute,
               const std::optional<Value>& data = {}) {
  PostOps chain(builder, node);
  if (result.get_format_kind() == dnnl::memory::format_kind::any && chain.has_full_operand()) {
    result = make(chain.probe(), result).dst_desc();
  }
  auto pd = make(chain.settle(result), result);
  if (is_reference(pd) && chain.accumulates()) {
    // A sum behind another post-op, or with rows that are far apart: oneDNN adds an operand of its own instead.
    pd = make(chain.settle(result, /*may_accumulate=*/false), result);
  }
  const Desc native = pd.dst_desc();
  const bool may_split = node.post_ops.size > 0 && node.quantized == nullptr && native.get_data_type() == kFloat;
  if (is_reference(pd) && may_split && !is_reference(make(Builder::attributes(), result))) {
    return in_steps(builder, node, compute);
  }
  const std::pair<int, Desc> roles[] = {
      {DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_BIAS, pd.bias_desc()}};
  std::vector<Argument> arguments;
  for (int index = 0; index < node.inputs.size; ++index) {
    const auto& [role, desc] = roles[index];
    const bool is_given = index == 0 && data.has_value();
    arguments.push_back({role, desc, is_given ? data->place : builder.fetch(node.inputs[index], desc)});
  }
  Scaling(builder, node).add_arguments(arguments);
  chain.add_arguments(arguments, native);
  const Place place = chain.destination(native);
  arguments.push_back({DNNL_ARG_DST, native, place});
  builder.add_step(pd, std::move(arguments), layout_name(native) + chain.note());
  builder.define(node.output, native, place);
}

// Whether a transposed convolution is done by a product with all taps: oneDNN would use reference code, or fill vectors
// with few channels.
template <typename PrimitiveDesc>
bool is_done_by_product(Builder& builder, const NodeRow& node, const PrimitiveDesc& pd) {
  constexpr int64_t kFewChannels = 8;
  const bool has_groups = builder.dims(node.inputs[1]).size() > builder.dims(node.output).size();
  return !is_fast(pd) || (!has_groups && builder.dims(node.output)[1] < kFewChannels);
}

// Whether oneDNN appends a chain to a transposed convolution by vector code. It has such code without strides alone: by
// reference code otherwise, and 3.2 appends the chain of one with strides and many channels to parts of the sum.
template <typename PrimitiveDesc>
bool appends_chain(const PrimitiveDesc& pd) {
  const char* const name = pd.impl_info_str();
  return std::strncmp(name, "brg_conv", 8) == 0 && std::strstr(name, "strided") == nullptr;
}

// Whether oneDNN's code is for convolutions of each channel alone; other code multiplies with one channel of a vector.
template <typename PrimitiveDesc>
bool is_of_depthwise(const PrimitiveDesc& pd) {
  return std::strstr(pd.impl_info_str(), "dw") != nullptr;
}

// Whether a convolution reads a copy of the image with its padding.
inline bool is_padded_first(const Builder& builder, const NodeRow& node) {
  return is_line_padded_first(builder, node) || is_zero_point_padded(builder, node);
}

inline void deconvolution(Builder& builder, const NodeRow& node);

template <typename Forward>
void convolve(Builder& builder, const NodeRow& node, dnnl::algorithm algorithm) {
  const int src = node.inputs[0], weights = node.inputs[1];
  const auto& given = parameters_of<ConvolutionRow>(node);
  if constexpr (std::is_same_v<Forward, dnnl::deconvolution_forward>) {
    if (spreads_along_line(builder, node)) return in_steps(builder, node, transposed_product);
  }
  const Desc bias = bias_layout(builder, node);
  Dims before = dims_of(given.before), after = dims_of(given.after);
  std::optional<Value> data;
  if (algorithm == dnnl::algorithm::convolution_direct && is_padded_first(builder, node)) {
    data = padded_image(builder, src, before, after, node.quantized);
    before = after = Dims(before.size(), 0);
  }
  const DataType type = builder.factor_type(weights);
  const bool avoids_tiles = are_patches_with_rest(builder.dims(weights), dims_of(given.strides), before, type);
  const auto create = [&](const dnnl::primitive_attr& attr, const Desc& from, const Desc& dst) {
    const Desc kernel = any(builder.dims(weights), builder.factor_type(weights));
    typename Forward::primitive_desc pd(cpu(), kInference, algorithm, from, kernel, bias, dst, dims_of(given.strides),
                                        dims_of(given.dilation), before, after, attr, /*allow_empty=*/true);
    if (avoids_tiles) leave_tiles(pd);
    return pd;
  };
  const auto fastest = [&](const dnnl::primitive_attr& attr, const Desc& dst) {
    if (data) return create(attr, data->desc, dst);
    for (const Desc& layout : source_layouts(builder, src)) {
      auto pd = create(attr, layout, dst);
      if (is_fast(pd)) return pd;
    }
    return create(attr, any(builder.dims(src), builder.factor_type(src)), dst);
  };
  if (builder.rounds() && !is_fast(fastest(Builder::attributes(), builder.any(node.output)))) builder.stay_in_float32();
  const Desc preferred = preferred_result(builder, node.output);
  const bool is_given = preferred.get_format_kind() != dnnl::memory::format_kind::any;
  // With the whole chain first: this is nearly always what is used, and oneDNN takes milliseconds to find it.
  const auto first = is_given ? fastest(PostOps(builder, node).settle(preferred), preferred) : decltype(fastest({}, {}))();
  const bool is_first = is_given && is_fast(first);
  const auto make = [&](const dnnl::primitive_attr& attr, const Desc& dst) {
    auto pd = is_first && dst == preferred ? first : fastest(attr, dst);
    if (!pd) throw std::runtime_error("oneDNN has no convolution with these parameters");
    return pd;
  };
  const bool is_possible = is_first || is_fast(fastest(Builder::attributes(), preferred));
  const Desc result = is_possible ? preferred : builder.any(node.output);
  if constexpr (std::is_same_v<Forward, dnnl::deconvolution_forward>) {
    const auto bare = node.post_ops.size > 0 ? fastest(Builder::attributes(), result) : make(Builder::attributes(), result);
    if (is_done_by_product(builder, node, bare)) return in_steps(builder, node, transposed_product);
    if (node.post_ops.size > 0 && !appends_chain(bare)) return in_steps(builder, node, deconvolution);
  } else if (is_depthwise(builder, node) && !is_of_depthwise(make(Builder::attributes(), result))) {
    return in_steps(builder, node, depthwise);
  }
  add_fused(builder, node, result, make,
            [algorithm](Builder& of, const NodeRow& each) { convolve<Forward>(of, each, algorithm); }, data);
}

inline void convolution(Builder& builder, const NodeRow& node) {
  convolve<dnnl::convolution_forward>(builder, node, dnnl::algorithm::convolution_direct);
}

inline void deconvolution(Builder& builder, const NodeRow& node) {
  convolve<dnnl::deconvolution_forward>(builder, node, dnnl::algorithm::deconvolution_direct);
}

// The layout of a matrix operand: unchanged if one of its last two axes is contiguous, else plain.
inline Desc matrix_layout(Builder& builder, int tensor, DataType type) {
  const Desc& desc = builder.layout(tensor);
  if (is_strided(desc)) {
    const Dims strides = desc.get_strides();
    if (strides.back() == 1 || strides[strides.size() - 2] == 1) return retyped(desc, type);
  }
  return plain(builder.dims(tensor), type);
}

// inputs: two stacks of matrices, and a bias of the same rank.
inline void matmul(Builder& builder, const NodeRow& node) {
  if (has_few_rows(builder, node)) return few_rows(builder, node);
  const int left = node.inputs[0], right = node.inputs[1];
  const Desc bias = bias_layout(builder, node);
  const auto make = [&](const dnnl::primitive_attr& attr, const Desc& dst, bool may_fail = false) {
    const DataType type = builder.factor_type(right);
    const Desc left_desc = matrix_layout(builder, left, builder.factor_type(left));
    const Desc right_desc =
        builder.is_constant(right) ? any(builder.dims(right), type) : matrix_layout(builder, right, type);
    return dnnl::matmul::primitive_desc(cpu(), left_desc, right_desc, bias, dst, attr, may_fail);
  };
  const auto is_slow = [&] { return !is_fast(make(Builder::attributes(), builder.plain(node.output), true)); };
  if (builder.rounds() && is_slow()) builder.stay_in_float32();
  add_fused(builder, node, builder.plain(node.output), make, matmul);
}

// Adds a step from one operand to a result with the same memory order, in place if allowed.
template <typename PrimitiveDesc>
void add_pointwise(Builder& builder, const NodeRow& node, const PrimitiveDesc& pd, const Desc& desc,
                   std::vector<Argument> others, const std::string& note, bool may_overwrite = true) {
  const int src = node.inputs[0];
  const Place from = builder.fetch(src, desc);
  const Desc to = pd.dst_desc();
  const Place place = may_overwrite ? builder.over_or_fresh(from, to) : builder.fresh(to);
  others.push_back({DNNL_ARG_SRC, desc, from});
  others.push_back({DNNL_ARG_DST, to, place});
  builder.add_step(pd, std::move(others), layout_name(to) + note);
  builder.define(node.output, to, place);
}

inline void eltwise(Builder& builder, const NodeRow& node) {
  const auto& [algorithm, alpha, beta] = parameters_of<CurveRow>(node);
  const bool is_power = algorithm == dnnl_eltwise_pow && alpha == 1.0f;
  if (is_power && beta == 0.5f) return apply(builder, node, half_power_run, "root");
  if (is_power && beta == -0.5f) return apply(builder, node, inverse_half_power_run, "inverse root");
  const Desc desc = builder.dense(node.inputs[0]);
  if (algorithm == dnnl_eltwise_clip && desc.get_data_type() == kFloat) {
    const auto clip = [low = alpha, high = beta](const float* from, float* to, int64_t size) {
      clip_run(from, to, size, low, high);
    };
    return apply(builder, node, clip, "clip");
  }
  if (algorithm == dnnl_eltwise_swish && alpha == 1.0f && is_bare(builder, node)) {
    return apply(builder, node, silu_run, "silu");
  }
  if (algorithm == dnnl_eltwise_linear && beta == 0.0f && is_bare(builder, node)) {
    // oneDNN's cache of primitives takes 0 and -0 for equal: 0 - x would be the -x of another plan.
    const auto scale = [factor = alpha, zero = beta](const float* from, float* to, int64_t size) {
      scale_run(from, to, size, factor, zero);
    };
    return apply(builder, node, scale, "scale");
  }
  PostOps chain(builder, node);
  const auto create = [&](const Desc& layout) {
    return dnnl::eltwise_forward::primitive_desc(cpu(), kInference, algorithm_of(algorithm), layout, layout, alpha,
                                                 beta, chain.settle(layout, /*may_accumulate=*/false));
  };
  // Of a block that is not full, vector code would compute what is beyond the channels, too.
  const bool is_fast_so = !is_reference(create(desc));
  const Desc layout = is_fast_so ? desc : builder.plain(node.inputs[0]);
  const auto pd = create(layout);
  std::vector<Argument> arguments;
  chain.add_arguments(arguments, layout);
  add_pointwise(builder, node, pd, layout, std::move(arguments), chain.note());
}

// The layout of an operand that is combined with one number per channel. With other memory orders, and for images
// with a single pixel, some of oneDNN's primitives use the wrong channel.
inline Desc channel_layout(Builder& builder, int tensor) {
  const Dims& dims = builder.dims(tensor);
  const Desc desc = builder.dense(tensor);
  const NamedTag* tag = tag_of(desc);
  if (tag != nullptr && tag->block > 1) return desc;
  if (dims.size() > 2 && volume(dims, 2, dims.size()) == 1) {
    return channels_last(dims, builder.type(tensor));
  }
  return tag != nullptr && tag->tag != Tag::ba ? desc : builder.plain(tensor);
}

// The layout of an operand that is combined with others. Of more than six axes in another order than that of their
// indices, oneDNN 3.2 takes the wrong elements of what is broadcast.
inline Desc operand_layout(Builder& builder, const NodeRow& node) {
  const int left = node.inputs[0];
  const bool is_broadcast = builder.dims(left) != builder.dims(node.inputs[1]) || node.post_ops.size > 0;
  return is_broadcast && builder.dims(left).size() > 6 ? builder.plain(left) : builder.dense(left);
}

// The first operand has the shape of the result; the second is broadcast. oneDNN is fast only for some
// combinations of layouts, so candidates are tried in order of cost.
inline void binary(Builder& builder, const NodeRow& node) {
  if (combine(builder, node)) return;
  const int left = node.inputs[0], right = node.inputs[1];
  const auto algorithm = algorithm_of(parameters_of<ArithmeticRow>(node).algorithm);
  const bool has_channels = PostOps(builder, node).has_channel_operand();
  const Desc desc = has_channels ? channel_layout(builder, left) : operand_layout(builder, node);
  std::vector<std::pair<Desc, Desc>> candidates;
  if (builder.dims(left) == builder.dims(right)) {
    candidates.emplace_back(desc, retyped(desc, builder.type(right)));
  } else {
    candidates.emplace_back(desc, builder.plain(right));
    const NamedTag* tag = tag_of(desc);
    if (tag != nullptr) candidates.emplace_back(desc, builder.tagged(right, tag->tag));
  }
  if (!has_channels) candidates.emplace_back(builder.plain(left), builder.plain(right));
  candidates.push_back(candidates.front());  // slow, but always there
  for (const auto& [from, other] : candidates) {
    PostOps chain(builder, node);
    const dnnl::binary::primitive_desc pd(cpu(), algorithm, from, other, from,
                                          chain.settle(from, /*may_accumulate=*/false), /*allow_empty=*/true);
    const bool is_last = &other == &candidates.back().second;
    if (!is_fast(pd) && !is_last) continue;
    const DataType type = builder.type(node.output);
    if (!is_fast(pd) && node.post_ops.size > 0 && (type == kFloat || type == kRounded)) {
      return in_steps(builder, node, binary);
    }
    if (!is_fast(pd) && combine_repeating(builder, node)) return;
    if (!pd) throw std::runtime_error("oneDNN has no arithmetic for these operands");
    std::vector<Argument> arguments = {{DNNL_ARG_SRC_1, other, builder.fetch(right, other)}};
    chain.add_arguments(arguments, from);
    return add_pointwise(builder, node, pd, from, std::move(arguments), chain.note());
  }
}

// inputs: data, and scale and shift or neither. Over the last axis.
inline void layer_norm(Builder& builder, const NodeRow& node) {
  using Flags = dnnl::normalization_flags;
  const Desc desc = builder.plain(node.inputs[0]);
  const Flags flags = node.inputs.size > 1 ? Flags::use_scale | Flags::use_shift : Flags::none;
  const float epsilon = parameters_of<NormRow>(node).epsilon;
  const dnnl::layer_normalization_forward::primitive_desc pd(cpu(), kInference, desc, builder.plain(node.output),
                                                             epsilon, flags, Builder::attributes());
  add_pointwise(builder, node, pd, desc, builder.scale_and_shift(), "");
}

// inputs: data, slopes for the negative side, of the same rank. Never in place: where the channels are no whole number
// of vectors, two threads of oneDNN compute the same elements, and the later one would multiply by the slopes again.
inline void prelu(Builder& builder, const NodeRow& node) {
  if (!builder.is_constant(node.inputs[1])) return exact_prelu(builder, node);
  const Desc desc = channel_layout(builder, node.inputs[0]);
  const Desc slopes = builder.plain(node.inputs[1]);
  const dnnl::prelu_forward::primitive_desc pd(cpu(), kInference, desc, slopes, desc, Builder::attributes());
  add_pointwise(builder, node, pd, desc,
                {{DNNL_ARG_WEIGHTS, slopes, builder.fetch(node.inputs[1], slopes)}}, "", /*may_overwrite=*/false);
}

// Local response normalisation across channels.
inline void lrn(Builder& builder, const NodeRow& node) {
  const Desc desc = builder.dense(node.inputs[0]);
  const auto& [size, alpha, beta, shift, algorithm] = parameters_of<LocalResponseRow>(node);
  const dnnl::lrn_forward::primitive_desc pd(cpu(), kInference, algorithm_of(algorithm), desc, desc, size, alpha, beta,
                                             shift, Builder::attributes());
  builder.add_unary_step(node, pd, desc);
}

}  // namespace annotated_region_dnnl
