/*
 * session_dir.c - a session directory: is it fit, what is it called, what is in it
 *
 * Nothing is believed of a descriptor kept open: a server that was started anew, or a
 * directory made anew, would make it useless. Each call opens the directory by its path,
 * which also makes NFS ask its server.
 *
 * Names: slot.NNNNN.I, live.NNNNN.I.H.J and gone.NNNNN.I.H.J (H: hash of the node, J: of
 * the identity), new.NNNNN.I while an entry is written. Others are left alone.
 */
#include "boot/session_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "boot/member_claim.h"
#include "boot/session_dir_impl.h"
#include "boot/session_trust.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"
#include "util/wipe.h"

#define SUB_MAX       200 /* of NAME_MAX; a longer one is a hash */
#define INC_MAX       (UINT32_MAX / 2)
#define OLD_ENOUGH_NS (3 * UTIL_NSEC_PER_SEC / 2)
#define LIST_AT_LEAST (30 * UTIL_NSEC_PER_SEC)

/* --- names --- */

static const char *const kinds[] = {"", "slot", "live", "gone", "new"};

void session_name_print(char text[NAME_CAP], const struct name *name)
{
    if (name->kind == LIVE || name->kind == GONE)
        snprintf(text, NAME_CAP, "%s.%05" PRIu32 ".%" PRIu32 ".%016" PRIx64 ".%016" PRIx64,
                 kinds[name->kind], name->slot, name->inc, name->node, name->identity);
    else
        snprintf(text, NAME_CAP, "%s.%05" PRIu32 ".%" PRIu32, kinds[name->kind], name->slot,
                 name->inc);
}

/* False if it is none of ours: only what session_name_print() makes is. */
static bool name_parse(const struct session_dir *d, const char *text, struct name *name)
{
    char again[NAME_CAP];

    *name = (struct name){0};
    for (enum kind kind = SLOT; kind <= NEW; kind++) {
        size_t len = strlen(kinds[kind]);
        if (strncmp(text, kinds[kind], len) != 0 || text[len] != '.')
            continue;
        name->kind = kind;
        if (sscanf(text + len, ".%5" SCNu32 ".%10" SCNu32 ".%16" SCNx64 ".%16" SCNx64,
                   &name->slot, &name->inc, &name->node, &name->identity) < 2)
            return false;
        session_name_print(again, name);
        return strcmp(again, text) == 0 && name->slot < d->ranks && name->inc > 0 &&
               name->inc <= INC_MAX;
    }
    return false;
}

struct name session_own_name(const struct session_dir *d, enum kind kind)
{
    return (struct name){kind, d->slot, d->inc, d->node, d->identity};
}

struct name session_live_name(const struct session_dir *d, uint32_t slot)
{
    const struct session_dir_slot *s = &d->slots[slot];

    return (struct name){LIVE, slot, s->live, s->live_node, s->live_identity};
}

/* One component for any DYAD_KVS_NAMESPACE, and no two the same. */
static void subdirectory(const char *kvs, char text[SUB_MAX + 1])
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t n;

    if (!kvs || !*kvs) {
        strcpy(text, "dyad");
        return;
    }
    n = (size_t)snprintf(text, SUB_MAX + 1, "ns.");
    for (const char *p = kvs; *p && n <= SUB_MAX - 3; p++) {
        if (strchr(plain, *p))
            text[n++] = *p;
        else
            n += (size_t)sprintf(text + n, "%%%02X", (unsigned char)*p);
        if (!p[1]) {
            text[n] = '\0';
            return;
        }
    }
    XXH128_hash_t hash = XXH3_128bits(kvs, strlen(kvs));
    snprintf(text, SUB_MAX + 1, "hash.%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64,
             (uint64_t)hash.low64);
}

/* --- life --- */

static void read_boot_id(char *text, size_t size)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static void who_we_are(struct session_dir *d, const char *kvs,
                       const struct boot_identity *identity)
{
    size_t len = strlen(identity->node);
    struct sockaddr_un address;
    struct stat st;
    char boot[64];
    XXH3_state_t state;

    read_boot_id(boot, sizeof(boot));
    d->boot = *boot ? XXH3_64bits(boot, strlen(boot)) : 0;
    /* The node that was started anew is the same node. */
    if (*boot && len > strlen(boot) + 1 &&
        strcmp(identity->node + len - strlen(boot), boot) == 0 &&
        identity->node[len - strlen(boot) - 1] == '/')
        len -= strlen(boot) + 1;
    d->node = XXH3_64bits(identity->node, len);

    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, identity->nspace, strlen(identity->nspace) + 1);
    XXH3_64bits_update(&state, &identity->rank, sizeof(identity->rank));
    XXH3_64bits_update(&state, &d->node, sizeof(d->node));
    d->identity = XXH3_64bits_digest(&state);

    d->net = stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
    boot_member_claim_address(identity, kvs && *kvs ? kvs : NULL, &address);
    const char *slash = strchr(address.sun_path + 1, '/');
    slash = slash ? strchr(slash + 1, '/') : NULL;
    snprintf(d->claim, sizeof(d->claim), "%s", slash ? slash + 1 : "");
}

