/*
 * engine/core/storage.h - what a member has of the disk
 */
#ifndef DYAD_ENGINE_CORE_STORAGE_H
#define DYAD_ENGINE_CORE_STORAGE_H

#include "engine/core/member.h"

/* Seconds that pass at most between a program's stat of a file and its open, as far as
 * inode numbers go. */
#define MEMBER_RESERVED_FOR 60

/* Open the DMDs with their marks and journals; sets self.incarnation. 0 or -1, logged. */
int storage_open(struct member *member);
void storage_close(struct member *member);
/* The name of this member's journals, and how much of it, with a dot at its end, they share
 * with those of others of the session; the rank's number follows. */
size_t storage_journal_name(const struct member *member, char *name, size_t size);
/* What a journal's label says of its rank: the address of its claim, and (returned) the
 * node. NULL: it is no label of ours. */
const char *storage_label_read(const char *label, struct sockaddr_un *address,
                               socklen_t *len);
/* The number of this rank in the table of the marks: store_looked_rank(). */
uint64_t storage_rank(const struct member *member);
/* Fill member->self but for what the worker adds. */
void storage_describe(struct member *member);
/* Let go of a standard output or error that is a file below a DMD: in the private table. */
void storage_drop_stdio(const struct member *member);

#endif
