// Makes the Nth call that changes or opens a file below a directory fail, or kills the
// process there. Loaded with LD_PRELOAD, so it also sees what TensorFlow and SQLite call.
// Not seen: calls that glibc makes itself, such as the writes of a stdio buffer, so
// stdio's own functions are wrapped; and memory that is mapped from a file.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FAIL_ONCE, FAIL_FROM, KILL, TEAR };

static char root[PATH_MAX];
static size_t root_length;
static int mode, error_number, log_descriptor = -1;
static long target;
static atomic_long calls;
static atomic_int armed;

// Counts the calls below `directory`. From then on, by `new_mode`: COUNT changes nothing,
// FAIL_ONCE fails call `nth` with `error`, FAIL_FROM that call and all later ones that
// need space, KILL kills the process before the call, TEAR after half of its bytes.
void fault_arm(const char *directory, int new_mode, long nth, int error, int log) {
  root_length = strlen(strcpy(root, directory));
  mode = new_mode, target = nth, error_number = error, log_descriptor = log;
  atomic_store(&calls, 0);
  atomic_store(&armed, 1);
}

void fault_disarm(void) { atomic_store(&armed, 0); }

static int below(const char *path) {
  return !strncmp(path, root, root_length) &&
         (path[root_length] == '/' || path[root_length] == '\0');
}

static int link_target(const char *link, char *path) {
  ssize_t length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return 1;
}

static int path_of(int descriptor, char *path) {
  char link[64];
  if (descriptor == AT_FDCWD) return link_target("/proc/self/cwd", path);
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  return link_target(link, path);
}

static int absolute(int directory, const char *name, char *path) {
  if (name == NULL) return 0;
  if (name[0] == '/') return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
  char parent[PATH_MAX];
  return path_of(directory, parent) &&
         snprintf(path, PATH_MAX, "%s/%s", parent, name) < PATH_MAX;
}

static void die(void) {
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) pause();
}

// What a call does: 0 is the real call, 1 half of it and then the end, -1 fails.
static int decide(const char *call, int needs_space, int writes, const char *path,
                  const char *other) {
  char line[2 * PATH_MAX + 64];
  long number = atomic_fetch_add(&calls, 1) + 1;
  int length = snprintf(line, sizeof line, "%s\t%s\t%s\n", call, path, other);
  if (log_descriptor >= 0) syscall(SYS_write, log_descriptor, line, length);
  int is_hit = mode == FAIL_FROM ? number >= target && (number == target || needs_space)
                                 : number == target;
  if (!is_hit || mode == COUNT) return 0;
  if (mode == TEAR && writes) return 1;
  if (mode == KILL || mode == TEAR) die();
  errno = error_number;
  return -1;
}

static int of_path(const char *call, int space, int directory, const char *name) {
  char path[PATH_MAX];
  if (!atomic_load(&armed) || !absolute(directory, name, path) || !below(path)) return 0;
  return decide(call, space, 0, path, "");
}

static int of_two(const char *call, int from, const char *source, int to,
                  const char *destination) {
  char path[PATH_MAX], other[PATH_MAX];
  if (!atomic_load(&armed) || !absolute(from, source, path) ||
      !absolute(to, destination, other) || !(below(path) || below(other)))
    return 0;
  return decide(call, 1, 0, path, other);
}

static int of_descriptor(const char *call, int space, int writes, int descriptor) {
  char path[PATH_MAX];
  if (!atomic_load(&armed) || !path_of(descriptor, path) || !below(path)) return 0;
  return decide(call, space, writes, path, "");
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define CREATES(flags) ((flags) & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY)
#define MODE_ARGUMENT \
  mode_t permissions = 0; \
  if (CREATES(flags)) { \
    va_list arguments; \
    va_start(arguments, flags); \
    permissions = va_arg(arguments, mode_t); \
    va_end(arguments); \
  }

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    MODE_ARGUMENT; \
    if (of_path("open", !!CREATES(flags), AT_FDCWD, path)) return -1; \
    return real(path, flags, permissions); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int directory, const char *path, int flags, ...) { \
    REAL(name); \
    MODE_ARGUMENT; \
    if (of_path("open", !!CREATES(flags), directory, path)) return -1; \
    return real(directory, path, flags, permissions); \
  }
OPENAT(openat)
OPENAT(openat64)

// What `open` becomes in code that is built with _FORTIFY_SOURCE.
int __open_2(const char *path, int flags) {
  if (of_path("open", 0, AT_FDCWD, path)) return -1;
  return syscall(SYS_openat, AT_FDCWD, path, flags);
}
int __open64_2(const char *path, int flags) { return __open_2(path, flags); }

#define CREAT(name) \
  int name(const char *path, mode_t permissions) { \
    REAL(name); \
    return of_path("open", 1, AT_FDCWD, path) ? -1 : real(path, permissions); \
  }
CREAT(creat)
CREAT(creat64)

