/*
 * path.c - from a path to a upath
 *
 * walk() does what the kernel does, component by component with readlink: no descriptor is
 * opened (the program may have used them all up), and what is absent can be walked past.
 * The managed directories are compared by their physical names.
 *
 * Nearly all paths are elsewhere, and a walk costs half a microsecond a component. So it is
 * remembered of directories, by the hash of their text, that they are elsewhere: `places`,
 * single words, in which a signal handler may read and write what a thread is about to. A
 * path whose directory is known costs a hash; one whose parent directory is known costs one
 * readlink. What is remembered is void after one to two seconds, or as soon as this process
 * makes a link or renames something: another process may put a link in the place of a
 * directory that we know.
 *
 * FAR: neither below a managed directory nor above one, so a plain directory in it is FAR
 * too. ABOVE: elsewhere, but a managed directory is somewhere in it. Nothing is remembered
 * of what is below.
 *
 * The text of a relative path means something only together with a directory: the
 * generation of the working directory or of a descriptor is hashed with it. What is
 * kept of the working directory itself is one word, (generation, place). A change of
 * directory by a wrapper of ours raises the generation after the fact; who computed the
 * word from an older directory fails its compare-and-swap.
 *
 * A descriptor's directory has such a word, too, in wrapper_path_fds, with a generation
 * that no other has. It is wiped when the descriptor is closed or replaced, and when a call
 * of ours returns the number anew, and is void after a second like all the rest: that is
 * for descriptors that change with no call of ours (raw system calls, threads with a
 * descriptor table of their own).
 */
#include "wrapper/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/path.h"
#include "wrapper/core.h"
#include "wrapper/pointer.h"

#define DELETED_MARK " (deleted)"
#define LINKS_MAX    40 /* the kernel's own bound */

struct prefix {
    size_t len;
    char text[PATH_MAX];
};

static struct prefix configured[2]; /* by side; as in the variable, normalised */
static struct prefix managed[2];    /* its physical name */
/* All of them that differ: nearly always one. */
static struct {
    const struct prefix *prefix;
    int side;
} forms[4];
static unsigned nforms;
static bool relative_to_managed;
static atomic_bool forgotten;

enum place { PLACE_UNKNOWN = 0, PLACE_FAR = 1, PLACE_ABOVE = 2, PLACE_BELOW = 3 };
#define PLACE_MASK 3u

/* The working directory: its generation above, its place in the lowest two bits. */
static _Atomic uint64_t cwd_word;

/* --- what is remembered --- */

#define PLACES      1024u /* a power of two */
#define TAG_SHIFT   24    /* | tag: 40 bits of the hash | second: 22 | place: 2 | */
#define SECOND_MASK 0x3fffffu

static _Atomic uint64_t places[PLACES];
static _Atomic uint32_t epoch;

static uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * 0x9e3779b97f4a7c15ull;
    return a ^ (a >> 32);
}

static uint64_t word_at(const char *text)
{
    uint64_t word;

    __builtin_memcpy(&word, text, sizeof(word));
    return word;
}

/* Hash of a directory's text, in relation to what `seed` stands for. Two sums that do not
 * wait for each other. */
static uint64_t hash(uint64_t seed, const char *text, size_t len)
{
    uint64_t a =
        mix(seed + len, atomic_load_explicit(&epoch, memory_order_relaxed) + 0x632be5abull);
    uint64_t b = 0x2545f4914f6cdd1dull, last = 0;
    size_t i = 0;

    for (; i + 16 <= len; i += 16) {
        a = mix(a, word_at(text + i));
        b = mix(b, word_at(text + i + 8));
    }
    if (i + 8 <= len)
        a = mix(a, word_at(text + i));
    if (len >= 8) /* the last eight bytes, some of them once more */
        last = word_at(text + len - 8);
    else
        for (; i < len; i++)
            last = last << 8 | (unsigned char)text[i];
    return mix(mix(a, last), b);
}

/* time() is the cheapest clock there is: on x86_64 a jump into the vDSO, which reads one
 * word. Nothing worse than one look more comes of a clock that is set. */
static uint32_t now(void)
{
    return (uint32_t)time(NULL) & SECOND_MASK;
}

