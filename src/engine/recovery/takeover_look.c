/*
 * takeover_look.c - what a look finds in the journals of a node: on a pool thread
 *
 * See takeover.c. While it goes on the loop's thread leaves alone what it reads and writes
 * of struct takeover: `answering`, `left`, `kept`, `renames`, `renames_unread`,
 * `neighbour`, `neighbour_fd` and `absent`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/member_claim.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/storage.h"
#include "engine/publish/produce.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_impl.h"
#include "store/fetch.h"
#include "util/log.h"

struct names {
    char **name;
    size_t n;
    const char *own;
};

static int names_add(const char *name, void *arg)
{
    struct names *names = arg;
    char **grown;

    if (strcmp(name, names->own) == 0)
        return 0;
    if (!(grown = realloc(names->name, (names->n + 1) * sizeof(*grown))))
        return ENOMEM;
    names->name = grown;
    if (!(grown[names->n] = strdup(name)))
        return ENOMEM;
    names->n++;
    return 0;
}

static int names_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pid_t peer_pid(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 ? cred.pid : 0;
}

/* Connect to the claim that a label of this node names: a descriptor; -1 ECONNREFUSED: no
 * process holds it; or another errno: that cannot be found out. */
static int label_connect(const struct takeover *a, const char *label)
{
    struct sockaddr_un address;
    socklen_t len;
    const char *node = storage_label_read(label, &address, &len);

    if (!node || strcmp(node, a->member->identity->node) != 0) {
        errno = EXDEV;
        return -1;
    }
    if (len == a->claim_len && memcmp(&address, &a->claim, len) == 0) {
        errno = ECONNREFUSED; /* it is ours, so whoever wrote this is not there */
        return -1;
    }
    return boot_member_claim_connect_now(&address, len); /* EAGAIN: it lives */
}

static void neighbour_take(struct takeover *a, int fd)
{
    if (fd < 0)
        return;
    if (a->neighbour_fd >= 0) {
        close(fd);
        return;
    }
    a->neighbour_fd = fd;
    a->neighbour = peer_pid(fd);
}

/* True if the journal's rank is dead. store_journal_open() asks when no process has the
 * journal open, and with its lock in hand. The rank is certainly dead if nobody holds its
 * claim, either, which the journal names (its label); a rank in the midst of exec holds
 * it. Since both are looked at under the lock, exactly one of several members who see a
 * death takes over; and a new member of that rank, should one come (boot/member_claim.h),
 * waits for the lock before it reads what is left for it. */
static bool is_left(const char *label, void *arg)
{
    struct takeover *a = arg;
    pid_t *grown;
    int fd;

    if (!label) /* its maker was killed before it could write anything into it */
        return false;
    if ((fd = label_connect(a, label)) < 0)
        return errno == ECONNREFUSED;
    if ((grown = realloc(a->absent, (a->nabsent + 1) * sizeof(*grown)))) {
        a->absent = grown;
        grown[a->nabsent++] = peer_pid(fd);
    }
    neighbour_take(a, fd);
    return false;
}

static int item_add(const struct store_record *record, void *arg)
{
    struct left *left = arg;

    left->items[left->nitems++].record = record;
    return 0;
}

/* --- what lies there --- */

/* A copy is nobody's to publish: what was done to it is not of interest. A directory is not
 * written. */
static enum found_as find_out(const struct takeover *a, struct member_dmd *dmd,
                              const struct store_record *record,
                              struct store_identity *identity)
{
    if (record->kind == STORE_RECORD_COPY || S_ISDIR(record->entry.mode))
        return local_file_still_there(dmd, record)              ? FOUND_SAME
               : store_dir_lacks(dmd->dir, record->entry.upath) ? FOUND_GONE
                                                                : FOUND_CHANGED;
    switch (local_file_left(dmd, record, identity)) {
    case LOCAL_FILE_SAME:
    case LOCAL_FILE_SUPERSEDED: /* the homes say so, and the record has to be in a journal until then */
        return FOUND_SAME;
    case LOCAL_FILE_GONE:
        return FOUND_GONE;
    case LOCAL_FILE_OTHER:
        return a->member->ring ? FOUND_LOST : FOUND_CHANGED;
    default:
        return FOUND_WRITTEN;
    }
}

/* True if `name` is the journal of that rank. */
static bool is_of(const struct takeover *a, const struct asked *asked, const char *name)
{
    char number[16];

    snprintf(number, sizeof(number), "%u", asked->rank);
    return strcmp(name + a->prefix_len, number) == 0;
}

/* What is looked for beside what its journal says. If that knows a newer version there is
 * no more to be found out. */
