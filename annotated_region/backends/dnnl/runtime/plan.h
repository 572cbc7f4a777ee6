// The plan of a region for one set of input shapes: primitives in order, and their memory.

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

// The measured time of a step with and without workers; small steps may be faster without.
class Pace {
 public:
  bool is_faster_with_help() const {
    return alone_.load(kRelaxed) == 0 || with_help_.load(kRelaxed) <= alone_.load(kRelaxed);
  }
  // The time without workers; with them, as long as it has not run without.
  int64_t alone() const {
    const float alone = alone_.load(kRelaxed);
    return static_cast<int64_t>(alone > 0 ? alone : with_help_.load(kRelaxed));
  }
  int64_t with_help() const { return static_cast<int64_t>(with_help_.load(kRelaxed)); }
  // How long the caller would be busy without workers. A step that has not been timed counts as long: a worker that sleeps
  // is woken for it, or the first runs of a plan, which are all that a prompt has, would be those of one thread.
  int64_t worth() const {
    const int64_t time = alone();
    return time > 0 ? time : std::numeric_limits<int64_t>::max();
  }
  int64_t last() const { return last_.load(kRelaxed); }

  // Keeps the minimum, because interference by other processes only lengthens a run. The minimum decays upwards by
  // 1/256 of the excess per run, so that it adapts if the step has become slower.
  void note(bool with_help, int64_t time) {
    last_.store(time, kRelaxed);
    std::atomic<float>& least = with_help ? with_help_ : alone_;
    const float before = least.load(kRelaxed), taken = static_cast<float>(time);
    const bool is_new = before == 0 || taken < before;
    least.store(is_new ? taken : before + (std::min(taken, 2 * before) - before) / 256, kRelaxed);
  }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;  // calls at the same time may miss a time
  std::atomic<float> alone_{0}, with_help_{0};  // nanoseconds; zero if not known
  std::atomic<int64_t> last_{0};
};

struct Step {
  dnnl::primitive primitive;
  Kernel kernel;  // instead of a primitive, for the few things that oneDNN has no primitive for
  std::vector<Argument> arguments;
  size_t scratchpad = 0;
  std::string label;
  std::unique_ptr<Pace> pace = std::make_unique<Pace>();
};

struct Plan {
  std::string heading;  // whole lines
  std::vector<Step> steps;
  Buffers buffers;
  size_t arena_bytes = 0;
  size_t scratchpad_bytes = 0;
  bool is_open = false;  // serves all values of open extents

  std::atomic<int64_t> runs{0};
  std::atomic<bool> is_small{false};  // no step is faster with help

  // The instances kept for later calls; each concurrent call needs a separate one.
  std::mutex mutex;
  std::vector<std::unique_ptr<class Instance>> idle;

  std::string describe() const {
    std::string text = heading;
    for (const Step& step : steps) text += step.label + "\n";
    return text;
  }

  // The time of each step in the last completed run, in nanoseconds; zero in the first run, which is not timed.
  std::string times() const {
    std::string text;
    for (const Step& step : steps) text += std::to_string(step.pace->last()) + " " + step.label + "\n";
    return text;
  }
};

// The memory of a call: an arena, and oneDNN's memory objects that point into it. Serves one call at a time.
class Instance {
 public:
  explicit Instance(Plan& plan)
      : plan_(plan), arena_(plan.arena_bytes + plan.scratchpad_bytes), stream_(cpu()) {
    if (kGuarded) plan.buffers.guard(arena_.data(), plan.arena_bytes);
    executions_.reserve(plan.steps.size());
    for (const Step& step : plan.steps) executions_.push_back(bind(step));
  }

  // `expressions` are the values of the graph's expressions over extents in this call.
  void run(const std::vector<char*>& inputs, const std::vector<char*>& outputs,
           const std::vector<int64_t>& expressions) {
#ifdef ANNOTATED_REGION_POISON  // in tests: what a call before has left must not help this one
    if (arena_.bytes() > 0) std::memset(arena_.data(), 0xff, arena_.bytes());
#endif
    for (const External& external : externals_) {
      if (external.home == Home::extents) {
        attach(external, reinterpret_cast<char*>(const_cast<int64_t*>(expressions.data())));
        continue;
      }
      char* base = (external.home == Home::input ? inputs : outputs)[external.index];
      attach(external, base + external.offset);
    }
    const int64_t number = plan_.runs++;
    const bool is_rousing = !plan_.is_small.load(std::memory_order_relaxed) || number % kSeldom == 0;
    if (is_rousing && helpers() > 0) Workers::all().rouse();
    bool is_small = true;
    for (size_t index = 0; index < executions_.size(); ++index) {
      Pace& pace = *plan_.steps[index].pace;
      const bool with_help = helpers() > 0 && is_with_help(index, number);
      help_is_worth() = with_help ? pace.worth() : 0;
      const int64_t began = nanoseconds();
      execute(plan_.steps[index], executions_[index]);
      if (number > 0) pace.note(with_help, nanoseconds() - began);
      is_small = is_small && !pace.is_faster_with_help();
    }
    plan_.is_small.store(is_small, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kSeldom = 32, kOften = 4;  // runs until a step runs the other way again
  static constexpr int64_t kLong = 1'000'000;         // nanoseconds

  struct Execution {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<char*> pointers;
  };

  // An argument whose address differs in every call: in a tensor of the caller, or the extents.
  struct External {
    Home home;
    int index;
    size_t offset;
    size_t step;
    size_t argument;
  };

  // The first runs alternate, unless a step is so long that a run without help would cost more than it tells; then each
  // step runs the faster way. Periodically the other way is tried again: with help for all steps in the same run,
  // because that costs little, and relatively less for longer steps; without help for one step at a time.
  bool is_with_help(size_t index, int64_t number) const {
    constexpr int64_t kFirst = 6;
    const Pace& pace = *plan_.steps[index].pace;
    if (number < kFirst) return number == 0 || number % 2 == 1 || pace.with_help() > kLong;
    if (!pace.is_faster_with_help()) return number % (pace.alone() > kWorthWaking ? kOften : kSeldom) == 0;
    return number % kSeldom != 1 || number / kSeldom % executions_.size() != index;
  }

  void execute(const Step& step, const Execution& execution) const {
    if (step.kernel) return step.kernel(execution.pointers);
    const dnnl_status_t status = dnnl_primitive_execute(step.primitive.get(), stream_.get(),
                                                        static_cast<int>(execution.arguments.size()),
                                                        execution.arguments.data());
    if (status != dnnl_success) throw dnnl::error(status, ("oneDNN could not execute " + step.label).c_str());
  }

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

  Plan& plan_;
  Storage arena_;
  dnnl::stream stream_;
  std::vector<Execution> executions_;
  std::vector<External> externals_;
};

}  // namespace annotated_region_dnnl
