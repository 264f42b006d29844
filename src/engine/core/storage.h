/*
 * engine/core/storage.h - the managed directories, marks and journals of a member
 */
#ifndef DYAD_ENGINE_CORE_STORAGE_H
#define DYAD_ENGINE_CORE_STORAGE_H

#include "engine/core/member.h"

/* Seconds for which an inode number that stat has shown is kept for the open that
 * follows. */
#define MEMBER_RESERVED_FOR 60

/* Open the DMDs with their marks and journals; sets self.incarnation. 0 or -1, logged. */
int storage_open(struct member *member);
void storage_close(struct member *member);
/* Write the name of this member's journals. Returns the length of the prefix, with a dot
 * at its end, that all journals of the session share; the rank's number follows it. */
size_t storage_journal_name(const struct member *member, char *name, size_t size);
/* Read a journal's label: *address is that of its rank's claim; returns the name of the
 * node. NULL: it is no label of ours. */
const char *storage_label_read(const char *label, struct sockaddr_un *address,
                               socklen_t *len);
/* The number of this rank in the table of the marks: store_looked_rank(). */
uint64_t storage_rank(const struct member *member);
/* Fill in member->self, but for the fields that the worker sets. */
void storage_describe(struct member *member);
/* Close the private table's standard output and error if they are files below a DMD. */
void storage_drop_stdio(const struct member *member);

#endif