static bool is_fresh(uint64_t word)
{
    return ((now() - (uint32_t)(word >> 2)) & SECOND_MASK) <= 1;
}

static enum place recall(uint64_t h)
{
    uint64_t word = atomic_load_explicit(&places[h & (PLACES - 1)], memory_order_relaxed);

    if ((word ^ h) >> TAG_SHIFT != 0 || !is_fresh(word))
        return PLACE_UNKNOWN;
    return (enum place)(word & PLACE_MASK);
}

static void remember(uint64_t h, enum place place)
{
    if (place == PLACE_FAR || place == PLACE_ABOVE)
        atomic_store_explicit(&places[h & (PLACES - 1)],
                              h >> TAG_SHIFT << TAG_SHIFT | (uint64_t)now() << 2 | place,
                              memory_order_relaxed);
}

/* By descriptor: | generation: 40 | second: 22 | place: 2 |, the place UNKNOWN while it is
 * found out. 0: nothing. Generations below the floor are void. */
_Atomic uint64_t wrapper_path_fds[WRAPPER_PATH_FDS];
static _Atomic uint64_t fd_generation = 1, fd_floor;

/* What is known of the directory that dirfd has open, or 0. */
static uint64_t fd_recall(int dirfd)
{
    uint64_t word;

    if ((unsigned)dirfd >= WRAPPER_PATH_FDS)
        return 0;
    word = atomic_load_explicit(&wrapper_path_fds[dirfd], memory_order_acquire);
    if ((word & PLACE_MASK) == PLACE_UNKNOWN || !is_fresh(word) ||
        word >> TAG_SHIFT < atomic_load_explicit(&fd_floor, memory_order_relaxed))
        return 0;
    return word;
}

/* Before dirfd's place is found out; what fd_learnt() wants. */
static uint64_t fd_learn(int dirfd)
{
    uint64_t word;

    /* A child of vfork has descriptors of its own, but not this table. */
    if ((unsigned)dirfd >= WRAPPER_PATH_FDS || !wrapper_mine())
        return 0;
    word = atomic_fetch_add(&fd_generation, 1) << TAG_SHIFT | (uint64_t)now() << 2;
    atomic_store(&wrapper_path_fds[dirfd], word);
    return word;
}

/* The word that is known from now on; 0 if dirfd changed meanwhile. */
static uint64_t fd_learnt(int dirfd, uint64_t word, enum place place)
{
    if (!word || (place != PLACE_FAR && place != PLACE_ABOVE) ||
        !atomic_compare_exchange_strong(&wrapper_path_fds[dirfd], &word, word | place))
        return 0;
    return word | place;
}

static uint64_t fd_seed(uint64_t word)
{
    return mix(word >> TAG_SHIFT, 0xda942042e4dd58b5ull) & ~1ull;
}

void wrapper_path_fds_changed(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd < WRAPPER_PATH_FDS && fd <= last; fd++)
        wrapper_path_fd_changed((int)fd);
}

void wrapper_path_changed(void)
{
    atomic_fetch_add(&epoch, 1);
    atomic_store(&fd_floor, atomic_fetch_add(&fd_generation, 1));
}

void wrapper_path_cwd_changed(void)
{
    uint64_t word = atomic_load(&cwd_word);

    while (!atomic_compare_exchange_weak(&cwd_word, &word, (word | PLACE_MASK) + 1))
        ;
}

/* --- prefixes --- */

/* What comes after the prefix in path[len]: "" for the directory itself, NULL: not below
 * it. */
static inline const char *below(const struct prefix *prefix, const char *path, size_t len)
{
    size_t n = prefix->len;

    /* Most differ in the last eight bytes. */
    if (len < n || n == 0 ||
        (n >= 8 && word_at(path + n - 8) != word_at(prefix->text + n - 8)) ||
        memcmp(path, prefix->text, n) != 0)
        return NULL;
    path += n;
    if (n == 1) /* "/" is managed: not sensible, but it is what was asked for */
        return path;
    return path[0] == '/' ? path + 1 : path[0] ? NULL : path;
}

