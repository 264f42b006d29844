/*
 * wrapper/name.h - what the calls that make, move and remove names have in common
 */
#ifndef DYAD_WRAPPER_NAME_H
#define DYAD_WRAPPER_NAME_H

#include <stdbool.h>

#include "client/client_ops.h"
#include "wrapper/core.h"
#include "wrapper/path_find.h"
#include "wrapper/pointer.h"

struct wrapper_name {
    struct wrapper_path where;
    bool managed;
    int dirfd; /* what to give the real call */
    const char *path;
};

/* False: the name is none of ours. The managed directory itself is not renamed, removed or
 * made by us. */
bool wrapper_name_find(struct wrapper_name *name, int dirfd, const char *path);
/* The engine, or NULL: this process is not to ask it. */
const struct engine_ops *wrapper_name_engine(void);
/* Published, and not here: what must not exist does. -1 EEXIST, or 0 and errno kept. */
int wrapper_name_check_free(const struct wrapper_name *name);
/* A file has got the name *to, from *from or (NULL) from nowhere: tell the engine. 0, or -1
 * with errno. */
int wrapper_name_tell(const struct engine_ops *ops, const struct wrapper_name *from,
                      const struct wrapper_name *to, struct engine_renaming *renaming);
/* *source is about to get the name *to (NULL: none any more) in place of *from (NULL: it
 * keeps that): to be called before the real call, as often as that is made. `follow`: a
 * link that *source names. Nothing if it is not here (it may be brought). Keeps errno. */
void wrapper_name_intend(struct engine_renaming *renaming, const struct wrapper_name *from,
                         const struct wrapper_name *to, const struct wrapper_name *source,
                         bool follow);
/* The call has failed, or its result was told: returns rc. Keeps errno. */
int wrapper_name_over(struct engine_renaming *renaming, int rc);
/* rc, of a call that may have put a directory or a link where another stood. */
int wrapper_name_moved(int rc);
/* The real call says that something is not there: the source (or NULL), or a directory
 * above the target. Either may be published: bring it here, without waiting for one that is
 * not. True: the call is worth another try. */
bool wrapper_name_bring(const struct wrapper_name *from, const struct wrapper_name *to,
                        bool follow);

/* The result of `call`, made a second time where that brings it what it lacks. */
#define WITH_BOTH(from, to, follow, call)                                         \
    ({                                                                            \
        int saved_ = errno, rc_ = (call);                                         \
        if (rc_ < 0 && errno == ENOENT && wrapper_name_bring(from, to, follow)) { \
            rc_ = (call);                                                         \
            errno = rc_ < 0 ? errno : saved_;                                     \
        }                                                                         \
        rc_;                                                                      \
    })

/* | and not ||: both are to be looked at. */
#define CONCERNS(from, fromfd, frompath, to, tofd, topath)                                 \
    (!wrapper_bad_pointer(frompath) && !wrapper_bad_pointer(topath) && wrapper_active() && \
     (wrapper_name_find(from, fromfd, frompath) | wrapper_name_find(to, tofd, topath)))

#endif