#define FOPEN(name) \
  FILE *name(const char *path, const char *how) { \
    REAL(name); \
    return of_path("open", how[0] != 'r', AT_FDCWD, path) ? NULL : real(path, how); \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define WRITE(name, call, parameters, half, all) \
  ssize_t name parameters { \
    REAL(name); \
    int decision = of_descriptor(call, 1, 1, descriptor); \
    if (decision < 0) return -1; \
    if (decision) { \
      if (real half < 0) perror("half of a write"); \
      die(); \
    } \
    return real all; \
  }
WRITE(write, "write", (int descriptor, const void *bytes, size_t size),
      (descriptor, bytes, size / 2), (descriptor, bytes, size))
WRITE(pwrite, "write", (int descriptor, const void *bytes, size_t size, off_t offset),
      (descriptor, bytes, size / 2, offset), (descriptor, bytes, size, offset))
WRITE(pwrite64, "write", (int descriptor, const void *bytes, size_t size, off_t offset),
      (descriptor, bytes, size / 2, offset), (descriptor, bytes, size, offset))
WRITE(writev, "write", (int descriptor, const struct iovec *vectors, int count),
      (descriptor, vectors, count / 2), (descriptor, vectors, count))
#define COPY(name) \
  ssize_t name(int descriptor, int source, off_t *offset, size_t size) { \
    REAL(name); \
    int decision = of_descriptor("write", 1, 1, descriptor); \
    if (decision < 0) return -1; \
    if (decision) { \
      if (size > 32) size = 32; \
      if (real(descriptor, source, offset, size / 2) < 0) perror("half of a write"); \
      die(); \
    } \
    return real(descriptor, source, offset, size); \
  }
ssize_t sendfile(int, int, off_t *, size_t);
ssize_t sendfile64(int, int, off_t *, size_t);
COPY(sendfile)
COPY(sendfile64)

size_t fwrite(const void *bytes, size_t size, size_t count, FILE *file) {
  REAL(fwrite);
  int decision = of_descriptor("write", 1, 1, fileno(file));
  if (decision < 0) return 0;
  if (decision) {
    real(bytes, 1, size * count / 2, file);
    fflush(file);
    die();
  }
  return real(bytes, size, count, file);
}

int fflush(FILE *file) {
  REAL(fflush);
  return file && of_descriptor("write", 1, 0, fileno(file)) ? EOF : real(file);
}

int fclose(FILE *file) {
  REAL(fclose);
  int failed = of_descriptor("close", 0, 0, fileno(file));
  int saved = errno, status = real(file);
  if (failed) errno = saved;
  return failed ? EOF : status;
}

#define SYNC(name) \
  int name(int descriptor) { \
    REAL(name); \
    return of_descriptor("fsync", 1, 0, descriptor) ? -1 : real(descriptor); \
  }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name) \
  int name(int descriptor, off_t size) { \
    REAL(name); \
    return of_descriptor("truncate", 0, 0, descriptor) ? -1 : real(descriptor, size); \
  }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int rename(const char *from, const char *to) {
  REAL(rename);
  return of_two("rename", AT_FDCWD, from, AT_FDCWD, to) ? -1 : real(from, to);
}
int renameat(int from, const char *source, int to, const char *destination) {
  REAL(renameat);
  if (of_two("rename", from, source, to, destination)) return -1;
  return real(from, source, to, destination);
}
int link(const char *from, const char *to) {
  REAL(link);
  return of_two("link", AT_FDCWD, from, AT_FDCWD, to) ? -1 : real(from, to);
}
int linkat(int from, const char *source, int to, const char *destination, int flags) {
  REAL(linkat);
  if (of_two("link", from, source, to, destination)) return -1;
  return real(from, source, to, destination, flags);
}
int symlink(const char *content, const char *path) {
  REAL(symlink);
  return of_path("symlink", 1, AT_FDCWD, path) ? -1 : real(content, path);
}

#define ON_PATH(name, call, space) \
  int name(const char *path) { \
    REAL(name); \
    return of_path(call, space, AT_FDCWD, path) ? -1 : real(path); \
  }
ON_PATH(unlink, "unlink", 0)
ON_PATH(rmdir, "rmdir", 0)
ON_PATH(remove, "unlink", 0)

int unlinkat(int directory, const char *path, int flags) {
  REAL(unlinkat);
  const char *call = flags & AT_REMOVEDIR ? "rmdir" : "unlink";
  return of_path(call, 0, directory, path) ? -1 : real(directory, path, flags);
}
int mkdir(const char *path, mode_t permissions) {
  REAL(mkdir);
  return of_path("mkdir", 1, AT_FDCWD, path) ? -1 : real(path, permissions);
}
int mkdirat(int directory, const char *path, mode_t permissions) {
  REAL(mkdirat);
  return of_path("mkdir", 1, directory, path) ? -1 : real(directory, path, permissions);
}