struct session_dir *session_dir_create(const char *dir, const char *kvs,
                                       const struct boot_identity *identity)
{
    struct session_dir *d = calloc(1, sizeof(*d));
    char sub[SUB_MAX + 1];

    if (!d)
        return NULL;
    subdirectory(kvs, sub);
    d->top = strdup(dir);
    if (!d->top || asprintf(&d->path, "%s/%s", dir, sub) < 0) {
        d->path = NULL;
        session_dir_destroy(d);
        errno = ENOMEM;
        return NULL;
    }
    who_we_are(d, kvs, identity);
    return d;
}

void session_dir_destroy(struct session_dir *d)
{
    if (!d)
        return;
    free(d->top);
    free(d->path);
    free(d->slots);
    free(d->spare);
    util_wipe_free(d->blob, d->blob_len);
    free(d);
}

const char *session_dir_id(const struct session_dir *d)
{
    return d->id;
}

uint32_t session_dir_ranks(const struct session_dir *d)
{
    return d->ranks;
}

const struct session_dir_slot *session_dir_slots(const struct session_dir *d)
{
    return d->slots;
}

const struct session_dir_gone *session_dir_gone(const struct session_dir *d, size_t *n)
{
    *n = d->ngone;
    return d->gone;
}

uint64_t session_dir_node(const struct session_dir *d)
{
    return d->node;
}

/* --- the directory itself --- */

int session_dir_enter(const struct session_dir *d)
{
    return session_trust_enter(d->top, d->path);
}

void session_dir_log(const struct session_dir *d, int error)
{
    errno = error;
    log_error("cannot write in the session directory %s: %m%s", d->path,
              error == EPERM || error == EOPNOTSUPP
                  ? " (has its file system no symbolic links, or is it not yours alone?)"
                  : "");
    errno = error;
}

ssize_t session_dir_link(int fd, const char *name, char text[TARGET_CAP])
{
    ssize_t n = readlinkat(fd, name, text, TARGET_CAP - 1);

    text[n > 0 ? n : 0] = '\0';
    return n;
}

int session_dir_agree(const struct session_dir *d, int fd, const char *name,
                      char text[TARGET_CAP])
{
    if (symlinkat(text, fd, name) == 0)
        return 0;
    int error = errno;
    if (session_dir_link(fd, name, text) > 0)
        return 0;
    if (errno == EINVAL) {
        log_error("%s/%s is not what this library makes: use another directory", d->path,
                  name);
        errno = EEXIST;
    } else {
        session_dir_log(d, error);
    }
    return -1;
}

static bool is_number(const char *text, uint32_t *value)
{
    char again[16];

    if (sscanf(text, "%10" SCNu32, value) != 1)
        return false;
    snprintf(again, sizeof(again), "%" PRIu32, *value);
    return strcmp(again, text) == 0;
}

static int read_constants(struct session_dir *d, int fd, uint32_t ranks)
{
    char text[TARGET_CAP];
    uint64_t random;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        log_error("no random numbers to be had: %m");
        return -1;
    }
    snprintf(text, sizeof(text), "%016" PRIx64, random);
    if (session_dir_agree(d, fd, "id", text) < 0)
        return -1;
    if (strlen(text) != BOOT_SESSION_ID_LEN ||
        strspn(text, "0123456789abcdef") != BOOT_SESSION_ID_LEN)
        goto foreign;
    strcpy(d->id, text);
    snprintf(text, sizeof(text), "%" PRIu32, ranks);
    if (session_dir_agree(d, fd, "ranks", text) < 0)
        return -1;
    if (!is_number(text, &d->ranks) || d->ranks == 0 || d->ranks > SESSION_DIR_RANKS_MAX)
        goto foreign;
    return 0;
foreign:
    log_error(
        "in the session directory %s a link says \"%.32s\", which this library does "
        "not write: use another directory",
        d->path, text);
    errno = EINVAL;
    return -1;
}

/* The user's own link may lead there. From now on none does. */
static int resolve(struct session_dir *d)
{
    char *top = realpath(d->top, NULL), *path = NULL;

    if (!top || asprintf(&path, "%s%s", top, d->path + strlen(d->top)) < 0) {
        log_error("session directory %s cannot be found: %m", d->top);
        free(top);
        return -1;
    }
    free(d->top);
    free(d->path);
    d->top = top;
    d->path = path;
    return 0;
}

