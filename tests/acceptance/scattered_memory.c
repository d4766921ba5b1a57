// A library that leaves the host's memory for tensors in pieces, for tests: preloaded, it takes SCATTERED_MEMORY_COUNT tensors
// of SCATTERED_MEMORY_KIB each as soon as the program has an allocator, and gives back all but every fourth.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int32_t (*make_tensor)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, void**);
typedef int32_t (*drop_tensor)(void*);

// Of a library that is loaded, though not for everybody to see.
static void* function_of(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* function = handle == NULL ? NULL : dlsym(handle, name);
  if (function != NULL) return function;
  fprintf(stderr, "scattered_memory.c: no %s in %s\n", name, library);
  exit(1);
}

static void scatter(int count, int64_t bytes) {
  // LibTorch's interface for C (torch/csrc/inductor/aoti_torch/c/shim.h): 0 is a tensor of bytes, and on the CPU.
  make_tensor make = (make_tensor)function_of("libtorch_cpu.so", "aoti_torch_empty_strided");
  drop_tensor drop = (drop_tensor)function_of("libtorch_cpu.so", "aoti_torch_delete_tensor_object");
  void** tensors = calloc((size_t)count, sizeof *tensors);
  const int64_t stride = 1;
  for (int i = 0; i < count; ++i) {
    if (make(1, &bytes, &stride, 0, 0, 0, &tensors[i]) == 0) continue;
    fprintf(stderr, "scattered_memory.c: no tensor could be made\n");
    exit(1);
  }
  for (int i = 0; i < count; ++i)
    if (i % 4 != 3) drop(tensors[i]);
  free(tensors);
}

// c10::SetCPUAllocator(c10::Allocator*, unsigned char)
void _ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh(void* allocator, uint8_t priority) {
  static int scattered;
  void (*next)(void*, uint8_t) = (void (*)(void*, uint8_t))function_of("libc10.so", "_ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh");
  next(allocator, priority);
  const char* count = getenv("SCATTERED_MEMORY_COUNT");
  const char* kib = getenv("SCATTERED_MEMORY_KIB");
  if (count == NULL || kib == NULL || scattered++ > 0) return;
  scatter(atoi(count), atoll(kib) << 10);
}
