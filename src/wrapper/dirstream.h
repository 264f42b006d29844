/*
 * wrapper/dirstream.h - reading directories below a managed directory
 */
#ifndef DYAD_WRAPPER_DIRSTREAM_H
#define DYAD_WRAPPER_DIRSTREAM_H

#include <dirent.h>

/* opendir (openat + fdopendir) as the program would see it, for code that reads
 * directories on its behalf. NULL with errno. */
DIR *wrapper_opendir(int dirfd, const char *path);
struct dirent *wrapper_readdir(DIR *dir);
int wrapper_closedir(DIR *dir);

#endif
