/*
 * dirstream.c - directory streams: below a managed directory they show what is here and
 * what is published anywhere, each name once, and not our control directory
 *
 * A DIR is libc's own and stays so: dirfd() and code that no wrapper sees work on it.
 * What we add is kept beside it, in a table from DIR * to struct stream, that holds only
 * streams below a managed directory. Where there is none, readdir costs one load more.
 *
 * Names come and go while a directory is read: next_of() says why each is seen once. And
 * a stream may be closed behind our back: track().
 */
#include "wrapper/dirstream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"
#include "wrapper/core.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

#define NSTREAMS 4096

struct extra {
    size_t name; /* offset in names */
    uint64_t hash;
    unsigned char type;
    bool seen; /* among the local names */
};

struct stream {
    pthread_mutex_t lock;
    bool listed; /* the engine was asked since the beginning */
    bool root;   /* it is a managed directory itself: the control directory is in it */
    bool ended;  /* the local names are over; `next` counts */
    int error;   /* why the list is not whole */
    size_t next, count, size;
    struct extra *extras;
    char *names;
    size_t names_len, names_size;
    uint32_t *index; /* of extras by hash, 0: empty, else 1 + number */
    size_t index_size;
    struct dirent entry;
};

static struct {
    _Atomic(DIR *) dir;
    struct stream *stream;
} table[NSTREAMS];
static _Atomic unsigned streams, probes;

/* --- the table ------------------------------------------------------------------------ */

/* Open addressing, no lock. A DIR has one entry, made before the program has the pointer
 * and taken out before libc frees it; slots in between may be taken and freed by other
 * threads, so a search goes on for `probes` slots, the farthest that an entry was ever
 * put from its place. */

static unsigned place_of(const DIR *dir, unsigned probe)
{
    return (unsigned)((((uintptr_t)dir >> 4) * UINT64_C(0x9e3779b97f4a7c15)) >> 40) + probe;
}

static int find_slot(const DIR *dir)
{
    unsigned last = atomic_load(&probes);

    for (unsigned i = 0; i <= last; i++) {
        unsigned slot = place_of(dir, i) % NSTREAMS;
        if (atomic_load(&table[slot].dir) == dir)
            return (int)slot;
    }
    return -1;
}

static inline struct stream *stream_of(const DIR *dir)
{
    int slot;

    if (__builtin_expect(atomic_load_explicit(&streams, memory_order_relaxed) == 0, 1))
        return NULL;
    slot = find_slot(dir);
    return slot < 0 ? NULL : table[slot].stream;
}

static void forget_list(struct stream *s)
{
    free(s->extras);
    free(s->names);
    free(s->index);
    s->extras = NULL;
    s->names = NULL;
    s->index = NULL;
    s->next = s->count = s->size = s->names_len = s->names_size = s->index_size = 0;
    s->listed = s->ended = false;
    s->error = 0;
}

