// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels on two streams work on cached blocks: one stream adds arrays, the other squares the sums.
// Nothing waits in between: each block of sums is freed while the second stream may still read it,
// and is not reused before that stream, which is recorded, is done with it.
// Exit status: 0; 1 after an error or a wrong number; 2 without a GPU.
#include <cachalot/cachalot.h>
#include <cachalot/cuda.h>
#include <cuda_runtime.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kDevice = 0;
constexpr size_t kCount = size_t{1} << 20;
constexpr int kRounds = 50;
constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = (kCount + kThreads - 1) / kThreads;

using Values = cachalot::cuda::Array<float>;

__global__ void add(const float* a, const float* b, float c, float* sums, size_t count) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) sums[i] = a[i] + b[i] + c;
}

__global__ void square(const float* values, float* squares, size_t count) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) squares[i] = values[i] * values[i];
}

[[noreturn]] void fail(int exit_status, const char* what, const char* why) {
  std::fprintf(stderr, "two_streams: %s: %s\n", what, why);
  std::exit(exit_status);
}

void must(cudaError_t code, const char* what) {
  if (code != cudaSuccess) fail(1, what, cudaGetErrorString(code));
}

void must(cachalot_status status, const char* what, const cachalot_error& error) {
  if (status == CACHALOT_ERROR_DRIVER_UNAVAILABLE) fail(2, what, error.message);
  if (status != CACHALOT_OK) fail(1, what, error.message);
}

cachalot_allocator* make_allocator() {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;
  must(cachalot_driver_open("cuda", &driver, &error), "no GPU to run on", error);
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = driver;
  cachalot_allocator* allocator = nullptr;
  must(cachalot_allocator_create(&options, &allocator, &error), "making an allocator", error);
  cachalot_driver_destroy(driver);  // The allocator keeps it alive.
  return allocator;
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return stream;
}

Values allocate(cachalot_allocator* allocator, cudaStream_t stream) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  Values values;
  must(cachalot::cuda::allocate(allocator, &values, kCount, kDevice, stream, &error),
       "allocating an array", error);
  return values;
}

Values upload(cachalot_allocator* allocator, const std::vector<float>& from, cudaStream_t stream) {
  Values values = allocate(allocator, stream);
  must(cudaMemcpyAsync(values.get(), from.data(), from.size() * sizeof(float),
                       cudaMemcpyHostToDevice, stream),
       "copying to the device");
  return values;
}

// Makes `later` wait for what is queued on `earlier`.
void order(cudaStream_t earlier, cudaStream_t later) {
  cudaEvent_t event = nullptr;
  must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  must(cudaEventRecord(event, earlier), "recording an event");
  must(cudaStreamWaitEvent(later, event, 0), "waiting for an event");
  must(cudaEventDestroy(event), "destroying an event");
}

// (a + b + c)^2, the sum on one stream and the square on the other.
Values sum_and_square(cachalot_allocator* allocator, const Values& a, const Values& b, float c,
                      cudaStream_t adding, cudaStream_t squaring) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  Values sums = allocate(allocator, adding);
  add<<<kBlocks, kThreads, 0, adding>>>(a.get(), b.get(), c, sums.get(), kCount);
  must(cudaGetLastError(), "launching add");

  order(adding, squaring);
  Values squares = allocate(allocator, squaring);
  square<<<kBlocks, kThreads, 0, squaring>>>(sums.get(), squares.get(), kCount);
  must(cudaGetLastError(), "launching square");

  // The sums are a block of `adding`, which knows nothing of the work on `squaring`.
  must(cachalot_cuda_record_stream(allocator, sums.get(), squaring, &error), "recording a stream",
       error);
  return squares;  // The sums are freed here, without waiting.
}

std::vector<float> download(const Values& values, cudaStream_t stream) {
  std::vector<float> result(kCount);
  must(cudaMemcpyAsync(result.data(), values.get(), kCount * sizeof(float), cudaMemcpyDeviceToHost,
                       stream),
       "copying to the host");
  must(cudaStreamSynchronize(stream), "waiting for a stream");
  return result;
}

void check(const std::vector<float>& squares, const std::vector<float>& a,
           const std::vector<float>& b, float c) {
  for (size_t i = 0; i < kCount; ++i) {
    const float expected = (a[i] + b[i] + c) * (a[i] + b[i] + c);
    if (squares[i] == expected) continue;
    std::fprintf(stderr, "two_streams: element %zu of round %g is %g, expected %g\n", i, c,
                 squares[i], expected);
    std::exit(1);
  }
}

void print_statistics(cachalot_allocator* allocator) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_stats stats = {};
  stats.struct_size = sizeof stats;
  must(cachalot_get_stats(allocator, kDevice, &stats, &error), "asking for statistics", error);
  std::printf("%" PRId64 " allocations took %" PRId64
              " driver calls; at most %.0f MiB in use of "
              "%.0f MiB reserved\n",
              stats.allocation.all.allocated, stats.segment.all.allocated,
              static_cast<double>(stats.allocated_bytes.all.peak) / (1 << 20),
              static_cast<double>(stats.reserved_bytes.all.peak) / (1 << 20));
}

}  // namespace

int main() {
  cachalot_allocator* allocator = make_allocator();
  must(cudaSetDevice(kDevice), "choosing the device");
  const cudaStream_t adding = make_stream();
  const cudaStream_t squaring = make_stream();

  // Small whole numbers, so that every sum and square is exact.
  std::vector<float> a(kCount);
  std::vector<float> b(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = static_cast<float>(i % 7);
  }
  {
    const Values device_a = upload(allocator, a, adding);
    const Values device_b = upload(allocator, b, adding);
    std::vector<Values> squares;
    for (int round = 0; round < kRounds; ++round) {
      squares.push_back(sum_and_square(allocator, device_a, device_b, static_cast<float>(round),
                                       adding, squaring));
    }
    for (int round = 0; round < kRounds; ++round) {
      check(download(squares[round], squaring), a, b, static_cast<float>(round));
    }
  }
  print_statistics(allocator);

  cachalot_error error = CACHALOT_ERROR_INIT;
  must(cachalot_allocator_destroy(allocator, &error), "ending the allocator", error);
  must(cudaStreamDestroy(squaring), "destroying a stream");
  must(cudaStreamDestroy(adding), "destroying a stream");
  std::printf("%d rounds of %zu sums and squares are right\n", kRounds, kCount);
  return 0;
}