/* where->text is a physical path. */
static bool match(struct wrapper_path *where)
{
    size_t len = strlen(where->text);

    for (int side = 0; side < 2; side++) {
        const char *upath = below(&managed[side], where->text, len);
        if (upath &&
            (util_path_is_control(upath) || (!*upath && !(where->how & WRAPPER_PATH_DIR))))
            upath = NULL;
        where->upath[side] = upath;
    }
    return where->upath[0] || where->upath[1];
}

/* dir[len], physical, "" for the root. */
static enum place place_of(const char *dir, size_t len)
{
    enum place place = PLACE_FAR;

    for (int side = 0; side < 2; side++) {
        const struct prefix *prefix = &managed[side];
        if (prefix->len == 0)
            continue;
        if (prefix->len == 1 ||
            (len >= prefix->len && !memcmp(dir, prefix->text, prefix->len) &&
             (len == prefix->len || dir[prefix->len] == '/')))
            return PLACE_BELOW;
        if (len < prefix->len && !memcmp(dir, prefix->text, len) &&
            prefix->text[len] == '/')
            place = PLACE_ABOVE;
    }
    return place;
}

/* What of an absolute path is below a prefix as text, in its configured or its physical
 * form; *side is whose. It may still lead out again. */
static inline const char *below_as_text(const char *path, size_t len, int *side)
{
    const char *rest;

    for (unsigned i = 0; i < nforms; i++)
        if ((rest = below(forms[i].prefix, path, len))) {
            *side = forms[i].side;
            return rest;
        }
    return NULL;
}

/* --- the walk --- */

struct walk {
    /* Remember what is learnt of the directories in the text of the path; their hashes'
     * seed. */
    bool keep;
    uint64_t seed;
    bool follow; /* the last component, whatever how says */
    /* Results. */
    bool absent; /* a component was not there */
    bool dir;    /* by its form it can only name a directory */
};

/* A link of /proc shows a name that the file had. */
static bool is_deleted(const char *link, const char *target, size_t len)
{
    size_t mark = sizeof(DELETED_MARK) - 1;
    struct stat st;

    return strncmp(link, "/proc/", 6) == 0 && len > mark &&
           memcmp(target + len - mark, DELETED_MARK, mark) == 0 &&
           (syscall(SYS_newfstatat, AT_FDCWD, link, &st, 0) < 0 || st.st_nlink == 0);
}

static bool follows(const struct wrapper_path *where, const struct walk *w, size_t n)
{
    if (w->follow || (where->how & WRAPPER_PATH_FOLLOW_ALL) == WRAPPER_PATH_FOLLOW_ALL)
        return true;
    return (where->how & WRAPPER_PATH_FOLLOW) && place_of(where->text, n) == PLACE_BELOW;
}

/* Go from the directory where->text[n], physical, along `path`, to a physical name in
 * where->text. 0, or -1: it is the real call's affair. What is still to be walked stands at
 * the end of where->text, where a link's target can be put before it. */
static int __attribute__((noinline))
walk(struct wrapper_path *where, size_t n, const char *path, struct walk *w)
{
    char target[PATH_MAX], *out = where->text, *floor = out + PATH_MAX;
    char *end = out + sizeof(where->text) - 1, *p, *q;
    size_t size = strlen(path), base, consumed;
    bool plain = true; /* no link so far: what was walked is a beginning of `path` */
    unsigned links = 0;

    if (size >= PATH_MAX)
        return -1;
    for (base = size; base > 0 && path[base - 1] != '/';)
        base--;
    p = memmove(end - size, path, size + 1);
    base = size - base; /* length of the last component */
    w->absent = w->dir = false;
    for (;; p = q) {
        size_t len;
        ssize_t r;

        for (; *p == '/'; p++)
            w->dir = true;
        /* Between the directory and the last component, as the path has them. */
        if (base && (size_t)(end - p) == base) {
            if (w->keep && !w->absent && size > base)
                remember(hash(w->seed, path, size - base - 1), place_of(out, n));
            base = 0; /* what a link at the end leads to is none of it */
        }
        if (!*p)
            break;
        q = strchrnul(p, '/');
        len = (size_t)(q - p);
        w->dir = true;
        if (len == 1 && p[0] == '.')
            continue;
        if (len == 2 && p[0] == '.' && p[1] == '.') {
            while (n > 0 && out[--n] != '/')
                ;
            plain = false;
            continue;
        }
        w->dir = false;
        if (n + 1 + len + 1 > PATH_MAX)
            return -1;
        out[n] = '/';
        memcpy(out + n + 1, p, len);
        out[n + 1 + len] = '\0';
        if (!w->absent && (*q || follows(where, w, n))) {
            r = syscall(SYS_readlinkat, AT_FDCWD, out, target, sizeof(target) - 1);
            if (r > 0) {
                if (++links > LINKS_MAX || q - r < floor ||
                    is_deleted(out, target, (size_t)r))
                    return -1;
                plain = false;
                q -= r;
                memcpy(q, target, (size_t)r);
                if (target[0] == '/')
                    n = 0;
                continue;
            }
            if (errno == ENOENT || errno == ENOTDIR)
                w->absent = true;
            else if (errno != EINVAL)
                return -1;
        }
        n += 1 + len;
        consumed = size - (size_t)(end - q);
        if (plain && w->keep && !w->absent && *q)
            remember(hash(w->seed, path, consumed), place_of(out, n));
    }
    if (n == 0) {
        out[n++] = '/';
        w->dir = true;
    }
    out[n] = '\0';
    return 0;
}

