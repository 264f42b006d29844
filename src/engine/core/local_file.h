/*
 * engine/core/local_file.h - a file of this node, and what a record or a mark says of it
 */
#ifndef DYAD_ENGINE_CORE_LOCAL_FILE_H
#define DYAD_ENGINE_CORE_LOCAL_FILE_H

#include "engine/core/member.h"

/* True if the file on disk is still the one of the record, and nobody writes it. Any
 * thread, as all below but local_file_job(). */
bool local_file_still_there(struct member_dmd *dmd, const struct store_record *record);
/* The same, whether somebody has it open for writing or not. */
bool local_file_is_same(struct member_dmd *dmd, const struct store_record *record);
/* True if the file of st->st_ino, which is at upath, is out of date and keeps its name
 * only until it is replaced (store/superseded.h). No system call if its mode and link
 * count already say that it is not. */
bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st);
/* The same, or it is unsettled. */
bool local_file_is_outdated(const struct member_dmd *dmd, const char *upath,
                            const struct stat *st);
/* True if it is unsettled. */
bool local_file_is_unsettled(const struct member_dmd *dmd, const char *upath,
                             const struct stat *st);
/* True if other nodes may still write it (store/superseded.h). */
bool local_file_is_pending(const struct member_dmd *dmd, const char *upath,
                           const struct stat *st);
/* Mark it so, if it is still the file of that identity. If that fails, which is logged, who reads it here may
 * have an older one. */
void local_file_set_pending(const struct member_dmd *dmd, const char *upath,
                            const struct store_identity *identity);
/* True if a description still writes to the file: its last close will publish it under its
 * name of then. (Not if that has returned, with DYAD_ASYNC_PUBLISH.) */
bool local_file_being_written(const struct member *member, struct member_dmd *dmd,
                              const char *upath);
/* True if all processes that had it open for writing were killed. */
bool local_file_is_abandoned(struct member_dmd *dmd, const char *upath);

/* Take that file from the name, unless somebody has it open for writing when it is taken: a process that opens
 * the name from then on waits, and does not count. 0: it is gone, and superseded no more; or -1 with errno as of
 * store_fetch_discard_unless(). */
int local_file_discard(const struct member_dmd *dmd, const char *upath,
                       const struct store_identity *identity);
/* The name was withdrawn: a superseded file there goes, too, unless somebody has it open for writing, whose
 * close publishes it, above the removal, or finds that it has nothing to publish. */
void local_file_withdrawn(struct member_dmd *dmd, const char *upath);

/* What is on this node of a file that a dead rank published: compares the record's
 * identity, or (its ino is 0) the mode; sets *identity (may be NULL) in that case. If the
 * whole file is here the mark of a close that was cut short is freed. */
enum local_file_left {
    LOCAL_FILE_SAME,       /* the whole file; no mark is left on it */
    LOCAL_FILE_SUPERSEDED, /* the same, and this node was told of a newer version */
    LOCAL_FILE_GONE,       /* nothing is there */
    LOCAL_FILE_OTHER,      /* another file, or perhaps half of this one; nobody writes it */
    LOCAL_FILE_UNKNOWN,    /* it is being written, or cannot be looked at */
};
enum local_file_left local_file_left(struct member_dmd *dmd,
                                     const struct store_record *record,
                                     struct store_identity *identity);

/* Run a job of at most `size` bytes of dmd's files: on the loop if that is little and the
 * storage is local and quick, else on the pool (iopool.h). Loop thread. */
void local_file_job(struct member *member, struct member_dmd *dmd, uint64_t size,
                    struct engine_io *io, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg);

#endif