int session_dir_open(struct session_dir *d, uint32_t ranks)
{
    int fd, rc;

    if (session_trust_make(d->top) < 0 || session_trust_make(d->path) < 0 || resolve(d) < 0)
        return -1;
    if ((fd = session_dir_enter(d)) < 0) {
        log_error("session directory %s cannot be opened: %m", d->path);
        return -1;
    }
    rc = read_constants(d, fd, ranks);
    util_fd_close(fd);
    if (rc < 0)
        return -1;
    d->slots = calloc(d->ranks, sizeof(*d->slots));
    d->spare = calloc(d->ranks, sizeof(*d->spare));
    if (!d->slots || !d->spare) {
        log_error("no memory for %u slots of the session %s", d->ranks, d->path);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

void session_dir_look_above(const struct session_dir *d)
{
    session_trust_look_above(d->top);
}

/* --- lists --- */

static void take_name(struct session_dir_slot *s, const struct name *name)
{
    switch (name->kind) {
    case SLOT:
        if (name->inc > s->link)
            s->link = name->inc;
        break;
    case LIVE:
        if (name->inc > s->live) {
            s->live = name->inc;
            s->live_node = name->node;
            s->live_identity = name->identity;
        }
        break;
    case GONE:
        if (name->inc > s->gone) {
            s->gone = name->inc;
            s->gone_node = name->node;
            s->gone_identity = name->identity;
        }
        break;
    default:
        break;
    }
}

int session_dir_each(struct session_dir *d, int fd,
                     void (*fn)(struct session_dir *d, int fd, const struct name *name))
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    struct name name;

    if (!dir) {
        util_fd_close(fd);
        return -1;
    }
    while ((void)(errno = 0), (entry = readdir(dir)))
        if (name_parse(d, entry->d_name, &name))
            fn(d, dirfd(dir), &name);
    int error = errno;
    closedir(dir);
    errno = error;
    return error ? -1 : 0;
}

/* One entry for each node. */
static void take_gone(struct session_dir *d, const struct name *name)
{
    for (size_t i = d->ngone; i-- > 0;)
        if (d->gone[i].node == name->node)
            return;
    if (d->ngone < SESSION_DIR_GONE_MAX)
        d->gone[d->ngone++] =
            (struct session_dir_gone){name->node, name->identity, name->slot, name->inc};
}

static void collect(struct session_dir *d, int fd, const struct name *name)
{
    (void)fd;
    take_name(&d->spare[name->slot], name);
    if (name->kind == GONE)
        take_gone(d, name);
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int session_dir_list(struct session_dir *d)
{
    uint64_t now = util_clock_now();
    struct session_dir_slot *list;
    struct stat st;
    int fd = session_dir_enter(d);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0) {
        util_fd_close(fd);
        return -1;
    }
    memset(d->spare, 0, d->ranks * sizeof(*d->spare));
    d->ngone = 0;
    if (session_dir_each(d, fd, collect) < 0)
        return -1;
    for (uint32_t i = 0; i < d->ranks; i++) {
        struct session_dir_slot *s = &d->spare[i];
        if (s->live > s->link) /* made while we read */
            s->link = s->live;
        if (s->gone > s->link)
            s->link = s->gone;
        if (s->live < s->link)
            s->live = 0;
    }
    list = d->slots;
    d->slots = d->spare;
    d->spare = list;
    /* A time that has been the same for a while is not that of changes still to come. */
    if (!d->listed || !is_same_time(&st.st_mtim, &d->mtime)) {
        d->mtime = st.st_mtim;
        d->mtime_since = now;
    }
    d->old_enough = now - d->mtime_since >= OLD_ENOUGH_NS;
    d->listed = now;
    return 0;
}

bool session_dir_changed(struct session_dir *d)
{
    struct stat st;

    return !d->old_enough || util_clock_now() - d->listed >= LIST_AT_LEAST ||
           stat(d->path, &st) < 0 || !is_same_time(&st.st_mtim, &d->mtime);
}

/* --- entries of others --- */

static int read_entry(const struct session_dir *d, const struct name *name, void *buf,
                      size_t size)
{
    char text[NAME_CAP];
    size_t len = 0;
    ssize_t n = -1;
    int fd, file;

    session_name_print(text, name);
    if ((fd = session_dir_enter(d)) < 0)
        return -1;
    file = openat(fd, text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    util_fd_close(fd);
    if (file < 0) {
        if (errno == ENOENT)
            errno = ESRCH;
        return -1;
    }
    if (!session_trust_is_ours(file)) {
        static atomic_bool said; /* once in a process: it is looked at again and again */
        if (!atomic_exchange(&said, true))
            log_error("%s/%s is not what this library makes: it is not believed; remove it",
                      d->path, text);
        util_fd_close(file);
        errno = EPERM;
        return -1;
    }
    while (len < size && (n = read(file, (char *)buf + len, size - len)) != 0) {
        if (n > 0)
            len += (size_t)n;
        else if (errno != EINTR)
            break;
    }
    util_fd_close(file);
    if (n < 0)
        return -1;
    if (len == size) {
        errno = EMSGSIZE;
        return -1;
    }
    return (int)len;
}

int session_dir_read(const struct session_dir *d, uint32_t slot, void *buf, size_t size)
{
    if (slot >= d->ranks || !d->slots[slot].live) {
        errno = ESRCH;
        return -1;
    }
    struct name name = session_live_name(d, slot);
    return read_entry(d, &name, buf, size);
}

int session_dir_read_gone(const struct session_dir *d, const struct session_dir_gone *gone,
                          void *buf, size_t size)
{
    return read_entry(
        d, &(struct name){GONE, gone->slot, gone->incarnation, gone->node, gone->identity},
        buf, size);
}