static void drop(const DIR *dir)
{
    int slot = atomic_load(&streams) ? find_slot(dir) : -1;
    struct stream *s;

    if (slot < 0)
        return;
    s = table[slot].stream;
    atomic_store(&table[slot].dir, NULL);
    atomic_fetch_sub(&streams, 1);
    forget_list(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void enter(DIR *dir, struct stream *s)
{
    /* A slot that is being filled has an address that no DIR has. */
    DIR *const reserved = (DIR *)(void *)table;

    for (unsigned i = 0; i < NSTREAMS; i++) {
        unsigned slot = place_of(dir, i) % NSTREAMS, far = atomic_load(&probes);
        DIR *none = NULL;
        if (!atomic_compare_exchange_strong(&table[slot].dir, &none, reserved))
            continue;
        while (far < i && !atomic_compare_exchange_weak(&probes, &far, i))
            ;
        table[slot].stream = s;
        atomic_fetch_add(&streams, 1);
        atomic_store(&table[slot].dir, dir);
        return;
    }
    log_warn(
        "more than %d directories are being read at once: this one shows local names only",
        NSTREAMS);
    free(s);
}

/* dir was just opened. Returns it. An entry whose stream was closed behind our back is
 * found out here, when libc gives the same address again. */
static DIR *track(DIR *dir)
{
    struct wrapper_path where;
    struct stream *s;
    struct stat st;
    int saved = errno;

    if (!dir || !wrapper_active())
        return dir;
    drop(dir);
    if (REAL(fstat)(dirfd(dir), &st) == 0 && wrapper_path_on_device(st.st_dev) &&
        wrapper_path_find_fd_as(dirfd(dir), WRAPPER_PATH_DIR, &where) && wrapper_mine()) {
        s = calloc(1, sizeof(*s));
        if (!s) {
            REAL(closedir)(dir);
            errno = ENOMEM;
            return NULL;
        }
        pthread_mutex_init(&s->lock, NULL);
        enter(dir, s);
    }
    errno = saved;
    return dir;
}

/* --- the list ------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* Room for one more of `n` things of `each` bytes. */
static bool grow(void **things, size_t *size, size_t need, size_t each)
{
    size_t more = *size ? *size : 64;
    void *bigger;

    if (need <= *size)
        return true;
    while (more < need)
        more *= 2;
    bigger = realloc(*things, more * each);
    if (!bigger)
        return false;
    *things = bigger;
    *size = more;
    return true;
}

static int add_extra(void *arg, const char *name, unsigned char type)
{
    struct stream *s = arg;
    size_t len = strlen(name) + 1;

    if (len > sizeof(s->entry.d_name))
        return 0;
    if (!grow((void **)&s->extras, &s->size, s->count + 1, sizeof(*s->extras)) ||
        !grow((void **)&s->names, &s->names_size, s->names_len + len, 1))
        return ENOMEM;
    memcpy(s->names + s->names_len, name, len);
    s->extras[s->count++] =
        (struct extra){.name = s->names_len, .hash = hash_of(name), .type = type};
    s->names_len += len;
    return 0;
}

static bool build_index(struct stream *s)
{
    size_t size = 16;

    while (size < 2 * s->count)
        size *= 2;
    s->index = calloc(size, sizeof(*s->index));
    if (!s->index)
        return false;
    s->index_size = size;
    for (size_t i = 0; i < s->count; i++) {
        size_t at = s->extras[i].hash & (size - 1);
        while (s->index[at])
            at = (at + 1) & (size - 1);
        s->index[at] = (uint32_t)i + 1;
    }
    return true;
}

static void strike_off(struct stream *s, const char *name)
{
    uint64_t hash;

    if (!s->index_size)
        return;
    hash = hash_of(name);
    for (size_t at = hash & (s->index_size - 1); s->index[at];
         at = (at + 1) & (s->index_size - 1)) {
        struct extra *extra = &s->extras[s->index[at] - 1];
        if (extra->hash == hash && strcmp(s->names + extra->name, name) == 0) {
            extra->seen = true;
            return;
        }
    }
}

static void make_directories(const struct engine_ops *ops, const struct stream *s, int fd,
                             const char *upath)
{
    char below[PATH_MAX];
    struct stat st;

    for (size_t i = 0; i < s->count; i++) {
        const char *name = s->names + s->extras[i].name;
        if (s->extras[i].type != DT_DIR ||
            REAL(fstatat)(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        if (strlen(upath) + 1 + strlen(name) >= sizeof(below))
            continue;
        stpcpy(stpcpy(stpcpy(below, upath), *upath ? "/" : ""), name);
        /* If it cannot be made it is shown all the same. */
        (void)ENGINE_CALL(ops->consume(ENGINE_CONSUMER, below, ENGINE_CONSUME_NOW));
    }
}

static void list(struct stream *s, DIR *dir)
{
    const struct engine_ops *ops;
    struct wrapper_path where;
    const char *upath;
    int saved = errno, rc, fd = dirfd(dir);

    s->listed = true;
    if (!wrapper_active() || !wrapper_mine() ||
        !wrapper_path_find_fd_as(fd, WRAPPER_PATH_DIR, &where))
        return;
    s->root = !*wrapper_path_upath(&where) ||
              (where.upath[ENGINE_CONSUMER] && !*where.upath[ENGINE_CONSUMER]);
    upath = where.upath[ENGINE_CONSUMER];
    if (!upath || !(ops = wrapper_engine()))
        return;
    rc = ENGINE_CALL(ops->list(ENGINE_CONSUMER, upath, add_extra, s));
    if (rc < 0 && errno != ENOTSUP && errno != ENOENT)
        s->error = errno;
    if (rc > 0 || !build_index(s))
        s->error = ENOMEM;
    make_directories(ops, s, fd, upath);
    errno = saved;
}

/* The next of the rest, or NULL. */
static struct dirent *next_extra(struct stream *s)
{
    s->ended = true;
    while (s->next < s->count) {
        struct extra *extra = &s->extras[s->next++];
        struct dirent *entry = &s->entry;
        const char *name = s->names + extra->name;
        size_t len = strlen(name);

        if (extra->seen)
            continue;
        /* The inode is only known when the file is here; stat shows it. */
        entry->d_ino = extra->hash ? (ino_t)extra->hash : 1;
        entry->d_off = LONG_MIN + (long)s->next;
        entry->d_type = extra->type;
        entry->d_reclen =
            (unsigned short)((offsetof(struct dirent, d_name) + len + 1 + 7) & ~7ul);
        memcpy(entry->d_name, name, len + 1);
        return entry;
    }
    if (s->error)
        errno = s->error;
    return NULL;
}

/* True if this local name is shown. */
static bool pass(struct stream *s, const char *name)
{
    if (s->root && wrapper_path_is_control(name))
        return false;
    strike_off(s, name);
    return true;
}

/* Nothing is asked before the first readdir. Then the engine's list is read whole
 * (list()); directories in it that are not here are made, so that they have a link count
 * and can be entered; and the local names go by, each of which is struck off the list. At
 * the end of the directory the rest of the list follows. So a file that is fetched or
 * published meanwhile is seen once, whichever of the two sees it. rewinddir begins anew.
 */
static struct dirent *next_of(struct stream *s, DIR *dir)
{
    struct dirent *entry;
    int saved = errno;

    if (!s->listed)
        list(s, dir);
    if (!s->ended) {
        do {
            errno = 0;
            entry = REAL(readdir)(dir);
        } while (entry && !pass(s, entry->d_name));
        if (entry || errno) {
            errno = errno ? errno : saved;
            return entry;
        }
    }
    errno = saved;
    return next_extra(s);
}

struct dirent *wrapper_readdir(DIR *dir)
{
    struct stream *s = stream_of(dir);
    struct dirent *entry;

    if (!s)
        return REAL(readdir)(dir);
    pthread_mutex_lock(&s->lock);
    entry = next_of(s, dir);
    pthread_mutex_unlock(&s->lock);
    return entry;
}

/* --- the calls ------------------------------------------------------------------------ */

struct dirent *wrapped_readdir(DIR *dir)
{
    return wrapper_readdir(dir);
}

/* The two are one type where off_t and ino_t have 64 bits. */
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64) &&
                   offsetof(struct dirent, d_name) == offsetof(struct dirent64, d_name),
               "struct dirent is not struct dirent64");

struct dirent64 *wrapped_readdir64(DIR *dir)
{
    return (struct dirent64 *)(void *)wrapper_readdir(dir);
}

static int read_into(DIR *dir, void *to, void **result)
{
    struct stream *s = stream_of(dir);
    struct dirent *entry;
    int saved = errno, error;

    if (!s)
        return REAL(readdir64_r)(dir, to, (struct dirent64 **)result);
    pthread_mutex_lock(&s->lock);
    errno = 0;
    entry = next_of(s, dir);
    error = entry ? 0 : errno;
    if (entry)
        memcpy(to, entry, entry->d_reclen);
    pthread_mutex_unlock(&s->lock);
    *result = entry ? to : NULL;
    errno = saved;
    return error;
}

int wrapped_readdir_r(DIR *dir, struct dirent *entry, struct dirent **result)
{
    return read_into(dir, entry, (void **)result);
}

int wrapped_readdir64_r(DIR *dir, struct dirent64 *entry, struct dirent64 **result)
{
    return read_into(dir, entry, (void **)result);
}

int wrapper_closedir(DIR *dir)
{
    if (dir) {
        drop(dir);
        wrapper_path_fd_changed(dirfd(dir));
    }
    return REAL(closedir)(dir);
}

int wrapped_closedir(DIR *dir)
{
    return wrapper_closedir(dir);
}

void wrapped_rewinddir(DIR *dir)
{
    struct stream *s = stream_of(dir);

    REAL(rewinddir)(dir);
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    forget_list(s);
    pthread_mutex_unlock(&s->lock);
}

/* A position in the rest is negative: LONG_MIN + index. The kernel's are not. */
long wrapped_telldir(DIR *dir)
{
    struct stream *s = stream_of(dir);
    long at;

    if (!s)
        return REAL(telldir)(dir);
    pthread_mutex_lock(&s->lock);
    at = s->ended ? LONG_MIN + (long)s->next : REAL(telldir)(dir);
    pthread_mutex_unlock(&s->lock);
    return at;
}

void wrapped_seekdir(DIR *dir, long at)
{
    struct stream *s = stream_of(dir);

    if (!s) {
        REAL(seekdir)(dir, at);
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->ended = at < 0;
    s->next = at < 0 ? (size_t)(at - LONG_MIN) : 0;
    if (at >= 0)
        REAL(seekdir)(dir, at);
    pthread_mutex_unlock(&s->lock);
}

static DIR *open_stream(int dirfd, const char *path)
{
    int fd, saved;
    DIR *dir;

    if (dirfd == AT_FDCWD)
        return REAL(opendir)(path);
    fd = REAL(openat64)(dirfd, path, O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    dir = REAL(fdopendir)(fd);
    saved = errno;
    if (!dir)
        REAL(close)(fd);
    errno = saved;
    return dir;
}

#define LEADS_TO (WRAPPER_PATH_DIR | WRAPPER_PATH_FOLLOW_ALL)

DIR *wrapper_opendir(int dirfd, const char *path)
{
    struct wrapper_path where;
    int saved = errno;
    DIR *dir = open_stream(dirfd, path);

    if (__builtin_expect(!dir, 0) && errno == ENOENT &&
        wrapper_bring_dir(dirfd, path, &where)) {
        dir = open_stream(dirfd, where.moved ? where.text : path);
        if (dir)
            errno = saved;
    } else if (dir && wrapper_active() &&
               !wrapper_path_find_as(dirfd, path, LEADS_TO, &where)) {
        drop(dir);
        return dir;
    }
    return track(dir);
}

DIR *wrapped_opendir(const char *path)
{
    return wrapper_opendir(AT_FDCWD, path);
}

DIR *wrapped_fdopendir(int fd)
{
    return track(REAL(fdopendir)(fd));
}