/* --- directories that are known --- */

/* Where directory path[len] (absolute, or relative to what `seed` stands for, whose own
 * place is `start`) is: known, or to be told with one readlink. Uses where->text. */
static enum place place_near(int dirfd, uint64_t seed, enum place start, const char *path,
                             size_t len, struct wrapper_path *where)
{
    size_t known = len;
    enum place place = PLACE_UNKNOWN;
    char target;

    /* Up, to a directory that is known ... */
    for (;;) {
        if (known == 0)
            place = start;
        else
            place = recall(hash(seed, path, known));
        if (place != PLACE_UNKNOWN || known == 0)
            break;
        while (known > 0 && path[known - 1] != '/')
            known--;
        while (known > 0 && path[known - 1] == '/')
            known--;
    }
    if (known == len)
        return place;
    if (place != PLACE_FAR || len >= PATH_MAX)
        return PLACE_UNKNOWN;
    /* ... and down again. */
    memcpy(where->text, path, len);
    while (known < len) {
        size_t from = known + (path[known] == '/');
        while (from < len && path[from] == '/')
            from++;
        for (known = from; known < len && path[known] != '/';)
            known++;
        if (known == from ||
            (path[from] == '.' &&
             (known == from + 1 || (known == from + 2 && path[from + 1] == '.'))))
            return PLACE_UNKNOWN;
        where->text[known] = '\0';
        if (syscall(SYS_readlinkat, dirfd, where->text, &target, 1) >= 0)
            return PLACE_UNKNOWN;
        if (errno != EINVAL)
            return PLACE_FAR; /* absent, and what is not there leads nowhere */
        if (known < len)
            where->text[known] = '/';
        remember(hash(seed, path, known), PLACE_FAR);
    }
    return PLACE_FAR;
}

/* A path's length, and that of its directory: what is before the last slash. In line, as
 * all of the way of paths that are known: after a system call the processor has forgotten
 * where indirect jumps lead, and a call into libc is one, at 10 to 20 ns. */
struct lengths {
    size_t all, dir;
};
static inline struct lengths measure(const char *path)
{
    struct lengths len = {0, 0};

    for (; path[len.all]; len.all++)
        len.dir = path[len.all] == '/' ? len.all : len.dir;
    return len;
}

/* Where the path as a whole leads is asked for, not only its directory. */
static bool is_whole(unsigned how)
{
    return (how & WRAPPER_PATH_FOLLOW_ALL) == WRAPPER_PATH_FOLLOW_ALL;
}

/* The last component is "", "." or "..". */
static bool ends_in_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;

    return last[0] == '\0' || !strcmp(last, ".") || !strcmp(last, "..");
}

/* A name of an open descriptor: where it leads may change at any time. Only calls that
 * follow it have to do with the file. */
static bool is_magic(const char *path)
{
    if ((path[1] != 'p' && path[1] != 'd') || path[0] != '/')
        return false;
    if (strncmp(path, "/proc/", 6) == 0)
        return strstr(path, "/fd/") || strstr(path, "/cwd") || strstr(path, "/root");
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/dev/std", 8) == 0;
}

