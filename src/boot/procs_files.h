/*
 * boot/procs_files.h - files of threads in /proc that are kept open
 *
 * To read one again takes one call in place of three. Such a descriptor is of that thread:
 * when it has ended it cannot be read, and a thread that gets its number has files of its
 * own. One thread at a time, and always with the same table of descriptors.
 */
#ifndef DYAD_BOOT_PROCS_FILES_H
#define DYAD_BOOT_PROCS_FILES_H

#include <stddef.h>
#include <sys/types.h>

#define BOOT_PROCS_FILES 32 /* threads; of others no file is kept */

enum boot_procs_which { BOOT_PROCS_STATUS, BOOT_PROCS_SYSCALL, BOOT_PROCS_NFILES };

/* All zero at first. */
struct boot_procs_files {
    struct boot_procs_thread {
        pid_t tid;
        int fd[BOOT_PROCS_NFILES]; /* 0: not open */
    } of[BOOT_PROCS_FILES];
};

/* The begin of the file of thread `tid` of process `pid`, as a string: its length, or -1.
 * `files` NULL: it is not kept. */
ssize_t boot_procs_read(struct boot_procs_files *files, pid_t pid, pid_t tid,
                        enum boot_procs_which which, char *text, size_t size);
/* Close all. */
void boot_procs_forget(struct boot_procs_files *files);

#endif
