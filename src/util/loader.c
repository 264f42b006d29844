/*
 * util/loader.c - does somebody wait for the dynamic loader, which waits for us?
 *
 * Of a thread that sleeps the kernel tells in which system call, with what arguments. If
 * that is a futex within the loader's own data the word is the first of a mutex there, and
 * a recursive mutex names its owner. Of its own locks a thread finds the mutex itself: its
 * number beside a count and the kind, at a place where nothing else looks like that.
 *
 * The loader's data stays mapped as long as the process lives, so a look that comes too
 * late is merely wrong for a moment: who is the owner of a mutex can only say so about
 * itself. For any thread, also in a signal handler: no memory is asked for.
 */
#include "util/loader.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/proc.h"

struct range {
    uintptr_t begin, end;
};

/* Where the loader lies; empty: it is not known (a program that was started by it). */
static struct range loader_range(void)
{
    uintptr_t base = getauxval(AT_BASE);
    const ElfW(Ehdr) *header = (const void *)base;
    struct range range = {.begin = base, .end = base};

    if (!base)
        return range;
    const ElfW(Phdr) *segment = (const void *)(base + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        uintptr_t end = base + segment[i].p_vaddr + segment[i].p_memsz;
        if (segment[i].p_type == PT_LOAD && end > range.end)
            range.end = end;
    }
    return range;
}

/* The futex in which thread `name` of this process sleeps; 0: in none, or nobody says. */
static uintptr_t futex_of(const char *name)
{
    char path[64], text[256], *end;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/syscall", name);
    if (util_proc_read(path, text, sizeof(text)) <= 0 ||
        strtol(text, &end, 10) != SYS_futex || end == text)
        return 0;
    return strtoul(end, NULL, 16);
}

static bool is_ours(const struct range *loader, uintptr_t futex)
{
    const pthread_mutex_t *mutex = (const void *)futex;

    return futex >= loader->begin && futex % _Alignof(pthread_mutex_t) == 0 &&
           futex + sizeof(*mutex) <= loader->end &&
           __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) ==
               (int)syscall(SYS_gettid);
}

bool util_loader_held(void)
{
    uintptr_t base = getauxval(AT_BASE);
    const ElfW(Ehdr) *header = (const void *)base;
    int self = (int)syscall(SYS_gettid);

    if (!base)
        return false;
    const ElfW(Phdr) *segment = (const void *)(base + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++, segment++) {
        const size_t align = _Alignof(pthread_mutex_t);
        uintptr_t at = (base + segment->p_vaddr + align - 1) / align * align;
        uintptr_t end = base + segment->p_vaddr + segment->p_memsz;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W))
            continue;
        for (; at + sizeof(pthread_mutex_t) <= end; at += align) {
            const pthread_mutex_t *mutex = (const void *)at;
            if (__atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == self &&
                mutex->__data.__count > 0 && mutex->__data.__nusers == 1 &&
                (mutex->__data.__lock == 1 || mutex->__data.__lock == 2) &&
                (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE_NP)
                return true;
        }
    }
    return false;
}

bool util_loader_awaited(void)
{
    _Alignas(struct dirent64) char entries[4096];
    struct range loader = loader_range();
    bool awaited = false;
    int saved = errno, dir;
    ssize_t n;

    if (loader.begin == loader.end ||
        (dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task",
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        errno = saved;
        return false;
    }
    while (!awaited && (n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < n && !awaited;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            awaited = entry->d_name[0] != '.' && is_ours(&loader, futex_of(entry->d_name));
        }
    }
    syscall(SYS_close, dir);
    errno = saved;
    return awaited;
}
