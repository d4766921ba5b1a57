// A slow network, for tests: preloaded, each message that gloo writes to a socket takes SLOW_NETWORK_US microseconds, and
// its bytes as long as SLOW_NETWORK_MIB_S MiB a second take.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static double setting(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atof(text);
}

ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
  static ssize_t (*next)(int, const struct iovec*, int);
  if (next == NULL) next = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "writev");
  const ssize_t written = next(descriptor, pieces, count);
  struct stat file;
  if (written <= 0 || fstat(descriptor, &file) != 0 || !S_ISSOCK(file.st_mode)) return written;
  double microseconds = setting("SLOW_NETWORK_US");
  const double speed = setting("SLOW_NETWORK_MIB_S");
  if (speed > 0) microseconds += 1e6 * (double)written / (speed * (1 << 20));
  usleep((useconds_t)microseconds);
  return written;
}