static bool is_below(const struct wrapper_path *where)
{
    return where->upath[0] || where->upath[1];
}

/* The walk along `path` from where->text[n], and what comes of it. */
static bool find_walking(struct wrapper_path *where, size_t n, const char *path,
                         struct walk *w)
{
    where->upath[0] = where->upath[1] = NULL;
    if (walk(where, n, path, w) < 0)
        return false;
    if (match(where) && (!w->dir || (where->how & WRAPPER_PATH_DIR)))
        return true;
    if (w->keep && !w->absent && !is_below(where) && is_whole(where->how) &&
        place_of(where->text, strlen(where->text)) != PLACE_BELOW)
        remember(hash(w->seed, path, strlen(path)), PLACE_ABOVE);
    return false;
}

/* What the place of the directory of path (or of all of it, is_whole()) says of the path.
 */
static inline bool is_place_elsewhere(enum place place, const char *path, unsigned how)
{
    if (place == PLACE_ABOVE) /* the managed directory itself may be meant */
        return is_whole(how) || !(how & WRAPPER_PATH_DIR);
    return place == PLACE_FAR &&
           (is_whole(how) || !(how & WRAPPER_PATH_DIR) || !ends_in_directory(path));
}

/* Is the path, in relation to a directory elsewhere, whose place is `start`, known to be
 * elsewhere, too? */
static inline bool is_known(uint64_t seed, enum place start, const char *path,
                            struct lengths lengths, unsigned how)
{
    size_t len = is_whole(how) ? lengths.all : lengths.dir;

    return is_place_elsewhere(len == 0 ? start : recall(hash(seed, path, len)), path, how);
}

/* The same, known or easily told. */
static bool is_elsewhere(int dirfd, uint64_t seed, enum place start, const char *path,
                         struct wrapper_path *where)
{
    struct lengths lengths = measure(path);
    size_t len = is_whole(where->how) ? lengths.all : lengths.dir;

    return is_place_elsewhere(
        len == 0 ? start : place_near(dirfd, seed, start, path, len, where), path,
        where->how);
}

static bool find_absolute(const char *path, struct wrapper_path *where)
{
    struct walk w = {.keep = true};
    const char *rest;
    int side;

    if (is_magic(path)) {
        w.keep = false;
        w.follow = (where->how & WRAPPER_PATH_FOLLOW) != 0;
    } else if ((rest = below_as_text(path, strlen(path), &side))) {
        /* The prefix need not be walked. */
        w.keep = false;
        memcpy(where->text, managed[side].text, managed[side].len + 1);
        return find_walking(where, managed[side].len == 1 ? 0 : managed[side].len, rest,
                            &w);
    } else if (is_elsewhere(AT_FDCWD, 0, PLACE_ABOVE, path, where)) {
        return false;
    }
    return find_walking(where, 0, path, &w);
}

/* --- relative paths --- */

static uint64_t cwd_seed(uint64_t word)
{
    return mix(word >> 2, 0x5851f42d4c957f2dull) | 1;
}

static bool find_in_cwd(const char *path, struct wrapper_path *where)
{
    uint64_t word = atomic_load(&cwd_word);
    enum place place = (enum place)(word & PLACE_MASK);
    struct walk w = {0};
    long n;

    if ((place == PLACE_FAR || place == PLACE_ABOVE) &&
        is_elsewhere(AT_FDCWD, cwd_seed(word), place, path, where))
        return false;
    n = syscall(SYS_getcwd, where->text, PATH_MAX);
    if (n <= 1 || where->text[0] != '/') /* "(unreachable)..." */
        return false;
    n = n == 2 ? 0 : n - 1; /* the root is "" */
    if (place == PLACE_UNKNOWN && wrapper_mine()) {
        uint64_t known = (word & ~(uint64_t)PLACE_MASK) | place_of(where->text, (size_t)n);
        if (atomic_compare_exchange_strong(&cwd_word, &word, known))
            word = known;
        place = (enum place)(word & PLACE_MASK);
    }
    w.keep = place == PLACE_FAR || place == PLACE_ABOVE;
    w.seed = cwd_seed(word);
    return find_walking(where, (size_t)n, path, &w);
}

