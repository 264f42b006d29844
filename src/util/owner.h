/*
 * util/owner.h - what other users than root and this one have made
 */
#ifndef DYAD_UTIL_OWNER_H
#define DYAD_UTIL_OWNER_H

#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static inline bool util_is_another(uid_t uid)
{
    return uid != geteuid() && uid != 0;
}

/* Another user has made the file where every user can (in /tmp): what lies there is that user's, and what is written
 * there that user reads. `above` is the directory in which it is, as openat() takes it. */
static inline bool util_is_strangers(const struct stat *file, int dir, const char *above)
{
    struct stat st;

    return util_is_another(file->st_uid) && fstatat(dir, above, &st, 0) == 0 &&
           (st.st_mode & S_IWOTH);
}

#endif
