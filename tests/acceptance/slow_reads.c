// A slow disk, for tests: preloaded, it delays each read of a file whose path contains SLOW_READS_PATH by SLOW_READS_US
// microseconds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void wait_as_a_disk(int descriptor) {
  const char* part = getenv("SLOW_READS_PATH");
  const char* delay = getenv("SLOW_READS_US");
  if (part == NULL || delay == NULL) return;
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  if (strstr(path, part) != NULL) usleep((useconds_t)atoi(delay));
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
