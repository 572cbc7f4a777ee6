// Constants in the layouts that primitives ask for, packed once for all plans. 16-bit constants stay 16 bits wide
// where that is profitable.

namespace annotated_region_dnnl {

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

// 16-bit weights stay 16 bits wide in memory if they have at least this size, and each is multiplied at least that
// often: converting them to float32 in each call then takes two or three per cent of the product's time. Other
// weights are packed in float32.
constexpr size_t kLeastHalved = size_t{1} << 16;
constexpr int64_t kLeastUses = 1024;

// The packed constants, shared by the plans of all shapes and by all tensors that are the same view of a constant.
struct Constants {
  using Source = std::pair<int, size_t>;  // a constant, or what was computed from some, and where in it
  std::vector<char*> data;
  std::map<Source, std::vector<std::shared_ptr<Packed>>> packed;
};

// The packed constants of one plan.
class Packing {
 public:
  Packing(Tensors& tensors, Steps& steps, Buffers& buffers, Constants& constants)
      : tensors_(tensors), steps_(steps), buffers_(buffers), constants_(constants) {}

  // Whether a constant is a large 16-bit operand of a product that computes in float32.
  bool stays_halved(int tensor, const Desc& wanted) const {
    return tensors_.value(tensor).is_half() && !tensors_.is_folding() && Rounding::is_product(tensors_.node().kind) &&
           wanted.get_data_type() == kFloat && is_blocked_kind(wanted) && wanted.get_size() >= kLeastHalved &&
           uses_of_weights() >= kLeastUses;
  }

  // Converts a packed 16-bit constant to float32 in every call, in memory shared with other such constants.
  Place unpack(int tensor, const Desc& wanted) {
    const DataType stored = tensors_.value(tensor).stored;
    const int64_t count = static_cast<int64_t>(wanted.get_size() / sizeof(float));
    const Place place = tensors_.fresh(wanted);
    steps_.add_kernel(converting_kernel(stored, kFloat, count),
                      {{DNNL_ARG_FROM, plain({count}, stored), pack_halved(tensor, wanted)},
                       {DNNL_ARG_TO, wanted, place}},
                      "unpack " + layout_name(wanted));
    return place;
  }

  // Such a constant in its stored type, in a layout that is given for float32.
  Place pack_halved(int tensor, const Desc& wanted) { return pack(tensor, wanted, /*halved=*/true); }

  // The place of a constant in layout `wanted` once `pack_waiting` has run, which is immediately for a folded node.
  Place pack(int tensor, const Desc& wanted, bool halved = false) {
    const Value& original = tensors_.value(tensor);
    std::vector<std::shared_ptr<Packed>> none;  // what depends on extents is packed for its plan alone
    std::vector<std::shared_ptr<Packed>>& known = tensors_.varies(tensor) ? none : constants_.packed[source(tensor)];
    const auto found = std::find_if(known.begin(), known.end(), [&](const std::shared_ptr<Packed>& packed) {
      return packed->from == original.desc && packed->stored == original.stored && packed->to == wanted &&
             packed->halved == halved;
    });
    const auto packed = found == known.end() ? std::make_shared<Packed>(original, wanted, halved) : *found;
    if (found == known.end()) known.push_back(packed);
    const Place place = keep(packed);
    waiting_.push_back({original.place, place, packed});
    if (tensors_.is_folding()) pack_waiting();
    return place;
  }

  // Packs the largest first, while little else is in memory: original and packed copy briefly exist together.
  void pack_waiting() {
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
      return a.packed->storage.bytes() > b.packed->storage.bytes();
    });
    for (const auto& [from, to, packed] : waiting_) {
      if (packed->is_ready) continue;
      const Value value{packed->from, from, packed->stored};
      fill(*packed, value, to);
      packed->is_ready = true;
      const char* data = buffers_.root(from).data;
      const Embedded& embedded = graph().embedded;
      const bool is_embedded = data >= embedded.data && data < embedded.data + embedded.size;
      if (is_embedded) give_back(data + buffers_.resolve(from).offset, value.bytes().get_size());
    }
    waiting_.clear();
  }

 private:
  // A constant to be packed before the first call.
  struct Waiting {
    Place from, to;
    std::shared_ptr<Packed> packed;
  };

  Constants::Source source(int tensor) const {
    const Place place = buffers_.resolve(tensors_.value(tensor).place);
    const int constant = buffers_[place.buffer].index;
    return {constant >= 0 ? constant : graph().constants + tensor, place.offset};
  }

  // How often the current node, a product, multiplies each weight: once per row, or per pixel of an image.
  int64_t uses_of_weights() const {
    const NodeRow& node = tensors_.node();
    const Dims& out = tensors_.dims(node.output);
    if (node.kind == Kind::matmul) return volume(out, 0, out.size() - 1);
    return out[0] * volume(out, 2, out.size());
  }

  // Reorders a constant into the requested layout; one that stays 16 bits wide is reordered as float32.
  void fill(const Packed& packed, const Value& value, Place to) {
    if (!packed.halved) {
      steps_.reorder(value, packed.to, to);
      return;
    }
    const int64_t count = static_cast<int64_t>(packed.to.get_size() / sizeof(float));
    Buffer between;
    between.bytes = packed.to.get_size();
    allocate(between);
    const Place wide{buffers_.add(between), 0};
    steps_.reorder(value, packed.to, wide);
    steps_.add_kernel(converting_kernel(kFloat, packed.stored, count),
                      {{DNNL_ARG_FROM, packed.to, wide}, {DNNL_ARG_TO, plain({count}, packed.stored), to}}, "halve");
    buffers_[wide.buffer].storage.reset();
  }

  Place keep(const std::shared_ptr<Packed>& packed) {
    Buffer buffer;
    buffer.home = Home::constant;
    buffer.bytes = packed->storage.bytes();
    buffer.storage = std::shared_ptr<Storage>(packed, &packed->storage);
    buffer.data = packed->storage.data();
    return {buffers_.add(buffer), 0};
  }

  const GraphTable& graph() const { return tensors_.graph(); }

  Tensors& tensors_;
  Steps& steps_;
  Buffers& buffers_;
  Constants& constants_;
  std::vector<Waiting> waiting_;
};

}  // namespace annotated_region_dnnl
