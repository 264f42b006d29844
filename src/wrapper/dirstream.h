/*
 * wrapper/dirstream.h - directories below a managed directory, read and entered
 */
#ifndef DYAD_WRAPPER_DIRSTREAM_H
#define DYAD_WRAPPER_DIRSTREAM_H

#include <dirent.h>

/* opendir and openat + fdopendir as a program's own are: for what reads directories on a
 * program's behalf. NULL with errno. */
DIR *wrapper_opendir(int dirfd, const char *path);
struct dirent *wrapper_readdir(DIR *dir);
int wrapper_closedir(DIR *dir);

#endif
