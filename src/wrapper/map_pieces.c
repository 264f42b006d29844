/*
 * map_pieces.c - a table, and a lock that signals do not interrupt
 *
 * Allocators unmap in any context, a signal handler's too: so the lock is held with all
 * signals blocked. `wrapper_pieces_live` counts the pieces: while it is 0, as in nearly all
 * programs, munmap costs one load more. A piece cut in the middle becomes two.
 */
#include "wrapper/map_pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/call.h"
#include "wrapper/fd.h"

struct piece {
    uintptr_t start, end;
    struct wrapper_desc *desc;
};

static struct piece pieces[WRAPPER_PIECES]; /* the first wrapper_pieces_live are in use */
_Atomic unsigned wrapper_pieces_live;
static _Atomic uint32_t lock_word; /* 0 free, 1 held, 2 held and waited for */

void wrapper_pieces_lock(uint64_t *mask)
{
    uint32_t seen = 0;

    wrapper_signals_block(mask);
    if (atomic_compare_exchange_strong(&lock_word, &seen, 1))
        return;
    while (atomic_exchange(&lock_word, 2) != 0)
        syscall(SYS_futex, &lock_word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void wrapper_pieces_unlock(const uint64_t *mask)
{
    if (atomic_exchange(&lock_word, 0) == 2)
        syscall(SYS_futex, &lock_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    wrapper_signals_restore(mask);
}

/* With the lock, from here on. */

bool wrapper_pieces_add(uintptr_t start, uintptr_t end, struct wrapper_desc *desc)
{
    unsigned n = atomic_load(&wrapper_pieces_live);

    if (n == WRAPPER_PIECES)
        return false;
    pieces[n] = (struct piece){.start = start, .end = end, .desc = desc};
    atomic_store(&wrapper_pieces_live, n + 1);
    return true;
}

static void remove_at(unsigned i)
{
    unsigned n = atomic_load(&wrapper_pieces_live) - 1;

    pieces[i] = pieces[n];
    atomic_store(&wrapper_pieces_live, n);
}

static bool overlaps(const struct piece *p, uintptr_t start, uintptr_t end)
{
    return p->start < end && start < p->end;
}

struct wrapper_desc *wrapper_pieces_at(uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < atomic_load(&wrapper_pieces_live); i++)
        if (overlaps(&pieces[i], start, end))
            return pieces[i].desc;
    return NULL;
}

unsigned wrapper_pieces_cut(uintptr_t start, uintptr_t end, struct wrapper_desc *gone[])
{
    unsigned ngone = 0;

    for (unsigned i = 0; i < atomic_load(&wrapper_pieces_live);) {
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
                if (!wrapper_pieces_add(end, p->end, p->desc)) {
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

int wrapper_pieces_reopen_last(uintptr_t start, uintptr_t end)
{
    int saved = errno, fd = -1;

    for (unsigned i = 0; fd < 0 && i < atomic_load(&wrapper_pieces_live); i++) {
        const struct piece *p = &pieces[i];
        if (overlaps(p, start, end) && start <= p->start && p->end <= end &&
            wrapper_fd_desc_is_last(p->desc))
            fd = reopen(p->start);
    }
    errno = saved;
    return fd;
}

void wrapper_pieces_drop(struct wrapper_desc *gone[], unsigned n, int fd)
{
    int saved = errno;

    for (unsigned i = 0; i < n; i++)
        wrapper_fd_desc_drop(gone[i], fd, NULL, NULL);
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
}

void wrapper_pieces_settle_all(void)
{
    struct piece p;
    uint64_t mask;
    unsigned n;

    while (atomic_load(&wrapper_pieces_live) > 0) {
        wrapper_pieces_lock(&mask);
        n = atomic_load(&wrapper_pieces_live);
        if (n > 0) {
            p = pieces[n - 1];
            remove_at(n - 1);
        }
        wrapper_pieces_unlock(&mask);
        if (n == 0)
            return;
        int saved = errno, fd = wrapper_fd_desc_is_last(p.desc) ? reopen(p.start) : -1;
        errno = saved;
        /* A mapping of this process still holds the file. */
        wrapper_fd_desc_mapped(p.desc);
        wrapper_pieces_drop(&p.desc, 1, fd);
    }
}

void wrapper_pieces_fork_child_begin(void)
{
    atomic_store(&lock_word, 0);
    for (unsigned i = 0; i < atomic_load(&wrapper_pieces_live); i++)
        wrapper_fd_desc_zero(pieces[i].desc);
}

void wrapper_pieces_fork_child_end(void)
{
    for (unsigned i = 0; i < atomic_load(&wrapper_pieces_live); i++)
        wrapper_fd_desc_again(pieces[i].desc);
}