static long fd_name(int fd, char *text)
{
    char link[32];
    long n;

    snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
    n = syscall(SYS_readlinkat, AT_FDCWD, link, text, PATH_MAX - 1);
    if (n <= 0 || text[0] != '/')
        return 0;
    text[n] = '\0';
    return n;
}

/* One that is not removed. */
static bool is_directory(int fd)
{
    struct stat st;

    /* Not fstat(), which is ours. */
    return syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 &&
           S_ISDIR(st.st_mode) && st.st_nlink > 0;
}

static bool find_in_fd(int dirfd, const char *path, struct wrapper_path *where)
{
    uint64_t word = fd_recall(dirfd), begun;
    struct walk w = {0};
    enum place place;
    long n;

    if (word &&
        is_elsewhere(dirfd, fd_seed(word), (enum place)(word & PLACE_MASK), path, where))
        return false;
    begun = word ? 0 : fd_learn(dirfd);
    if (!is_directory(dirfd))
        return false;
    n = fd_name(dirfd, where->text);
    if (n <= 0)
        return false;
    n = n == 1 ? 0 : n;
    place = place_of(where->text, (size_t)n);
    if (!word)
        word = fd_learnt(dirfd, begun, place);
    w.keep = word && (place == PLACE_FAR || place == PLACE_ABOVE);
    w.seed = fd_seed(word);
    return find_walking(where, (size_t)n, path, &w);
}

/* DYAD_PATH_RELATIVE, as DYAD has it: a relative path that names nothing in the working
 * directory is one below the managed directory. */
