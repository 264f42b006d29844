/*
 * syscall.c - syscall() and vfork()
 *
 * syscall(): libuv closes with it, and others open. The calls that the wrapper knows go
 * to its functions, all others to libc's with their six arguments. (openat2, the at-forms
 * of stat, and whatever has no function of ours pass by.) The wrapper's own uses of
 * syscall() must not come back here: the linker binds them to __wrap_syscall.
 *
 * vfork() comes back twice, in the child on the same stack: see wrapper_vfork_target().
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/map.h"
#include "wrapper/real.h"

long __wrap_syscall(long number, ...);

/* Reading six arguments where fewer were passed reads registers or stack that the kernel
 * then ignores, as libc's own function does. */
#define GET_ARGUMENTS(a, number)      \
    long a[6];                        \
    do {                              \
        va_list ap_;                  \
        va_start(ap_, number);        \
        for (int i = 0; i < 6; i++)   \
            a[i] = va_arg(ap_, long); \
        va_end(ap_);                  \
    } while (0)

/* In the wrapper's own calls. */
long __wrap_syscall(long number, ...)
{
    GET_ARGUMENTS(a, number);
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#define P(i)  ((const char *)a[i])
#define I(i)  ((int)a[i])
#define AT(i) I(i), P((i) + 1)

/* True: *result is what libc's syscall() would return. */
static bool dispatch(long number, const long a[6], long *result)
{
    switch (number) {
#define CASE(name, call)  \
    case SYS_##name:      \
        *result = (call); \
        return true;
        CASE(close, wrapped_close(I(0)))
        CASE(close_range, wrapped_close_range((unsigned)a[0], (unsigned)a[1], I(2)))
        CASE(openat, wrapped_openat(AT(0), I(2), (mode_t)a[3]))
        CASE(dup, wrapped_dup(I(0)))
        CASE(dup3, wrapped_dup3(I(0), I(1), I(2)))
        CASE(fcntl, wrapped_fcntl(I(0), I(1), a[2]))
        CASE(renameat2, wrapped_renameat2(AT(0), AT(2), (unsigned)a[4]))
        CASE(linkat, wrapped_linkat(AT(0), AT(2), I(4)))
        CASE(unlinkat, wrapped_unlinkat(AT(0), I(2)))
        CASE(truncate, wrapped_truncate(P(0), a[1]))
        CASE(statx, wrapped_statx(AT(0), I(2), (unsigned)a[3], (struct statx *)a[4]))
        CASE(write, wrapped_write(I(0), P(1), (size_t)a[2]))
        CASE(pwrite64, wrapped_pwrite64(I(0), P(1), (size_t)a[2], (off64_t)a[3]))
        CASE(writev, wrapped_writev(I(0), (const struct iovec *)a[1], I(2)))
        CASE(ftruncate, wrapped_ftruncate(I(0), a[1]))
        CASE(fallocate, wrapped_fallocate(I(0), I(1), a[2], a[3]))
        CASE(chdir, wrapped_chdir(P(0)))
        CASE(fchdir, wrapped_fchdir(I(0)))
        CASE(execve, wrapped_execve(P(0), (char **)a[1], (char **)a[2]))
        CASE(execveat, wrapped_execveat(AT(0), (char **)a[2], (char **)a[3], I(4)))
        CASE(munmap, wrapper_map_raw_munmap((void *)a[0], (size_t)a[1]))
        CASE(mmap, (long)wrapper_map_raw_mmap((void *)a[0], (size_t)a[1], I(2), I(3), I(4),
                                              (off64_t)a[5]))
#ifdef SYS_renameat
        CASE(renameat, wrapped_renameat(AT(0), AT(2)))
#endif
#ifdef SYS_open
        CASE(open, wrapped_open(P(0), I(1), (mode_t)a[2]))
        CASE(creat, wrapped_creat(P(0), (mode_t)a[1]))
        CASE(dup2, wrapped_dup2(I(0), I(1)))
        CASE(rename, wrapped_rename(P(0), P(1)))
        CASE(link, wrapped_link(P(0), P(1)))
        CASE(unlink, wrapped_unlink(P(0)))
#endif
#undef CASE
    case SYS_exit_group:
        wrapped__exit(I(0));
        __builtin_unreachable();
    default:
        return false;
    }
}

long wrapped_syscall(long number, ...)
{
    long result;

    GET_ARGUMENTS(a, number);
    if (wrapper_active() && dispatch(number, a, &result))
        return result;
    if (number == SYS_clone || number == SYS_clone3)
        wrapper_spawn_begin();
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#ifdef WRAPPER_HAS_JUMPS

/* vfork() comes back twice, in the child on the same stack, and must find its caller's
 * frame on top: so it is a jump to libc's, not a call, after a note that what is open may
 * be held by two processes from here on. It is exported only for the machines that have
 * the code below. */
void *wrapper_vfork_target(void);

/* Where the jump goes. */
__attribute__((used)) void *wrapper_vfork_target(void)
{
    wrapper_spawn_begin();
    return (void *)REAL(vfork);
}

#if defined(__x86_64__)
__asm__(
    ".pushsection .text\n"
    ".globl vfork\n.type vfork, @function\n"
    "vfork:\n"
    "    .cfi_startproc\n"
    "    endbr64\n"
    "    subq $8, %rsp\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    call wrapper_vfork_target\n"
    "    addq $8, %rsp\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    jmp *%rax\n"
    "    .cfi_endproc\n"
    ".size vfork, .-vfork\n"
    ".popsection\n");
#else
__asm__(
    ".pushsection .text\n"
    ".globl vfork\n.type vfork, %function\n"
    "vfork:\n"
    "    hint #34\n" /* bti c */
    "    stp x29, x30, [sp, #-16]!\n"
    "    bl wrapper_vfork_target\n"
    "    ldp x29, x30, [sp], #16\n"
    "    mov x16, x0\n"
    "    br x16\n"
    ".size vfork, .-vfork\n"
    ".popsection\n");
#endif
#endif
