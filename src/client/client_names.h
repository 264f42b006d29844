/*
 * client/client_names.h - copies of upaths, without malloc
 *
 * A signal handler that writes a file may have interrupted the program's malloc. These
 * buffers come from mappings of our own, by compare-and-swap. Thread-safe, and safe in a
 * handler and in the child of a fork.
 */
#ifndef DYAD_CLIENT_CLIENT_NAMES_H
#define DYAD_CLIENT_CLIENT_NAMES_H

/* A copy of upath; NULL: ENOMEM, ENAMETOOLONG. */
char *client_name_copy(const char *upath);
/* Free the copy; NULL is allowed. */
void client_name_free(char *name);

#endif
