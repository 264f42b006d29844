/*
 * dlopen.c - dlopen, dlmopen
 *
 * The file that dlopen is given by a path is brought as by an open for reading (it waits);
 * what is searched, and what a library needs, by library.c (it does not).
 *
 * The loader knows its caller by the address that it returns to, and searches that object's
 * run path, in that object's name space. So dlopen is a jump to libc's, after the work
 * here; it is exported only for the machines that have the code below.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/env.h"
#include "wrapper/core.h"
#include "wrapper/environment.h"
#include "wrapper/library.h"
#include "wrapper/open_exec.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"

#ifdef WRAPPER_HAS_JUMPS

/* The run paths of the object that `address` is in. */
static void caller_search(const void *address, struct wrapper_search *s,
                          char origin[PATH_MAX])
{
    const char *strings = NULL;
    struct link_map *map = NULL;
    Dl_info info;
    uint64_t rpath = 0, runpath = 0;

    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !map->l_ld)
        return;
    s->origin = map->l_name;
    if (!*map->l_name) { /* the program */
        long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", origin, PATH_MAX - 1);
        origin[n > 0 ? n : 0] = '\0';
        s->origin = n > 0 ? origin : NULL;
    }
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr; /* the loader has relocated it */
        else if (d->d_tag == DT_RPATH)
            rpath = d->d_un.d_val;
        else if (d->d_tag == DT_RUNPATH)
            runpath = d->d_un.d_val;
    }
    s->rpath = strings && rpath ? strings + rpath : NULL;
    s->runpath = strings && runpath ? strings + runpath : NULL;
}

static void bring_searched(const char *name, const void *caller)
{
    struct wrapper_search s = {.library_path =
                                   util_env_get(wrapper_env, "LD_LIBRARY_PATH")};
    const struct engine_ops *ops;
    char origin[PATH_MAX];

    caller_search(caller, &s, origin);
    if ((!s.rpath && !s.runpath && !s.library_path) || !wrapper_mine() ||
        !(ops = wrapper_engine()))
        return;
    wrapper_library_bring(ops, name, &s);
}

static void before(const char *path, int flags, const void *caller)
{
    struct wrapper_path where;
    int saved = errno;

    if (wrapper_bad_pointer(path) || !*path || (flags & RTLD_NOLOAD) || !wrapper_active())
        return;
    if (strchr(path, '/'))
        wrapper_open_for_exec(AT_FDCWD, &path, true, wrapper_env, &where);
    else
        bring_searched(path, caller);
    errno = saved; /* the loader says itself what it does not find */
}

void *wrapper_dlopen_target(const char *path, int flags, const void *caller);
void *wrapper_dlmopen_target(const char *path, int flags, const void *caller);

/* Where the jumps go. */
__attribute__((used)) void *wrapper_dlopen_target(const char *path, int flags,
                                                  const void *caller)
{
    before(path, flags, caller);
    return (void *)REAL(dlopen);
}

__attribute__((used)) void *wrapper_dlmopen_target(const char *path, int flags,
                                                   const void *caller)
{
    before(path, flags, caller);
    return (void *)REAL(dlmopen);
}

#if defined(__x86_64__)
__asm__(
    ".pushsection .text\n"
    ".globl dlopen\n.type dlopen, @function\n"
    "dlopen:\n"
    "    .cfi_startproc\n"
    "    endbr64\n"
    "    movq (%rsp), %rdx\n"
    "    pushq %rdi\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    pushq %rsi\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    subq $8, %rsp\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    call wrapper_dlopen_target\n"
    "    addq $8, %rsp\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    popq %rsi\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    popq %rdi\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    jmp *%rax\n"
    "    .cfi_endproc\n"
    ".size dlopen, .-dlopen\n"
    ".globl dlmopen\n.type dlmopen, @function\n"
    "dlmopen:\n"
    "    .cfi_startproc\n"
    "    endbr64\n"
    "    movq (%rsp), %rcx\n"
    "    pushq %rdi\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    pushq %rsi\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    pushq %rdx\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    movq %rsi, %rdi\n"
    "    movl %edx, %esi\n"
    "    movq %rcx, %rdx\n"
    "    call wrapper_dlmopen_target\n"
    "    popq %rdx\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    popq %rsi\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    popq %rdi\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    jmp *%rax\n"
    "    .cfi_endproc\n"
    ".size dlmopen, .-dlmopen\n"
    ".popsection\n");
#else
__asm__(
    ".pushsection .text\n"
    ".globl dlopen\n.type dlopen, %function\n"
    "dlopen:\n"
    "    hint #34\n" /* bti c */
    "    stp x29, x30, [sp, #-32]!\n"
    "    stp x0, x1, [sp, #16]\n"
    "    mov x2, x30\n"
    "    bl wrapper_dlopen_target\n"
    "    mov x16, x0\n"
    "    ldp x0, x1, [sp, #16]\n"
    "    ldp x29, x30, [sp], #32\n"
    "    br x16\n"
    ".size dlopen, .-dlopen\n"
    ".globl dlmopen\n.type dlmopen, %function\n"
    "dlmopen:\n"
    "    hint #34\n"
    "    stp x29, x30, [sp, #-48]!\n"
    "    stp x0, x1, [sp, #16]\n"
    "    str x2, [sp, #32]\n"
    "    mov x0, x1\n"
    "    mov x1, x2\n"
    "    mov x2, x30\n"
    "    bl wrapper_dlmopen_target\n"
    "    mov x16, x0\n"
    "    ldp x0, x1, [sp, #16]\n"
    "    ldr x2, [sp, #32]\n"
    "    ldp x29, x30, [sp], #48\n"
    "    br x16\n"
    ".size dlmopen, .-dlmopen\n"
    ".popsection\n");
#endif
#endif
