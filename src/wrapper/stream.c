/*
 * stream.c - what libc reads and writes for its streams
 *
 * libc does that past any library that is loaded before it, but by way of a table of functions that all
 * streams of files share (struct _IO_jump_t, libio/libioP.h; one more for wide streams). libc checks that a
 * stream's table is one of its own, not what is in it. So the entries for read, write, seek and stat become
 * ours: those whose value is libc's exported function of that purpose. The tables are read-only after the
 * loader has relocated them, so their pages are writable for a moment.
 */
#include "wrapper/stream.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wrapper/fd.h"

#define ENTRIES 21 /* of struct _IO_jump_t; the first two are no functions */

ssize_t (*wrapper_stream_real_read)(FILE *stream, void *data, ssize_t len);
ssize_t (*wrapper_stream_real_write)(FILE *stream, const void *data, ssize_t len);
off64_t (*wrapper_stream_real_seek)(FILE *stream, off64_t offset, int whence);
int (*wrapper_stream_real_stat)(FILE *stream, void *st);

struct entry {
    void *real, *ours;
};

/* True if each of them is in the table once. */
static bool is_as_expected(void *const table[], const struct entry entry[], unsigned n)
{
    for (unsigned k = 0; k < n; k++) {
        unsigned found = 0;
        for (unsigned i = 2; i < ENTRIES; i++)
            found += table[i] == entry[k].real;
        if (found != 1)
            return false;
    }
    return true;
}

/* Other threads may call by way of it meanwhile: each entry is one store. */
static void replace(void *table[], const struct entry entry[], unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = 2; i < ENTRIES; i++)
            if (table[i] == entry[k].real)
                __atomic_store_n(&table[i], entry[k].ours, __ATOMIC_RELEASE);
}

static int protect(void *table, int prot)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
              from = (uintptr_t)table & ~(page - 1),
              to = ((uintptr_t)table + ENTRIES * sizeof(void *) + page - 1) & ~(page - 1);

    return mprotect((void *)from, to - from, prot);
}

void wrapper_streams_begin(const struct wrapper_streams *ours)
{
    const struct entry entry[] = {
        {dlsym(RTLD_NEXT, "_IO_file_read"), (void *)ours->read},
        {dlsym(RTLD_NEXT, "_IO_file_write"), (void *)ours->write},
        {dlsym(RTLD_NEXT, "_IO_file_seek"), (void *)ours->seek},
        {dlsym(RTLD_NEXT, "_IO_file_stat"), (void *)ours->stat},
    };
    const unsigned n = sizeof(entry) / sizeof(*entry);
    bool writable = true;
    void **tables[] = {dlsym(RTLD_NEXT, "_IO_file_jumps"),
                       dlsym(RTLD_NEXT, "_IO_wfile_jumps")};

    for (unsigned k = 0; k < n; k++)
        if (!entry[k].real)
            return;
    for (unsigned t = 0; t < 2; t++)
        if (!tables[t] || !is_as_expected(tables[t], entry, n))
            return;
    wrapper_stream_real_read = (ssize_t(*)(FILE *, void *, ssize_t))entry[0].real;
    wrapper_stream_real_write = (ssize_t(*)(FILE *, const void *, ssize_t))entry[1].real;
    wrapper_stream_real_seek = (off64_t(*)(FILE *, off64_t, int))entry[2].real;
    wrapper_stream_real_stat = (int (*)(FILE *, void *))entry[3].real;
    for (unsigned t = 0; t < 2; t++)
        writable &= protect(tables[t], PROT_READ | PROT_WRITE) == 0;
    for (unsigned t = 0; t < 2 && writable; t++)
        replace(tables[t], entry, n);
    for (unsigned t = 0; t < 2; t++)
        protect(tables[t], PROT_READ);
    if (writable)
        wrapper_fd_record_streams();
}
