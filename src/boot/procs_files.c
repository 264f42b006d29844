/*
 * procs_files.c - files of threads in /proc that are kept open
 */
#include "boot/procs_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "util/proc.h"

static void drop(struct boot_procs_thread *thread)
{
    for (int i = 0; i < BOOT_PROCS_NFILES; i++)
        if (thread->fd[i] > 0)
            close(thread->fd[i]);
    *thread = (struct boot_procs_thread){0};
}

void boot_procs_forget(struct boot_procs_files *files)
{
    for (size_t i = 0; i < BOOT_PROCS_FILES; i++)
        drop(&files->of[i]);
}

static struct boot_procs_thread *find(struct boot_procs_files *files, pid_t tid)
{
    struct boot_procs_thread *unused = NULL;

    for (size_t i = 0; files && i < BOOT_PROCS_FILES; i++) {
        if (files->of[i].tid == tid)
            return &files->of[i];
        if (!files->of[i].tid && !unused)
            unused = &files->of[i];
    }
    if (unused)
        unused->tid = tid;
    return unused;
}

ssize_t boot_procs_read(struct boot_procs_files *files, pid_t pid, pid_t tid,
                        enum boot_procs_which which, char *text, size_t size)
{
    static const char *const names[] = {"status", "syscall"};
    struct boot_procs_thread *kept = find(files, tid);
    char path[80];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, names[which]);
    if (!kept)
        return util_proc_read(path, text, size);
    if (!kept->fd[which])
        kept->fd[which] = open(path, O_RDONLY | O_CLOEXEC);
    n = kept->fd[which] > 0 ? pread(kept->fd[which], text, size - 1, 0) : -1;
    if (n <= 0) {
        drop(kept);
        return -1;
    }
    text[n] = '\0';
    return n;
}
