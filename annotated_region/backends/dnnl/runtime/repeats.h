// The repeats of a region (`RepeatRow`), expanded when its library is loaded.

namespace annotated_region_dnnl {

// A graph without repeats: all of its tensors and nodes in order. The rows of repetitions are stored here, others are copied
// from the tables of the library.
class Expanded {
 public:
  explicit Expanded(const GraphTable& table) : graph_(table) {
    if (table.repeats.size == 0) return;
    const TensorRow* tensor = table.tensors.begin();
    const NodeRow* node = table.nodes.begin();
    for (const RepeatRow& repeat : table.repeats) {
      while (static_cast<int>(tensors_.size()) < repeat.first_tensor) tensors_.push_back(*tensor++);
      while (static_cast<int>(nodes_.size()) < repeat.first_node) nodes_.push_back(*node++);
      for (int time = 0; time < repeat.times; ++time) append(repeat, time);
    }
    tensors_.insert(tensors_.end(), tensor, table.tensors.end());
    nodes_.insert(nodes_.end(), node, table.nodes.end());
    graph_.tensors = {tensors_.data(), static_cast<int>(tensors_.size())};
    graph_.nodes = {nodes_.data(), static_cast<int>(nodes_.size())};
    graph_.repeats = {};
  }
  Expanded(const Expanded&) = delete;
  Expanded& operator=(const Expanded&) = delete;

  const GraphTable& graph() const { return graph_; }

 private:
  void append(const RepeatRow& repeat, int time) {
    const int count = repeat.arguments.size / repeat.times;
    const int* const arguments = repeat.arguments.begin() + time * count;
    const int begin = static_cast<int>(tensors_.size());
    const auto number = [&](int tensor) {
      if (tensor < 0) return tensor;  // an operand that a row does not have
      return tensor < count ? arguments[tensor] : begin + tensor - count;
    };
    for (TensorRow tensor : repeat.tensors) {
      if (tensor.source == Source::constant) tensor.index += time * repeat.step;
      tensors_.push_back(tensor);
    }
    for (NodeRow node : repeat.nodes) {
      node.inputs = changed(inputs_, node.inputs, [&](int& input) { input = number(input); });
      node.output = number(node.output);
      node.post_ops = changed(post_ops_, node.post_ops, [&](PostOpRow& post) { post.operand = number(post.operand); });
      if (node.quantized != nullptr) {
        quantized_.push_back(*node.quantized);
        quantized_.back().weights_scales = number(quantized_.back().weights_scales);
        quantized_.back().source_zero = number(quantized_.back().source_zero);
        node.quantized = &quantized_.back();
      }
      nodes_.push_back(node);
    }
  }

  // A copy of a list, stored in `kept`, of which `change` changes each element.
  template <typename T, typename Change>
  static List<T> changed(std::list<std::vector<T>>& kept, const List<T>& list, const Change& change) {
    kept.emplace_back(list.begin(), list.end());
    std::for_each(kept.back().begin(), kept.back().end(), change);
    return {kept.back().data(), list.size};
  }

  GraphTable graph_;
  std::vector<TensorRow> tensors_;
  std::vector<NodeRow> nodes_;
  std::list<std::vector<int>> inputs_;
  std::list<std::vector<PostOpRow>> post_ops_;
  std::list<QuantizedRow> quantized_;
};

}  // namespace annotated_region_dnnl
