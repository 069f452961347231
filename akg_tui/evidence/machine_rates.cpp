// Multiply-adds of vectors in registers, by several threads at once: see machine_rates.py.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vf __attribute__((vector_size(BYTES)));
typedef double vd __attribute__((vector_size(BYTES)));

// Run the work in all threads at once; return the seconds of the best of several repeats.
static double best(int threads, int repeats, const std::function<void(int)>& work) {
  double least = 1e30;
  for (int r = 0; r < repeats; ++r) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> others;
    auto wait = [&](int t) { ++ready; while (!go) {} work(t); };
    for (int t = 1; t < threads; ++t) others.emplace_back(wait, t);
    while (ready < threads - 1) {}
    auto start = std::chrono::steady_clock::now();
    go = true;
    work(0);
    for (auto& other : others) other.join();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

template <class V> static void multiply_add(long rounds, V* out) {
  V sum[12] = {}, factor = {}, term = {};
  factor += 0.5f; term += 1.0f;
  for (long r = 0; r < rounds; ++r)
    for (int i = 0; i < 12; ++i) sum[i] = sum[i] * factor + term;
  for (int i = 0; i < 12; ++i) *out += sum[i];
}

template <class V, class T> static double operations(int threads) {
  const long rounds = 1 << 20;
  std::vector<char> room(threads * 4096);
  char* start = room.data() + 64 - reinterpret_cast<size_t>(room.data()) % 64;
  double s = best(threads, 12, [&](int t) {
    multiply_add<V>(rounds, reinterpret_cast<V*>(start + t * 2048));
  });
  return 2.0 * 12 * rounds * (BYTES / sizeof(T)) * threads / s;
}

extern "C" double float32_rate(int threads) { return operations<vf, float>(threads); }
extern "C" double float64_rate(int threads) { return operations<vd, double>(threads); }