static void left_take(struct takeover *a, struct left *left, struct store_journal *journal)
{
    struct member_dmd *dmd = &a->member->dmd[left->role];
    const struct store_record *known;
    struct asked *asked;

    LL_FOREACH(a->answering, asked)
    {
        struct store_record *record = &asked->record;
        if (!is_of(a, asked, left->name) ||
            ((known = store_journal_find(journal, asked->upath)) &&
             dyad_version_cmp(&known->entry.version, &record->entry.version) > 0))
            continue;
        left->items[left->nitems++] =
            (struct item){.record = record,
                          .as = find_out(a, dmd, record, &record->identity),
                          .tries = asked->tries};
    }
}

static struct left *left_new(const struct takeover *a, enum engine_role role,
                             const char *name, size_t nitems)
{
    struct left *left = calloc(1, sizeof(*left));

    if (!left || !(left->name = strdup(name)) ||
        !(left->items = calloc(nitems, sizeof(*left->items)))) {
        if (left)
            free(left->name);
        free(left);
        log_error(
            "out of memory: the files of a dead rank, recorded in %s, are not served until "
            "another process joins on this node",
            name);
        return NULL;
    }
    left->role = role;
    left->rank = (uint32_t)strtoul(name + a->prefix_len, NULL, 10);
    return left;
}

/* `ntake`: so many are looked for. */
static struct left *left_create(struct takeover *a, enum engine_role role,
                                struct store_journal *journal, const char *name,
                                size_t ntake)
{
    struct member_dmd *s = &a->member->dmd[role];
    struct left *left = left_new(a, role, name, store_journal_count(journal) + ntake);
    size_t first;

    if (!left) {
        store_journal_destroy(journal);
        return NULL;
    }
    left->journal = journal;
    left_take(a, left, journal);
    first = left->nasked = left->nitems;
    store_journal_foreach(journal, item_add, left);
    for (size_t i = first; i < left->nitems; i++) {
        struct item *item = &left->items[i];
        item->as = find_out(a, s, item->record, NULL);
    }
    return left;
}

/* Of a rank whose journal is ours already, because ours cannot be written (`keep`). NULL:
 * it is not. */
static struct left *left_again(struct takeover *a, enum engine_role role, const char *name,
                               size_t ntake)
{
    struct left *kept, *left;

    DL_FOREACH(a->kept, kept)
    {
        if (!kept->journal || kept->role != role || strcmp(kept->name, name) != 0)
            continue;
        if ((left = left_new(a, role, name, ntake)))
            left_take(a, left, kept->journal);
        return left;
    }
    return NULL;
}

void takeover_left_free(struct left *left)
{
    store_journal_destroy(left->journal);
    free(left->items);
    free(left->name);
    free(left);
}

static void look_at(struct takeover *a, enum engine_role s, const char *name)
{
    struct member_dmd *dmd = &a->member->dmd[s];
    struct store_journal *journal = store_journal_open(dmd->dir, name, is_left, a);
    int why = journal ? 0 : errno;
    char label[DYAD_UPATH_MAX + 1];
    struct asked *asked;
    struct left *left;
    size_t ntake = 0;

    LL_FOREACH(a->answering, asked)
    {
        ntake += is_of(a, asked, name);
    }
    if (why == EBUSY && !a->watches && a->neighbour_fd < 0 &&
        store_journal_read_label(dmd->dir, name, label) == 0)
        neighbour_take(a, label_connect(a, label));
    if (!journal && (why != EBUSY || ntake == 0))
        return;
    if (journal && store_journal_count(journal) == 0 && ntake == 0) {
        store_journal_destroy(journal);
        return;
    }
    left =
        journal ? left_create(a, s, journal, name, ntake) : left_again(a, s, name, ntake);
    if (!left)
        return;
    if (left->nitems == 0)
        takeover_left_free(left);
    else
        DL_APPEND(a->left, left);
}

void takeover_look_work(void *arg)
{
    struct takeover *a = arg;
    char prefix[sizeof(a->name)];

    memcpy(prefix, a->name, a->prefix_len);
    prefix[a->prefix_len] = '\0';
    for (int s = 0; s < 2; s++) {
        struct names names = {.own = a->name};
        const struct store_dir *dir = a->member->dmd[s].dir;
        if (!dir || (s == 1 && dir == a->member->dmd[0].dir))
            continue;
        if (store_journal_list(dir, prefix, names_add, &names) != 0)
            log_warn("the journals below %s cannot be listed: %m", store_dir_path(dir));
        if (names.n > 0)
            qsort(names.name, names.n, sizeof(*names.name), names_order);
        for (size_t i = 0; i < names.n; i++) {
            look_at(a, (enum engine_role)s, names.name[i]);
            free(names.name[i]);
        }
        free(names.name);
        /* A process that was killed in the middle of a fetch has left its temporary file,
         * as large as the whole. A file that is in use has a lock. */
        if (names.n > 0)
            store_fetch_clean(dir, MEMBER_RESERVED_FOR);
        takeover_renames_look(a, (enum engine_role)s);
    }
}
