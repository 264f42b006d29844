/*
 * map.c - mmap, munmap, mremap
 *
 * A table of pieces of address space, each a part of one shared, writable mapping of a
 * tracked description, with a reference to it. What munmap, mremap or a fixed mmap take
 * away is cut out of the pieces; a piece cut in the middle becomes two. `live` counts them:
 * while it is 0, as in nearly all programs, munmap costs one load more.
 *
 * Under a lock, with all signals blocked: allocators unmap in any context, a signal
 * handler's too. It is held over the real calls, so that an address that another thread
 * maps anew is not taken for the old piece. Descriptions are settled after it is let go.
 *
 * A mapping that cannot be followed (the table is full), is private or cannot be written
 * holds the description's lock too, but nothing is stored through it: it is only noted, and
 * the close settles. A read-only shared mapping that mprotect makes writable later counts
 * as read-only.
 */
#include "wrapper/map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/real.h"

#define NPIECES 1024

struct piece {
    uintptr_t start, end;
    struct wrapper_desc *desc;
};

static struct piece pieces[NPIECES]; /* the first `live` are in use */
static _Atomic unsigned live;
static _Atomic uint32_t lock_word; /* 0 free, 1 held, 2 held and waited for */

static void lock(uint64_t *mask)
{
    uint32_t seen = 0;

    wrapper_signals_block(mask);
    if (atomic_compare_exchange_strong(&lock_word, &seen, 1))
        return;
    while (atomic_exchange(&lock_word, 2) != 0)
        syscall(SYS_futex, &lock_word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(const uint64_t *mask)
{
    if (atomic_exchange(&lock_word, 0) == 2)
        syscall(SYS_futex, &lock_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    wrapper_signals_restore(mask);
}

/* With the lock, from here on. */

/* Takes over the caller's reference to desc. False: no room. */
static bool add(uintptr_t start, uintptr_t end, struct wrapper_desc *desc)
{
    unsigned n = atomic_load(&live);

    if (n == NPIECES)
        return false;
    pieces[n] = (struct piece){.start = start, .end = end, .desc = desc};
    atomic_store(&live, n + 1);
    return true;
}

static void remove_at(unsigned i)
{
    unsigned n = atomic_load(&live) - 1;

    pieces[i] = pieces[n];
    atomic_store(&live, n);
}

static bool overlaps(const struct piece *p, uintptr_t start, uintptr_t end)
{
    return p->start < end && start < p->end;
}

/* Cut [start, end) out of all pieces. Whole ones go to gone[], with their
 * references. Returns how many. */
static unsigned cut(uintptr_t start, uintptr_t end, struct wrapper_desc *gone[])
{
    unsigned ngone = 0;

    for (unsigned i = 0; i < atomic_load(&live);) {
        struct piece *p = &pieces[i];
        if (!overlaps(p, start, end)) {
            i++;
        } else if (start <= p->start && p->end <= end) {
            gone[ngone++] = p->desc;
            remove_at(i);
        } else {
            if (start > p->start && end < p->end) {
                /* No room for the part behind: it is not followed. */
                wrapper_fd_desc_again(p->desc);
                if (!add(end, p->end, p->desc)) {
                    wrapper_fd_desc_mapped(p->desc);
                    wrapper_fd_desc_drop(p->desc, -1, NULL, NULL);
                }
                p->end = start;
            } else if (start > p->start) {
                p->end = start;
            } else {
                p->start = end;
            }
            i++;
        }
    }
    return ngone;
}

/* The file mapped at address, opened anew by the name that the kernel shows, or -1: the
 * engine needs a descriptor to learn the present name. */
static int reopen(uintptr_t address)
{
    char buf[PATH_MAX + 256], *line, *end, *path;
    int maps = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    long n;
    int fd = -1;

    if (maps < 0)
        return -1;
    while (fd < 0 && have < sizeof(buf) - 1 &&
           (n = syscall(SYS_read, maps, buf + have, sizeof(buf) - 1 - have)) > 0) {
        have += (size_t)n;
        for (line = buf; (end = memchr(line, '\n', have - (size_t)(line - buf)));
             line = end + 1) {
            uintptr_t from = 0, to = 0;
            char *p = line;
            *end = '\0';
            for (; *p && *p != '-' && *p != ' '; p++)
                from = from * 16 + (uintptr_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
            for (p += *p == '-'; *p && *p != ' '; p++)
                to = to * 16 + (uintptr_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
            if (address < from || address >= to || !(path = strchr(line, '/')))
                continue;
            fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                              O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
            if (fd < 0)
                fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                                  O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
            break;
        }
        have -= (size_t)(line - buf);
        memmove(buf, line, have);
    }
    syscall(SYS_close, maps);
    return fd;
}

/* A range is about to go. A new descriptor of the file of the first piece in it that is its
 * description's last hold, or -1. */
static int reopen_last(uintptr_t start, uintptr_t end)
{
    int saved = errno, fd = -1;

    for (unsigned i = 0; fd < 0 && i < atomic_load(&live); i++) {
        const struct piece *p = &pieces[i];
        if (overlaps(p, start, end) && start <= p->start && p->end <= end &&
            wrapper_fd_desc_is_last(p->desc))
            fd = reopen(p->start);
    }
    errno = saved;
    return fd;
}

/* Without the lock. A publish that fails is logged by the engine: munmap has no error for
 * it. `fd` is of one of them, or -1; it is closed. */
static void drop_all(struct wrapper_desc *gone[], unsigned n, int fd)
{
    int saved = errno;

    for (unsigned i = 0; i < n; i++)
        wrapper_fd_desc_drop(gone[i], fd, NULL, NULL);
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
}

static uintptr_t page_up(size_t len)
{
    uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;

    return (len + mask) & ~mask;
}

static bool is_followed(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed) > 0 && wrapper_active() &&
           wrapper_mine();
}

/* What stands in libc's functions may be a library that watches memory (UCX, Open MPI): it
 * makes the call by syscall(), which comes back to us. Not into our lock, and not in a
 * circle: see wrapper_map_raw_mmap(). */
#define INSIDE(result, call) \
    do {                     \
        wrapper_guard++;     \
        (result) = (call);   \
        wrapper_guard--;     \
    } while (0)

static int do_munmap(void *addr, size_t len, wrapper_fn_munmap *real)
{
    uintptr_t start = (uintptr_t)addr, end = start + page_up(len);
    struct wrapper_desc *gone[NPIECES + 2];
    unsigned ngone = 0;
    uint64_t mask;
    int rc, fd;

    if (__builtin_expect(atomic_load_explicit(&live, memory_order_relaxed) == 0, 1) ||
        !is_followed())
        return real(addr, len);
    lock(&mask);
    fd = reopen_last(start, end);
    INSIDE(rc, real(addr, len));
    if (rc == 0)
        ngone = cut(start, end, gone);
    unlock(&mask);
    drop_all(gone, ngone, fd);
    return rc;
}

int wrapped_munmap(void *addr, size_t len)
{
    return do_munmap(addr, len, REAL(munmap));
}

static int raw_munmap(void *addr, size_t len)
{
    return (int)syscall(SYS_munmap, addr, len);
}

int wrapper_map_raw_munmap(void *addr, size_t len)
{
    return do_munmap(addr, len, raw_munmap);
}

void *wrapped_mremap(void *old, size_t old_len, size_t new_len, int flags, ...)
{
    uintptr_t start = (uintptr_t)old, end = start + page_up(old_len), at;
    struct wrapper_desc *gone[NPIECES + 2], *desc = NULL;
    void *to = NULL, *result;
    unsigned ngone = 0;
    uint64_t mask;

    if (flags & MREMAP_FIXED) {
        va_list ap;
        va_start(ap, flags);
        to = va_arg(ap, void *);
        va_end(ap);
    }
    if (!is_followed())
        return REAL(mremap)(old, old_len, new_len, flags, to);
    lock(&mask);
    for (unsigned i = 0; !desc && i < atomic_load(&live); i++)
        if (overlaps(&pieces[i], start, old_len ? end : start + 1))
            desc = pieces[i].desc;
    if (desc)
        wrapper_fd_desc_again(desc); /* of the mapping's new place */
    INSIDE(result, REAL(mremap)(old, old_len, new_len, flags, to));
    at = (uintptr_t)result;
    if (result != MAP_FAILED) {
        if (old_len)
            ngone = cut(start, end, gone);
        ngone += cut(at, at + page_up(new_len), gone + ngone);
        if (desc && add(at, at + page_up(new_len), desc))
            desc = NULL;
    }
    unlock(&mask);
    if (desc)
        gone[ngone++] = desc;
    drop_all(gone, ngone, -1);
    return result;
}

static bool can_write(int fd)
{
    int saved = errno, flags = (int)syscall(SYS_fcntl, fd, F_GETFL);

    errno = saved;
    return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

static void *do_mmap(void *addr, size_t len, int prot, int flags, int fd, off64_t offset,
                     wrapper_fn_mmap64 *real)
{
    bool tracked =
        !(flags & MAP_ANONYMOUS) && wrapper_fd_marked(fd) && wrapper_fd_tracked(fd);
    struct wrapper_desc *gone[NPIECES + 2], *desc;
    unsigned ngone = 0;
    uint64_t mask;
    void *p;

    if (!tracked && !((flags & MAP_FIXED) && is_followed()))
        return real(addr, len, prot, flags, fd, offset);
    lock(&mask);
    INSIDE(p, real(addr, len, prot, flags, fd, offset));
    if (p != MAP_FAILED) {
        uintptr_t start = (uintptr_t)p, end = start + page_up(len);
        ngone = cut(start, end, gone);
        desc = tracked ? wrapper_fd_hold(fd) : NULL;
        if (desc && (flags & MAP_TYPE) != MAP_PRIVATE && (prot & PROT_WRITE) &&
            can_write(fd)) {
            wrapper_fd_desc_stored(desc);
            if (add(start, end, desc))
                desc = NULL;
        }
        if (desc) {
            wrapper_fd_desc_mapped(desc);
            gone[ngone++] = desc;
        }
    }
    unlock(&mask);
    drop_all(gone, ngone, -1);
    return p;
}

void *wrapped_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (__builtin_expect(!wrapper_fd_marked(fd) &&
                             atomic_load_explicit(&live, memory_order_relaxed) == 0,
                         1))
        return REAL(mmap)(addr, len, prot, flags, fd, offset);
    return do_mmap(addr, len, prot, flags, fd, offset, REAL(mmap));
}

void *wrapped_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset)
{
    if (__builtin_expect(!wrapper_fd_marked(fd) &&
                             atomic_load_explicit(&live, memory_order_relaxed) == 0,
                         1))
        return REAL(mmap64)(addr, len, prot, flags, fd, offset);
    return do_mmap(addr, len, prot, flags, fd, offset, REAL(mmap64));
}

static void *raw_mmap(void *addr, size_t len, int prot, int flags, int fd, off64_t offset)
{
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

void *wrapper_map_raw_mmap(void *addr, size_t len, int prot, int flags, int fd,
                           off64_t offset)
{
    return do_mmap(addr, len, prot, flags, fd, offset, raw_mmap);
}

void wrapper_map_settle_all(void)
{
    struct piece p;
    uint64_t mask;
    unsigned n;

    while (atomic_load(&live) > 0) {
        lock(&mask);
        n = atomic_load(&live);
        if (n > 0) {
            p = pieces[n - 1];
            remove_at(n - 1);
        }
        unlock(&mask);
        if (n == 0)
            return;
        int saved = errno, fd = wrapper_fd_desc_is_last(p.desc) ? reopen(p.start) : -1;
        errno = saved;
        /* What is mapped still holds the file, and is ours. */
        wrapper_fd_desc_mapped(p.desc);
        drop_all(&p.desc, 1, fd);
    }
}

void wrapper_map_fork_child_begin(void)
{
    atomic_store(&lock_word, 0);
    for (unsigned i = 0; i < atomic_load(&live); i++)
        wrapper_fd_desc_zero(pieces[i].desc);
}

void wrapper_map_fork_child_end(void)
{
    for (unsigned i = 0; i < atomic_load(&live); i++)
        wrapper_fd_desc_again(pieces[i].desc);
}
