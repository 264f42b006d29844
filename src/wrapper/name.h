/*
 * wrapper/name.h - common parts of the calls that make, move and remove names
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
    int dirfd; /* arguments for the real call */
    const char *path;
};

/* Fill *name. False: the name is not below a managed directory, or is that directory. */
bool wrapper_name_find(struct wrapper_name *name, int dirfd, const char *path);
/* The engine, or NULL: this process must not call it. */
const struct engine_ops *wrapper_name_engine(void);
/* For calls that fail if the name exists: -1 EEXIST if it is published, and not here;
 * else 0 and errno is kept. */
int wrapper_name_check_free(const struct wrapper_name *name);
/* A file has got the name *to, from *from or (NULL) from outside: notify the engine. 0,
 * or -1 with errno. */
int wrapper_name_tell(const struct engine_ops *ops, const struct wrapper_name *from,
                      const struct wrapper_name *to, struct engine_renaming *renaming);
/* Before each real call: *source is about to get the name *to (NULL: none any more) in
 * place of *from (NULL: it keeps its name). `follow`: follow a link that *source names.
 * Does nothing if *source is not here (it may be brought). Keeps errno. */
void wrapper_name_intend(struct engine_renaming *renaming, const struct wrapper_name *from,
                         const struct wrapper_name *to, const struct wrapper_name *source,
                         bool follow);
/* The call has failed, or the engine was notified of it: end `renaming`; returns rc.
 * Keeps errno. */
int wrapper_name_over(struct engine_renaming *renaming, int rc);
/* A call, whose result is rc, may have put a directory or a link in another's place:
 * forget remembered paths. Returns rc. */
int wrapper_name_moved(int rc);
/* The real call says ENOENT of the source (or NULL), or of a directory above the target.
 * If these are published, bring them here, without waiting for a publish. True: the call
 * is worth another try. */
bool wrapper_name_bring(const struct wrapper_name *from, const struct wrapper_name *to,
                        bool follow);

/* The result of `call`, which is made a second time if wrapper_name_bring() brought
 * something. */
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
