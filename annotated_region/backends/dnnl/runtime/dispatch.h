// From a graph to a plan: one call a node, in order.
#include <memory>
#include <vector>

namespace annotated_region_dnnl {

inline std::shared_ptr<Plan> build_plan(const GraphTable& graph, const std::vector<Dims>& dims, Constants& constants) {
  Builder builder(graph, dims, constants);
  for (int index = 0; index < graph.nodes.size; ++index) {
    const NodeRow& node = graph.nodes[index];
    builder.begin(index);
    switch (node.kind) {
      case Kind::convolution: convolution(builder, node); break;
      case Kind::deconvolution: deconvolution(builder, node); break;
      case Kind::matmul: matmul(builder, node); break;
      case Kind::pooling: pooling(builder, node); break;
      case Kind::eltwise: eltwise(builder, node); break;
      case Kind::binary: binary(builder, node); break;
      case Kind::batch_norm: batch_norm(builder, node); break;
      case Kind::layer_norm: layer_norm(builder, node); break;
      case Kind::softmax: softmax(builder, node); break;
      case Kind::lrn: lrn(builder, node); break;
      case Kind::reduction: reduction(builder, node); break;
      case Kind::concat: concat(builder, node); break;
      case Kind::reshape: reshape(builder, node); break;
      case Kind::permute: permute(builder, node); break;
      case Kind::expand: expand(builder, node); break;
      case Kind::slice: slice(builder, node); break;
      case Kind::cast: cast(builder, node); break;
      case Kind::select: select(builder, node); break;
      case Kind::error_function: error_function(builder, node); break;
      case Kind::exponential: exponential(builder, node); break;
      case Kind::logarithm: logarithm(builder, node); break;
      case Kind::group_norm: group_norm(builder, node); break;
      case Kind::guarded_softmax: guarded_softmax(builder, node); break;
      case Kind::gelu: gelu(builder, node); break;
      case Kind::reciprocal_root: reciprocal_root(builder, node); break;
      case Kind::sine: sine(builder, node); break;
      case Kind::cosine: cosine(builder, node); break;
      case Kind::pad: pad(builder, node); break;
      case Kind::rms_norm: rms_norm(builder, node); break;
      case Kind::prelu: prelu(builder, node); break;
      case Kind::resampling: resampling(builder, node); break;
      case Kind::attention: attention(builder, node); break;
      case Kind::quantize: quantize(builder, node); break;
      case Kind::dequantize: dequantize(builder, node); break;
    }
  }
  return builder.finish();
}

}  // namespace annotated_region_dnnl
