// The number of processors available to this process: its affinity and the quota of its control group.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include <sched.h>

namespace annotated_region_dnnl {

inline int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The CPU quota of one control group, in processors, from cgroup v2 or else v1.
inline double quota_of_group(const std::string& folder) {
  double quota = -1, period = 0;  // "max" is not a number
  if (std::ifstream both(folder + "/cpu.max"); both >> quota >> period) return quota / period;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

// The minimum over a group and its ancestors. A container may see its own group as the root.
inline double quota_of_path(const std::string& mount, std::string path) {
  double quota = quota_of_group(mount);
  for (; path.size() > 1; path.erase(path.rfind('/'))) quota = std::min(quota, quota_of_group(mount + path));
  return quota;
}

inline double quota() {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream groups("/proc/self/cgroup");  // lines such as 0::/path, or 4:cpu,cpuacct:/path
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") least = std::min(least, quota_of_path("/sys/fs/cgroup", path));
    if (controllers.find(",cpu,") != std::string::npos) least = std::min(least, quota_of_path("/sys/fs/cgroup/cpu", path));
  }
  return least;
}

// The quota is reread once per second, because it may change while a container runs.
inline int allowed_by_quota() {
  constexpr int64_t kSecond = 1'000'000'000;
  const auto read = [] { return static_cast<int>(std::ceil(std::min(quota(), 1e6))); };
  static std::atomic<int> allowed{read()};
  static std::atomic<int64_t> read_at{nanoseconds()};
  if (const int64_t now = nanoseconds(); now - read_at.load() >= kSecond) {
    read_at.store(now);
    allowed.store(read());
  }
  return allowed.load();
}

// The number of threads of this process that can run concurrently. Uses the affinity of the calling thread.
inline int processors() {
  cpu_set_t mask;
  const int allowed = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : CPU_SETSIZE;
  return std::max(1, std::min(allowed, allowed_by_quota()));
}

// The number of shares that work is split into: the user's setting, TVM's first, else one per processor.
inline int shares() {
  static const int count = [] {
    for (const char* name : {"TVM_NUM_THREADS", "OMP_NUM_THREADS"}) {
      const char* const setting = std::getenv(name);
      if (setting != nullptr && std::atoi(setting) > 0) return std::atoi(setting);
    }
    return processors();
  }();
  return count;
}

}  // namespace annotated_region_dnnl
