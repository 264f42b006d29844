/*
 * wrapper/path_impl.h - private to path_*.c
 *
 * From top to bottom: path_find.c resolves a path with as few system calls as possible;
 * path_setup.c reads the variables; path_walk.c walks a path as the kernel does;
 * path_managed.c has the managed directories; path_known.c remembers the places of other
 * directories. Functions for a path in a known directory are inline: path_find.c says
 * why.
 *
 * The managed directories are set once, by the thread that starts the wrapper (core.c),
 * and only read by threads that have seen it to be on. Remembered places are single
 * words, each of which is right by itself or out of date: threads and signal handlers
 * read and write them without a lock.
 */
#ifndef DYAD_WRAPPER_PATH_IMPL_H
#define DYAD_WRAPPER_PATH_IMPL_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "wrapper/path_find.h"

enum place { PLACE_UNKNOWN = 0, PLACE_FAR = 1, PLACE_ABOVE = 2, PLACE_BELOW = 3 };
#define PLACE_MASK 3u

/* --- path_managed.c --- */

struct prefix {
    size_t len;
    char text[PATH_MAX];
};

/* The directory of each role: its physical name, and the variable's value, normalised. */
extern struct prefix wrapper_path_managed[2], wrapper_path_given[2];
/* Those of these names that differ: nearly always one. */
struct prefix_form {
    const struct prefix *prefix;
    int role;
};
extern struct prefix_form wrapper_path_forms[4];
extern unsigned wrapper_path_nforms;
extern bool wrapper_path_relative;         /* DYAD_PATH_RELATIVE */
extern atomic_bool wrapper_path_forgotten; /* wrapper_path_forget() */

/* where->text is a physical path: fill in the upaths. False: it is not below a managed
 * one. */
bool wrapper_path_match(struct wrapper_path *where);
/* The place of dir[len], a physical path, "" for the root. */
enum place wrapper_path_place(const char *dir, size_t len);
/* wrapper_path_managed[role] was set: note its file system. */
void wrapper_path_set_device(int role);

/* --- path_known.c --- */

#define PLACES      1024u /* a power of two */
#define TAG_SHIFT   24    /* | tag: 40 bits of the hash | second: 22 | place: 2 | */
#define SECOND_MASK 0x3fffffu

extern _Atomic uint64_t wrapper_path_places[PLACES];
extern _Atomic uint32_t wrapper_path_epoch;
/* The working directory: its epoch above, its place in the lowest two bits. */
extern _Atomic uint64_t wrapper_path_cwd;

/* The word that is remembered for the directory that dirfd has open, or 0. */
uint64_t wrapper_path_fd_recall(int dirfd);
/* Call it before dirfd's place is found out: the `word` for wrapper_path_fd_learnt(). */
uint64_t wrapper_path_fd_learn(int dirfd);
/* Remember dirfd's place. Returns the word for it; 0 if dirfd changed meanwhile. */
uint64_t wrapper_path_fd_learnt(int dirfd, uint64_t word, enum place place);

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * 0x9e3779b97f4a7c15ull;
    return a ^ (a >> 32);
}

static inline uint64_t word_at(const char *text)
{
    uint64_t word;

    __builtin_memcpy(&word, text, sizeof(word));
    return word;
}

/* Hash of a directory's text, relative to the directory that `seed` stands for. Two sums,
 * so that the processor computes them in parallel. */
static inline uint64_t hash(uint64_t seed, const char *text, size_t len)
{
    uint64_t a =
        mix(seed + len, atomic_load_explicit(&wrapper_path_epoch, memory_order_relaxed) +
                            0x632be5abull);
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

/* time() is the cheapest clock: on x86_64 a jump into the vDSO, which reads one word. If
 * the clock is set it costs one look at the disk more. */
static inline uint32_t now(void)
{
    return (uint32_t)time(NULL) & SECOND_MASK;
}

static inline bool is_fresh(uint64_t word)
{
    return ((now() - (uint32_t)(word >> 2)) & SECOND_MASK) <= 1;
}

static inline enum place recall(uint64_t h)
{
    uint64_t word =
        atomic_load_explicit(&wrapper_path_places[h & (PLACES - 1)], memory_order_relaxed);

    if ((word ^ h) >> TAG_SHIFT != 0 || !is_fresh(word))
        return PLACE_UNKNOWN;
    return (enum place)(word & PLACE_MASK);
}

static inline void remember(uint64_t h, enum place place)
{
    if (place == PLACE_FAR || place == PLACE_ABOVE)
        atomic_store_explicit(&wrapper_path_places[h & (PLACES - 1)],
                              h >> TAG_SHIFT << TAG_SHIFT | (uint64_t)now() << 2 | place,
                              memory_order_relaxed);
}

/* --- prefixes --- */

/* The rest of path[len] behind the prefix: "" for the directory itself, NULL: not below it.
 */
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

/* The rest of an absolute path behind the text of a prefix (configured or physical), of
 * directory *role. It may still lead out again. */
static inline const char *below_as_text(const char *path, size_t len, int *role)
{
    const char *rest;

    for (unsigned i = 0; i < wrapper_path_nforms; i++)
        if ((rest = below(wrapper_path_forms[i].prefix, path, len))) {
            *role = wrapper_path_forms[i].role;
            return rest;
        }
    return NULL;
}

/* --- path_walk.c --- */

/* The text that /proc appends to the name of a file that is removed. */
#define DELETED_MARK " (deleted)"

struct walk {
    /* Remember the places of the directories in the text of the path; `seed` for hash().
     */
    bool keep;
    uint64_t seed;
    bool follow; /* the last component, whatever how says */
    /* Results. */
    bool absent; /* a component was not there */
    bool dir;    /* by its form it can only name a directory */
};

/* Go from the directory where->text[n], physical, along `path`, to a physical name in
 * where->text. 0, or -1: only the real call is to be made. */
int wrapper_path_walk(struct wrapper_path *where, size_t n, const char *path,
                      struct walk *w);

#endif
