/*
 * engine/core/local_file.h - a file of this node, and what a record or a mark says of it
 */
#ifndef DYAD_ENGINE_CORE_LOCAL_FILE_H
#define DYAD_ENGINE_CORE_LOCAL_FILE_H

#include "engine/core/member.h"

/* Is the file on disk still the one of the record, and is nobody writing it? Any thread. */
bool local_file_still_there(struct member_dmd *dmd, const struct store_record *record);
/* The same, whether somebody has it open for writing or not. Any thread. */
bool local_file_is_same(struct member_dmd *dmd, const struct store_record *record);
/* Is the file of that inode, which is at upath, out of date, and keeps its name until it is
 * replaced (store/superseded.h)? As far as its mode and count of links tell, for nothing.
 * Any thread. */
bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st);
/* True if a description still writes to the file: its last close will publish it under its
 * name of then. */
bool local_file_being_written(struct member_dmd *dmd, const char *upath);

/* On any thread, of what lives no more: what is here of an original? Its identity is
 * compared, or (ino 0) the mode, and (not NULL) *identity set. The mark of a close that was
 * cut short goes, if it is here: what was to be written was. */
enum local_file_left {
    LOCAL_FILE_SAME,    /* it, whole; nobody's mark is left on it */
    LOCAL_FILE_GONE,    /* nothing */
    LOCAL_FILE_OTHER,   /* something else, perhaps half of it, and nobody writes it */
    LOCAL_FILE_UNKNOWN, /* it is being written, or cannot be looked at */
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
