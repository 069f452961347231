/* Preloaded under a process, it sees every call that changes a file below one folder, the
 * ones inside libgit2 included, and can end the process, or fail the call, at the n-th.
 * Until disk_faults_arm it only passes calls on. See disk_faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WATCH, KILL_BEFORE, KILL_IN_THE_MIDDLE, KILL_AFTER, FAIL_ONCE, FAIL_FROM_HERE };

static int armed, mode, fault, trace = -1;
static long steps, target, part;
static char root[PATH_MAX];

void disk_faults_arm(const char *folder, int how, long at, int error, long bytes, int trace_fd)
{
    snprintf(root, sizeof root, "%s", folder);
    mode = how, target = at, fault = error, part = bytes, trace = trace_fd;
    steps = 0, armed = 1;
}

long disk_faults_disarm(void)
{
    armed = 0;
    return steps;
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static const char *place(int folder, const char *path, char *space)
{
    char link[64], base[PATH_MAX];
    if (path && path[0] == '/') return path;
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return "";
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0) return "";
        base[n] = 0;
    }
    if (!path) return strcpy(space, base);
    int n = snprintf(space, PATH_MAX, "%s/%s", base, path);
    return n < PATH_MAX ? space : "";
}

static void put(const void *data, size_t size)
{
    while (size) {
        ssize_t n = syscall(SYS_write, trace, data, size);
        if (n <= 0) return;
        data = (const char *)data + n, size -= n;
    }
}

/* Whether the disk that is full, or broken, refuses this kind of call. */
static int refused(char op)
{
    if (fault == ENOSPC) return strchr("cwmrl", op) != NULL;
    return 1;
}

/* One step begins. 1: the call shall fail with `fault`. */
static int step(char op, const char *path, const char *other, const void *data, size_t size)
{
    if (!armed || !path || strncmp(path, root, strlen(root))) return 0;
    steps++;
    if (trace >= 0) {
        unsigned lengths[3] = {strlen(path), other ? strlen(other) : 0, data ? size : 0};
        put(&op, 1), put(lengths, sizeof lengths);
        put(path, lengths[0]), put(other, lengths[1]), put(data, lengths[2]);
    }
    if (mode == KILL_BEFORE && steps == target) die();
    if (mode == FAIL_ONCE) return steps == target;
    if (mode == FAIL_FROM_HERE) return steps >= target && refused(op);
    return 0;
}

static int within(const char *path)
{
    return armed && path && !strncmp(path, root, strlen(root));
}

