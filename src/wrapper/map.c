/*
 * map.c - mmap, munmap, mremap
 *
 * What munmap, mremap or a fixed mmap take away is cut out of the pieces (map_pieces.h).
 * Their lock is held over the real calls, so that an address that another thread maps anew
 * is not taken for the old piece. Descriptions are settled after it is let go.
 *
 * A mapping that cannot be followed (the table is full), is private or cannot be written
 * holds the description's lock too, but nothing is stored through it: it is only noted, and
 * the close settles. A read-only shared mapping that mprotect makes writable later counts
 * as read-only.
 */
#include "wrapper/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/map_pieces.h"
#include "wrapper/real.h"

static uintptr_t page_up(size_t len)
{
    uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;

    return (len + mask) & ~mask;
}

static bool is_followed(void)
{
    return atomic_load_explicit(&wrapper_pieces_live, memory_order_relaxed) > 0 &&
           wrapper_active() && wrapper_mine();
}

/* A library that watches memory (UCX, Open MPI) may stand in the place of libc's functions,
 * and makes the call by syscall(), which comes back to us. Not into our lock, and not in a
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
    struct wrapper_desc *gone[WRAPPER_PIECES + 2];
    unsigned ngone = 0;
    uint64_t mask;
    int rc, fd;

    if (__builtin_expect(
            atomic_load_explicit(&wrapper_pieces_live, memory_order_relaxed) == 0, 1) ||
        !is_followed())
        return real(addr, len);
    wrapper_pieces_lock(&mask);
    fd = wrapper_pieces_reopen_last(start, end);
    INSIDE(rc, real(addr, len));
    if (rc == 0)
        ngone = wrapper_pieces_cut(start, end, gone);
    wrapper_pieces_unlock(&mask);
    wrapper_pieces_drop(gone, ngone, fd);
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
    struct wrapper_desc *gone[WRAPPER_PIECES + 2], *desc;
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
    wrapper_pieces_lock(&mask);
    desc = wrapper_pieces_at(start, old_len ? end : start + 1);
    if (desc)
        wrapper_fd_desc_again(desc); /* of the mapping's new place */
    INSIDE(result, REAL(mremap)(old, old_len, new_len, flags, to));
    at = (uintptr_t)result;
    if (result != MAP_FAILED) {
        if (old_len)
            ngone = wrapper_pieces_cut(start, end, gone);
        ngone += wrapper_pieces_cut(at, at + page_up(new_len), gone + ngone);
        if (desc && wrapper_pieces_add(at, at + page_up(new_len), desc))
            desc = NULL;
    }
    wrapper_pieces_unlock(&mask);
    if (desc)
        gone[ngone++] = desc;
    wrapper_pieces_drop(gone, ngone, -1);
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
    bool tracked = !(flags & MAP_ANONYMOUS) && wrapper_fd_marked(fd) && wrapper_tracks(fd);
    struct wrapper_desc *gone[WRAPPER_PIECES + 2], *desc;
    unsigned ngone = 0;
    uint64_t mask;
    void *p;

    if (!tracked && !((flags & MAP_FIXED) && is_followed()))
        return real(addr, len, prot, flags, fd, offset);
    if (tracked && wrapper_show(fd) < 0)
        return MAP_FAILED;
    wrapper_pieces_lock(&mask);
    INSIDE(p, real(addr, len, prot, flags, fd, offset));
    if (p != MAP_FAILED) {
        uintptr_t start = (uintptr_t)p, end = start + page_up(len);
        ngone = wrapper_pieces_cut(start, end, gone);
        desc = tracked ? wrapper_fd_hold(fd) : NULL;
        if (desc && (flags & MAP_TYPE) != MAP_PRIVATE && can_write(fd))
            wrapper_fd_unrecord(fd); /* mprotect may come */
        if (desc && (flags & MAP_TYPE) != MAP_PRIVATE && (prot & PROT_WRITE) &&
            can_write(fd)) {
            wrapper_fd_desc_stored(desc);
            if (wrapper_pieces_add(start, end, desc))
                desc = NULL;
        }
        if (desc) {
            wrapper_fd_desc_mapped(desc);
            gone[ngone++] = desc;
        }
    }
    wrapper_pieces_unlock(&mask);
    wrapper_pieces_drop(gone, ngone, -1);
    return p;
}

void *wrapped_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (__builtin_expect(
            !wrapper_fd_marked(fd) &&
                atomic_load_explicit(&wrapper_pieces_live, memory_order_relaxed) == 0,
            1))
        return REAL(mmap)(addr, len, prot, flags, fd, offset);
    return do_mmap(addr, len, prot, flags, fd, offset, REAL(mmap));
}

void *wrapped_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset)
{
    if (__builtin_expect(
            !wrapper_fd_marked(fd) &&
                atomic_load_explicit(&wrapper_pieces_live, memory_order_relaxed) == 0,
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
