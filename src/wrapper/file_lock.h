/*
 * wrapper/file_lock.h - locks of the program
 */
#ifndef DYAD_WRAPPER_FILE_LOCK_H
#define DYAD_WRAPPER_FILE_LOCK_H

#include <fcntl.h>

#include "wrapper/real.h"

/* fcntl(fd, cmd, lock) for the commands of locks; `real` is libc's. */
int wrapper_lock(int fd, int cmd, struct flock *lock, wrapper_fn_fcntl *real);

#endif