static bool find_managed(const char *path, struct wrapper_path *where)
{
    struct stat st;

    if (syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    for (int side = 0; side < 2; side++) {
        struct walk w = {0};
        if (!managed[side].len)
            continue;
        memcpy(where->text, managed[side].text, managed[side].len + 1);
        if (find_walking(where, managed[side].len == 1 ? 0 : managed[side].len, path, &w)) {
            where->moved = true;
            return true;
        }
    }
    return false;
}

/* --- what the others call --- */

bool wrapper_path_elsewhere(int dirfd, const char *path, unsigned how)
{
    struct lengths len;
    uint64_t word, seed;
    int side;

    if (wrapper_bad_pointer(path) || !path[0])
        return true;
    len = measure(path);
    if (path[0] == '/')
        return !below_as_text(path, len.all, &side) && !is_magic(path) &&
               is_known(0, PLACE_ABOVE, path, len, how);
    if (dirfd == AT_FDCWD) {
        word = relative_to_managed ? 0 : atomic_load(&cwd_word);
        seed = cwd_seed(word);
    } else {
        word = fd_recall(dirfd);
        seed = fd_seed(word);
    }
    /* UNKNOWN and BELOW are no answer. */
    return (word & PLACE_MASK) != PLACE_UNKNOWN &&
           is_known(seed, (enum place)(word & PLACE_MASK), path, len, how);
}

bool wrapper_path_find_as(int dirfd, const char *path, unsigned how,
                          struct wrapper_path *where)
{
    int saved = errno;
    bool found;

    if (wrapper_bad_pointer(path) || !path[0] ||
        atomic_load_explicit(&forgotten, memory_order_relaxed))
        return false;
    where->moved = false;
    where->how = how;
    if (path[0] == '/') {
        found = find_absolute(path, where);
    } else if (dirfd == AT_FDCWD) {
        found = find_in_cwd(path, where);
        if (!found && relative_to_managed)
            found = find_managed(path, where);
    } else {
        found = dirfd >= 0 && find_in_fd(dirfd, path, where);
    }
    errno = saved;
    return found;
}

bool wrapper_path_find_fd_as(int fd, unsigned how, struct wrapper_path *where)
{
    int saved = errno;
    struct stat st;
    long n = fd_name(fd, where->text);
    size_t mark = sizeof(DELETED_MARK) - 1;
    bool found;

    where->moved = false;
    where->how = how;
    found =
        n > 0 && !atomic_load_explicit(&forgotten, memory_order_relaxed) && match(where);
    if (found && (size_t)n > mark && strcmp(where->text + n - mark, DELETED_MARK) == 0)
        found = syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_nlink > 0;
    errno = saved;
    return found;
}

bool wrapper_path_is_control(const char *name)
{
    return strcmp(name, UTIL_PATH_CONTROL_DIR) == 0;
}

bool wrapper_path_ends_in_directory(const char *path)
{
    return ends_in_directory(path);
}

enum wrapper_path_again wrapper_path_again(struct wrapper_path *where)
{
    enum engine_side side = wrapper_path_side(where);
    size_t len = strlen(where->text);
    uint64_t before = hash(0, where->text, len);
    struct walk w = {0};
    int saved = errno;
    bool found;

    found = find_walking(where, managed[side].len == 1 ? 0 : managed[side].len,
                         where->upath[side], &w);
    errno = saved;
    if (!found)
        return WRAPPER_PATH_GONE;
    return strlen(where->text) == len && hash(0, where->text, len) == before
               ? WRAPPER_PATH_SAME
               : WRAPPER_PATH_OTHER;
}

/* --- set-up --- */

/* The file system of a managed directory. What is mounted below one is not shared: a
 * fetched file is renamed into place. */
static struct {
    bool known;
    dev_t dev;
} device[2];

static void set_device(int side)
{
    struct stat st;

    device[side].known = managed[side].len &&
                         syscall(SYS_newfstatat, AT_FDCWD, managed[side].text, &st, 0) == 0;
    if (device[side].known)
        device[side].dev = st.st_dev;
}

bool wrapper_path_on_device(dev_t dev)
{
    for (int side = 0; side < 2; side++)
        if (managed[side].len && (!device[side].known || device[side].dev == dev))
            return true;
    return false;
}

static void set_prefix(struct prefix *as_given, struct prefix *physical, const char *path)
{
    struct wrapper_path where = {.how = WRAPPER_PATH_DIR | WRAPPER_PATH_FOLLOW_ALL};
    char joined[2 * PATH_MAX];
    size_t at = 0, n = strlen(path);
    struct walk w = {.follow = true};
    bool dir;

    if (path[0] != '/') {
        long cwd = syscall(SYS_getcwd, joined, PATH_MAX);
        if (cwd <= 0 || joined[0] != '/')
            return;
        at = (size_t)cwd - 1;
        joined[at++] = '/';
    }
    if (at + n >= sizeof(joined))
        return;
    memcpy(joined + at, path, n + 1);
    as_given->len =
        util_path_normalise(joined, as_given->text, sizeof(as_given->text), &dir);
    if (as_given->len == 0)
        return;
    /* What of it is not there yet is taken as it is written. */
    if (walk(&where, 0, joined, &w) < 0) {
        *physical = *as_given;
        return;
    }
    physical->len = strlen(where.text);
    memcpy(physical->text, where.text, physical->len + 1);
}

static void add_form(const struct prefix *prefix, int side)
{
    for (unsigned i = 0; i < nforms; i++)
        if (forms[i].prefix->len == prefix->len &&
            memcmp(forms[i].prefix->text, prefix->text, prefix->len) == 0)
            return;
    if (prefix->len) {
        forms[nforms].prefix = prefix;
        forms[nforms++].side = side;
    }
}

bool wrapper_path_configured(void)
{
    return configured[0].len || configured[1].len;
}

bool wrapper_path_forget(void)
{
    return wrapper_path_configured() && !atomic_exchange(&forgotten, true);
}

bool wrapper_path_setup(char *const env[])
{
    static const char *const name[2] = {"DYAD_PATH_CONSUMER", "DYAD_PATH_PRODUCER"};
    const char *both = wrapper_env_get(env, "DYAD_PATH");
    const char *flag = wrapper_env_get(env, "DYAD_PATH_RELATIVE");
    bool any = false;

    nforms = 0;
    for (int side = 0; side < 2; side++) {
        const char *path = wrapper_env_get(env, name[side]);
        if (!path || !*path)
            path = both;
        if (!path || !*path)
            continue;
        set_prefix(&configured[side], &managed[side], path);
        set_device(side);
        add_form(&managed[side], side);
        add_form(&configured[side], side);
        any = any || configured[side].len;
    }
    relative_to_managed = flag && (!strcmp(flag, "1") || !strcasecmp(flag, "on") ||
                                   !strcasecmp(flag, "true") || !strcasecmp(flag, "yes"));
    return any;
}
