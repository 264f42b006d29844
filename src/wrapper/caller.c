/*
 * caller.c - for which function of a library a file is opened
 *
 * open(O_RDWR) says the same for a program that wants what another makes and for a
 * library that looks whether the file is there, to make it if not:
 *
 *   H5Fcreate      opens each file so first, whatever the program asks for (HDF5, and
 *                  netCDF-4 above it), and then with O_CREAT
 *   MPI_File_open  one process makes the file and keeps it open, the others open it so,
 *                  when they were told that it is there
 *   h5copy, ...    HDF5's tools that add to a file or make it, by H5Fopen, then H5Fcreate
 *
 * Which it is, the stack tells. Where it does not (functions[]), the open waits.
 */
#include "wrapper/caller.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unwind.h>

#define FRAMES_MAX 48

/* The names that the libraries export. Some put a word of their own before them
 * (nc4_H5Fcreate, vtkhdf5_H5Fcreate, PMPI_File_open). In a program that has HDF5 linked
 * in statically nothing exports them. */
static const struct {
    const char *name;
    enum wrapper_caller knows;
} functions[] = {{"H5Fcreate", WRAPPER_CALLER_MAKES},
                 {"MPI_File_open", WRAPPER_CALLER_JOINS}};
static const char *const tools[] = {"h5copy", "h5import", "h5mkgrp"};

struct walk {
    unsigned frames;
    enum wrapper_caller knows;
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), len = strlen(end);

    return n >= len && strcmp(text + n - len, end) == 0;
}

static _Unwind_Reason_Code look_at(struct _Unwind_Context *context, void *arg)
{
    struct walk *walk = arg;
    _Unwind_Ptr ip = _Unwind_GetIP(context);
    Dl_info info;

    if (ip == 0 || ++walk->frames > FRAMES_MAX)
        return _URC_END_OF_STACK;
    /* It is where the call returns to, which may be the next function's first byte. */
    if (!dladdr((void *)(ip - 1), &info) || !info.dli_sname)
        return _URC_NO_REASON;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (ends_with(info.dli_sname,
                      functions[i].name)) /* the innermost: HDF5 by MPI-IO */
            walk->knows = functions[i].knows;
    return walk->knows ? _URC_END_OF_STACK : _URC_NO_REASON;
}

enum wrapper_caller wrapper_caller_knows(void)
{
    struct walk walk = {.frames = 0};
    int saved = errno;

    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
        if (strcmp(program_invocation_short_name, tools[i]) == 0)
            walk.knows = WRAPPER_CALLER_MAKES;
    if (!walk.knows)
        _Unwind_Backtrace(look_at, &walk);
    errno = saved;
    return walk.knows;
}
