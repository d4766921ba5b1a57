// A slow disk, for tests: preloaded, it delays each read of a file whose path contains SLOW_READS_PATH by SLOW_READS_US
// microseconds; with SLOW_READS_RANK only in the process with that RANK, with SLOW_READS_AFTER only once so many were made.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int is_another_rank(void) {
  const char* wanted = getenv("SLOW_READS_RANK");
  const char* rank = getenv("RANK");
  return wanted != NULL && (rank == NULL || strcmp(rank, wanted) != 0);
}

static void wait_as_a_disk(int descriptor) {
  const char* part = getenv("SLOW_READS_PATH");
  const char* delay = getenv("SLOW_READS_US");
  if (part == NULL || delay == NULL || is_another_rank()) return;
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  if (strstr(path, part) == NULL) return;
  const char* after = getenv("SLOW_READS_AFTER");
  static atomic_int num_reads;
  if (after != NULL && atomic_fetch_add(&num_reads, 1) < atoi(after)) return;
  const long microseconds = atol(delay);
  struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;  // no signal ends a disk's delay
}

ssize_t read(int descriptor, void* buffer, size_t size) {
  static ssize_t (*next)(int, void*, size_t);
  if (next == NULL) next = (ssize_t(*)(int, void*, size_t))dlsym(RTLD_NEXT, "read");
  wait_as_a_disk(descriptor);
  return next(descriptor, buffer, size);
}

ssize_t pread64(int descriptor, void* buffer, size_t size, off64_t offset) {
  static ssize_t (*next)(int, void*, size_t, off64_t);
  if (next == NULL) next = (ssize_t(*)(int, void*, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
  wait_as_a_disk(descriptor);
  return next(descriptor, buffer, size, offset);
}

ssize_t pread(int descriptor, void* buffer, size_t size, off_t offset) {
  return pread64(descriptor, buffer, size, offset);
}
