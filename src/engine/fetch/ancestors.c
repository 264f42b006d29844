/*
 * ancestors.c - a name that may turn out to be below a symbolic link
 *
 * "a/b/f" may be asked for while "a" is, or becomes, a link to "c" elsewhere, and the file
 * is published as "c/b/f". So who waits for a file also waits for the first directory above
 * it that is not here, and who does not wait asks for it before the answer is no. Once that
 * is published as a directory, the next one is looked for; once as a link, who waits brings
 * that here, and the name is to be resolved again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/fetch/consume_impl.h"
#include "engine/membership/exit_barrier.h"

struct ancestor {
    struct member *member;
    const char *below; /* the name; borrowed */
    uint8_t flags;     /* NET_LOOKUP_WAIT */
    consume_fn fn;
    void *arg;
    struct dht_lookup *lookup;
    struct dht_lookup *check; /* for the barrier, beside `lookup` */
    struct dyad_version seen;
    size_t len; /* of upath in `below` */
    char upath[];
};

static void looked_up(void *arg, int status, const struct dyad_entry *entry);

static int look_up(struct ancestor *a)
{
    /* A program that polls for "a/b/f" asks for "a" each time, too: keep that answer. */
    uint8_t keep = a->flags & NET_LOOKUP_WAIT ? 0 : NET_LOOKUP_KEEP;

    a->lookup =
        dht_node_lookup(a->member->dht, a->upath, a->flags | keep, &a->seen, looked_up, a);
    return a->lookup ? 0 : ENOMEM;
}

/* Look for the first directory that is missing behind the first `len` bytes of the name.
 * As ancestor_start(). */
static int look(struct ancestor *a, size_t len)
{
    const struct store_dir *dir = a->member->dmd[ENGINE_CONSUMER].dir;
    const char *slash = strrchr(a->below, '/');
    struct stat st;

    /* Nothing is followed, so if the last one is here all are, and none is a link. */
    memcpy(a->upath, a->below, (size_t)(slash - a->below));
    a->upath[slash - a->below] = '\0';
    if (store_dir_stat(dir, a->upath, &st) == 0 && S_ISDIR(st.st_mode))
        return ENOENT;
    while ((slash = strchr(a->below + len, '/'))) {
        a->len = (size_t)(slash - a->below);
        memcpy(a->upath, a->below, a->len);
        a->upath[a->len] = '\0';
        a->seen = (struct dyad_version){0};
        if (store_dir_stat(dir, a->upath, &st) < 0)
            return look_up(a);
        if (S_ISLNK(st.st_mode))
            return ESTALE;
        len = a->len + 1;
    }
    return ENOENT;
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct ancestor *a = arg;

    a->lookup = NULL;
    if (entry)
        a->seen = entry->version;
    if (status == 0 && S_ISLNK(entry->mode)) {
        a->fn(a->arg, EINPROGRESS);
        return;
    }
    if (status == 0)
        status = look(a, a->len + 1);
    else if (status == ENOENT && a->flags) /* a tombstone */
        status = look_up(a);
    /* Whatever else became of it, a wait for the name itself goes on. */
    if (status == ESTALE || (status && !a->flags))
        a->fn(a->arg, status);
}

static void check_drop(struct ancestor *a)
{
    if (!a->check)
        return;
    dht_node_cancel(a->member->dht, a->check);
    a->check = NULL;
    OWN(a->member, waits)->checks--;
}

static void checked(void *arg, int status, const struct dyad_entry *entry)
{
    struct ancestor *a = arg;
    struct member *member = a->member;

    a->check = NULL;
    OWN(member, waits)->checks--;
    /* If there is something that `lookup` does not know yet, the news is under way to it.
     */
    if (status != ENOENT || (entry && dyad_version_cmp(&entry->version, &a->seen) > 0))
        exit_barrier_activity(member);
    if (OWN(member, waits)->checks == 0)
        boot_wave_confirmed(member->wave, OWN(member, waits)->checking);
}

void ancestor_check(struct ancestor *a)
{
    check_drop(a); /* of an earlier wave */
    if (!a->lookup)
        return;
    a->check = dht_node_lookup(a->member->dht, a->upath, 0, &a->seen, checked, a);
    if (a->check)
        OWN(a->member, waits)->checks++;
    else
        exit_barrier_activity(a->member); /* no memory: busy */
}

const char *ancestor_upath(const struct ancestor *a)
{
    return a->upath;
}

int ancestor_start(struct member *member, const char *upath, uint8_t flags, consume_fn fn,
                   void *arg, struct ancestor **ancestor)
{
    struct ancestor *a;
    int status;

    if (!strchr(upath, '/'))
        return ENOENT;
    if (!(a = calloc(1, sizeof(*a) + strlen(upath) + 1)))
        return ENOMEM;
    a->member = member;
    a->below = upath;
    a->flags = flags;
    a->fn = fn;
    a->arg = arg;
    status = look(a, 0);
    if (status == 0)
        *ancestor = a;
    else
        free(a);
    return status;
}

void ancestor_stop(struct ancestor *a)
{
    check_drop(a);
    if (a->lookup)
        dht_node_cancel(a->member->dht, a->lookup);
    free(a);
}
