/*
 * front_loader.c - does somebody wait for the dynamic loader, which waits for us?
 *
 * Who runs a library's constructor holds the loader's lock. If it opens a file, and waits
 * for the member that this process has just begun to be, the member's thread may never come
 * to answer: it loads libraries (UCX and PMIx do so up to the join), for which it needs
 * that lock.
 *
 * The lock is not to be had from outside. But of a thread that sleeps the kernel tells in
 * which system call, with what arguments. If that is a futex within the loader's own data
 * the word is the first of a mutex there, and a recursive mutex names its owner. The
 * loader's data stays mapped as long as the process lives, so a look that comes too late is
 * merely wrong for a moment: who is the owner of a mutex can only say so about itself.
 *
 * For any thread, also in a signal handler: no memory is asked for.
 */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/front_impl.h"
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

bool front_loader_awaited(void)
{
    _Alignas(struct dirent64) char entries[4096];
    struct range loader = loader_range();
    bool awaited = false;
    ssize_t n;
    int dir;

    if (loader.begin == loader.end ||
        (dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return false;
    while (!awaited && (n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < n && !awaited;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            awaited = entry->d_name[0] != '.' && is_ours(&loader, futex_of(entry->d_name));
        }
    }
    close(dir);
    return awaited;
}
