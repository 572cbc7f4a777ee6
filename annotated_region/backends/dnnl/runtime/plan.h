// A region made ready for one set of input shapes: primitives in order, and the memory they work on.
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace annotated_region_dnnl {

inline const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct Argument {
  int id;  // DNNL_ARG_...
  Desc desc;
  Place place;
};

using Kernel = std::function<void(const std::vector<char*>&)>;

struct Step {
  dnnl::primitive primitive;
  Kernel kernel;  // instead of a primitive, for the few things that oneDNN has no primitive for
  std::vector<Argument> arguments;
  size_t scratchpad = 0;
  std::string label;
};

struct Plan {
  std::string heading;  // whole lines
  std::vector<Step> steps;
  Buffers buffers;
  size_t arena_bytes = 0;
  size_t scratchpad_bytes = 0;

  // What is kept for the next call; each concurrent call needs one of its own.
  std::mutex mutex;
  std::vector<std::unique_ptr<class Instance>> idle;

  std::string describe() const {
    std::string text = heading;
    for (const Step& step : steps) text += step.label + "\n";
    return text;
  }
};

// The memory of one call at a time: an arena, and oneDNN's memory objects that point into it.
class Instance {
 public:
  explicit Instance(const Plan& plan)
      : plan_(plan), arena_(plan.arena_bytes + plan.scratchpad_bytes), stream_(cpu()) {
    if (kGuarded) plan.buffers.guard(arena_.data(), plan.arena_bytes);
    executions_.reserve(plan.steps.size());
    for (const Step& step : plan.steps) executions_.push_back(bind(step));
  }

  void run(const std::vector<char*>& inputs, const std::vector<char*>& outputs) {
#ifdef ANNOTATED_REGION_POISON  // in tests: what a call before has left must not help this one
    if (arena_.bytes() > 0) std::memset(arena_.data(), 0xff, arena_.bytes());
#endif
    for (const External& external : externals_) {
      char* base = (external.home == Home::input ? inputs : outputs)[external.index];
      attach(external, base + external.offset);
    }
    for (size_t index = 0; index < executions_.size(); ++index) {
      const Execution& execution = executions_[index];
      const Step& step = plan_.steps[index];
      if (step.kernel) {
        step.kernel(execution.pointers);
        continue;
      }
      const dnnl_status_t status = dnnl_primitive_execute(
          step.primitive.get(), stream_.get(), static_cast<int>(execution.arguments.size()),
          execution.arguments.data());
      if (status != dnnl_success) throw dnnl::error(status, ("oneDNN could not execute " + step.label).c_str());
    }
  }

 private:
  struct Execution {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<char*> pointers;
  };

  // An argument that lies in a tensor of the caller, at another address in every call.
  struct External {
    Home home;
    int index;
    size_t offset;
    size_t step;
    size_t argument;
  };

  Execution bind(const Step& step) {
    Execution execution;
    for (const Argument& argument : step.arguments) {
      const Place place = plan_.buffers.resolve(argument.place);
      const Buffer& buffer = plan_.buffers[place.buffer];
      char* data = nullptr;
      if (buffer.home == Home::arena) data = arena_.data() + buffer.offset + place.offset;
      if (buffer.home == Home::constant) data = buffer.data + place.offset;
      if (data == nullptr) {
        externals_.push_back(
            {buffer.home, buffer.index, place.offset, executions_.size(), execution.pointers.size()});
      }
      add(execution, argument, data);
    }
    if (step.scratchpad > 0) {
      const Desc bytes({static_cast<int64_t>(step.scratchpad)}, dnnl::memory::data_type::u8, Tag::a);
      add(execution, {DNNL_ARG_SCRATCHPAD, bytes, {}}, arena_.data() + plan_.arena_bytes);
    }
    return execution;
  }

  static void add(Execution& execution, const Argument& argument, char* data) {
    execution.memories.emplace_back(argument.desc, cpu(), data);
    execution.arguments.push_back({argument.id, execution.memories.back().get()});
    execution.pointers.push_back(data);
  }

  void attach(const External& external, char* data) {
    Execution& execution = executions_[external.step];
    execution.memories[external.argument].set_data_handle(data);
    execution.pointers[external.argument] = data;
  }

  const Plan& plan_;
  Storage arena_;
  dnnl::stream stream_;
  std::vector<Execution> executions_;
  std::vector<External> externals_;
};

}  // namespace annotated_region_dnnl