static void stepped(const char *path)
{
    if (mode == KILL_AFTER && steps == target && within(path)) die();
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define AROUND(call, op, path, other) \
    do { \
        const char *at = path; \
        if (step(op, at, other, NULL, 0)) { errno = fault; return -1; } \
        int result = call; \
        int kept = errno; \
        stepped(at); \
        errno = kept; \
        return result; \
    } while (0)

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(write);
    char space[PATH_MAX];
    if (!armed || fd == trace) return real(fd, data, size);
    const char *path = place(fd, NULL, space);
    int fails = step('w', path, NULL, data, size);
    if (within(path) && steps == target) {
        size_t some = part < 0 ? size / 2 : (size_t)part < size ? (size_t)part : size;
        if (mode == KILL_IN_THE_MIDDLE) { real(fd, data, some); die(); }
        /* A disk that fills up takes a part first. */
        if (fails && fault == ENOSPC && part && some) return real(fd, data, some);
    }
    if (fails) { errno = fault; return -1; }
    ssize_t n = real(fd, data, size);
    stepped(path);
    return n;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    REAL(pwrite64);
    char space[PATH_MAX];
    if (!armed) return real(fd, data, size, at);
    const char *path = place(fd, NULL, space);
    int fails = step('p', path, NULL, data, size);
    if (fails) { errno = fault; return -1; }
    if (within(path) && steps == target && mode == KILL_IN_THE_MIDDLE) {
        real(fd, data, part < 0 ? size / 2 : (size_t)part < size ? (size_t)part : size, at);
        die();
    }
    ssize_t n = real(fd, data, size, at);
    stepped(path);
    return n;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

int fsync(int fd)
{
    REAL(fsync);
    char space[PATH_MAX];
    if (!armed) return real(fd);
    AROUND(real(fd), 's', place(fd, NULL, space), NULL);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    char space[PATH_MAX];
    if (!armed) return real(fd);
    AROUND(real(fd), 's', place(fd, NULL, space), NULL);
}

int ftruncate64(int fd, off64_t length)
{
    REAL(ftruncate64);
    char space[PATH_MAX];
    if (!armed) return real(fd, length);
    long long told = length;
    const char *at = place(fd, NULL, space);
    if (step('t', at, NULL, &told, sizeof told)) { errno = fault; return -1; }
    int result = real(fd, length);
    stepped(at);
    return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int creating(int folder, const char *path, int flags, mode_t bits)
{
    char space[PATH_MAX], made[2] = {flags & O_TRUNC ? 't' : '-', 0};
    if (!armed || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
        return syscall(SYS_openat, folder, path, flags, bits);
    AROUND(syscall(SYS_openat, folder, path, flags, bits), 'c', place(folder, path, space), made);
}

#define BITS(flags) \
    mode_t bits = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more; va_start(more, flags); bits = va_arg(more, mode_t); va_end(more); \
    }

int open(const char *path, int flags, ...) { BITS(flags) return creating(AT_FDCWD, path, flags, bits); }
int open64(const char *path, int flags, ...) { BITS(flags) return creating(AT_FDCWD, path, flags, bits); }
int openat(int folder, const char *path, int flags, ...) { BITS(flags) return creating(folder, path, flags, bits); }
int openat64(int folder, const char *path, int flags, ...) { BITS(flags) return creating(folder, path, flags, bits); }
int creat(const char *path, mode_t bits) { return creating(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, bits); }

static int renaming(int from, const char *old, int to, const char *new)
{
    char one[PATH_MAX], two[PATH_MAX];
    if (!armed) return syscall(SYS_renameat2, from, old, to, new, 0);
    const char *target_path = place(to, new, two);
    AROUND(syscall(SYS_renameat2, from, old, to, new, 0), 'r', place(from, old, one), target_path);
}

int rename(const char *old, const char *new) { return renaming(AT_FDCWD, old, AT_FDCWD, new); }
int renameat(int from, const char *old, int to, const char *new) { return renaming(from, old, to, new); }

static int linking(int from, const char *old, int to, const char *new, int flags)
{
    char one[PATH_MAX], two[PATH_MAX];
    if (!armed) return syscall(SYS_linkat, from, old, to, new, flags);
    const char *target_path = place(to, new, two);
    AROUND(syscall(SYS_linkat, from, old, to, new, flags), 'l', place(from, old, one), target_path);
}

int link(const char *old, const char *new) { return linking(AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int from, const char *old, int to, const char *new, int flags) { return linking(from, old, to, new, flags); }

static int removing(int folder, const char *path, int flags)
{
    char space[PATH_MAX];
    if (!armed) return syscall(SYS_unlinkat, folder, path, flags);
    AROUND(syscall(SYS_unlinkat, folder, path, flags), 'u', place(folder, path, space), NULL);
}

int unlink(const char *path) { return removing(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return removing(folder, path, flags); }
int rmdir(const char *path) { return removing(AT_FDCWD, path, AT_REMOVEDIR); }

static int making(int folder, const char *path, mode_t bits)
{
    char space[PATH_MAX];
    if (!armed) return syscall(SYS_mkdirat, folder, path, bits);
    AROUND(syscall(SYS_mkdirat, folder, path, bits), 'm', place(folder, path, space), NULL);
}

int mkdir(const char *path, mode_t bits) { return making(AT_FDCWD, path, bits); }
int mkdirat(int folder, const char *path, mode_t bits) { return making(folder, path, bits); }
