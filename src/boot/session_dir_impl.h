/*
 * boot/session_dir_impl.h - private to session_dir.c and session_slot.c
 */
#ifndef DYAD_BOOT_SESSION_DIR_IMPL_H
#define DYAD_BOOT_SESSION_DIR_IMPL_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "boot/session.h"
#include "boot/session_dir.h"

#define NAME_CAP   128
#define TARGET_CAP 256

struct session_dir {
    char *top, *path; /* DYAD_SESSION_DIR, and its subdirectory */
    char id[BOOT_SESSION_ID_LEN + 1];
    uint32_t ranks;
    uint64_t node, identity, boot, net; /* hashes, and the number of the network name space;
                                         * 0: not known */
    char claim[64];                     /* the claim's name, behind the user's number */
    struct session_dir_slot *slots, *spare;
    struct timespec mtime; /* of the directory, before the last list */
    uint64_t mtime_since;  /* first seen at */
    uint64_t listed;       /* at; 0: never */
    bool old_enough;       /* the last list was made long enough after that */
    struct session_dir_gone gone[SESSION_DIR_GONE_MAX];
    size_t ngone;
    bool has;        /* it has a slot */
    bool superseded; /* another has taken that slot */
    uint32_t slot, inc;
    char target[TARGET_CAP]; /* of our link */
    void *blob;              /* our entry, once it is committed */
    size_t blob_len;
};

enum kind { OTHER, SLOT, LIVE, GONE, NEW };

struct name {
    enum kind kind;
    uint32_t slot, inc;
    uint64_t node, identity;
};

void session_name_print(char text[NAME_CAP], const struct name *name);
/* The name of our own link or entry; of the live entry of a slot. */
struct name session_own_name(const struct session_dir *d, enum kind kind);
struct name session_live_name(const struct session_dir *d, uint32_t slot);

/* Open the directory anew. */
int session_dir_enter(const struct session_dir *d);
/* Call fn for each name of ours; fd, of the directory, is closed. 0 or -1. */
int session_dir_each(struct session_dir *d, int fd,
                     void (*fn)(struct session_dir *d, int fd, const struct name *name));
/* Read the text of a link. Its length, or -1 with errno. */
ssize_t session_dir_link(int fd, const char *name, char text[TARGET_CAP]);
/* Make link `name` with `text`; if it exists read its text into `text`. 0, or -1 with
 * errno, logged. */
int session_dir_agree(const struct session_dir *d, int fd, const char *name,
                      char text[TARGET_CAP]);
/* Log that nothing can be written, and leave errno as `error`. */
void session_dir_log(const struct session_dir *d, int error);

#endif
