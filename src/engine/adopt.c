/*
 * adopt.c - what the dead of this node have left: their files are served on, their copies
 * are checked
 *
 * A rank's journal says what it has published and fetched; it lies in the DMD, where every
 * member of the node sees it, and names the rank's claim (its label). A rank is certainly
 * dead if its journal is not open in any process, and nobody holds its claim. A rank in the
 * midst of exec holds it. Both are looked at with the journal's lock in hand, so of several
 * who see a death exactly one takes over, and a new member of that rank, should one come
 * (boot/claim.h), waits for the lock before it reads what is left for it.
 *
 * A look (on a pool thread) reads the journals of our session that are left alone and
 * compares each record with the disk. Then, on the loop, some records at a time:
 * - published there, and still that file: into our journal, and to the table with ourselves
 *   as the owner, version unchanged (dht_node_restore());
 * - published there, and removed (who removed it died before it said so): a tombstone
 *   (adopt_gone.c);
 * - changed, or being written: whoever writes it publishes it. A file whose writer was
 *   killed in the midst of it is lost: it stays dirty, and no version of it can be served;
 * - a copy: into our journal, and the homes are asked whether it is still the newest; that
 *   makes us a holder who is told. If it is not, it goes.
 * Only then is the journal emptied, in one step. Killed before that, somebody takes over
 * both journals, and finds the same; what is taken twice is taken once. The file itself
 * stays: it has the count of the rank's members.
 *
 * Withdrawals are not in a journal. The homes keep the tombstones; those of a dead rank are
 * lost if all homes of a name die after it. A record that was withdrawn is gone from the
 * journal, so nothing comes back to life.
 *
 * Who sees a death? Each member keeps a connection to the claim of one other of its node,
 * the first that lives: one of the two hears of it when the other goes. Members and
 * connections are one connected graph (who joins connects to one that is there, and who
 * has lost his neighbour connects to the first that lives), so among the neighbours of
 * whoever died is one who lives, if any does. A process's descriptors are closed before it
 * is dead: that is waited for (pidfd), and then looked.
 *
 * What the homes ask (INVALIDATE for what a dead or silent rank has left) is answered after
 * a look that began later. A rank in exec is dead to the homes, too: its outdated file is
 * removed, its journal left to it. So is that of a rank which lives, but does not answer
 * (stopped, or cut off from the homes): its journal is read as it is (outdated.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "boot/claim.h"
#include "engine/member_impl.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/crash.h"
#include "util/log.h"

/* Records taken at a time: ~1 ms of the loop. */
#define BATCH 256
/* Look-ups of copies under way. */
#define CHECKS 64
/* The homes are asked of a file that they do not know until they have said so for that
 * long, and so often at the least; the pauses double, up to MEMBER_ASK_AGAIN. */
#define CHECKS_UNKNOWN (10 * UTIL_NSEC_PER_SEC)
#define CHECKS_EACH    3
#define CHECKS_SOON    (50 * UTIL_NSEC_PER_MSEC)
/* What is to be asked again is looked for in all of them, at most once in this time. */
#define CHECKS_TICK (25 * UTIL_NSEC_PER_MSEC)
/* Between two questions that nobody could be asked. Those whose return would bring an
 * answer bring up the copy as well (revalidate.c). */
#define CHECKS_PAUSE_MAX (60 * UTIL_NSEC_PER_SEC)

enum found_as { FOUND_SAME, FOUND_GONE, FOUND_CHANGED };

struct item {
    const struct store_record *record; /* the journal's */
    enum found_as as;
};

/* The journal of a dead rank: ours, as long as we have it open. */
struct left {
    struct left *prev, *next; /* utlist */
    enum engine_side side;
    struct store_journal *journal;
    char *name;
    struct item *items;
    size_t nitems, at, files, copies, removed;
    bool keep; /* not all of it could be written to our own */
};

/* An INVALIDATE that waits for a look. */
struct asked {
    struct asked *next; /* utlist */
    struct dyad_entry newer;
    uint32_t rank; /* whose copy it may be */
    bool seen;     /* the look has found that one's journal */
    bool failed;   /* and could not read it: the home will ask another */
    uint64_t token;
    char upath[];
};

struct check {
    struct check *prev, *next; /* utlist */
    struct adopt *adopt;
    enum engine_side side;
    struct dyad_version version;
    struct dht_lookup *lookup;
    unsigned answers;
    uint64_t begun, pause, due;
    uint64_t unknown; /* since when the homes say that they do not know it; 0: they have not
                         been heard, or not the last time */
    char upath[];
};

/* Its process closed a connection: when it has ended, we look. */
struct dying {
    struct dying *prev, *next; /* utlist */
    struct adopt *adopt;
    pid_t pid;
    int fd;
    struct net_watch *watch;
};

enum phase { IDLE, LOOKING, TAKING, EMPTYING };

struct adopt {
    struct member *member;
    char name[256]; /* of our journal; what begins with prefix[prefix_len] is our session's
                     */
    size_t prefix_len;
    char claim[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* our own */
    enum phase phase;
    bool again; /* something happened since the look began */
    struct engine_io io;
    struct net_post post;
    struct asked *asked, *answering; /* since the look began; before it */
    struct left *left;               /* being taken over: the first */
    struct left *kept;               /* locked for as long as we live: `keep` */
    /* The look's: whom to watch. */
    bool watches; /* `fd` is open: no other is looked for */
    int neighbour_fd;
    pid_t neighbour;
    pid_t *absent; /* hold their claim, but no journal */
    size_t nabsent;
    /* The connection, and who is at its other end. */
    int fd;
    pid_t pid;
    struct net_watch *watch;
    struct dying *dying;
    struct check *checks, *asking,
        *later; /* not begun; look-up is out; to be asked again */
    unsigned nasking;
    struct net_timer *timer; /* runs if there is something in `later` */
    uint64_t later_due;      /* when it does */
};

static void look_start(struct adopt *a);

/* --- on a pool thread: the look --- */

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

/* Connect to the claim that a label of this node names: a descriptor; -1 ECONNREFUSED:
 * nobody holds it; or another errno: that cannot be told. */
static int label_connect(const struct adopt *a, const char *label)
{
    const char *node = strchr(label, ' ');
    struct sockaddr_un address;
    char claim[sizeof(address.sun_path)];
    socklen_t len;

    if (!node || (size_t)(node - label) >= sizeof(claim) ||
        strcmp(node + 1, a->member->identity->node) != 0) {
        errno = EXDEV;
        return -1;
    }
    memcpy(claim, label, (size_t)(node - label));
    claim[node - label] = '\0';
    if (strcmp(claim, a->claim) == 0) { /* it is ours, so whoever wrote this is not there */
        errno = ECONNREFUSED;
        return -1;
    }
    if (!(len = boot_claim_named(claim, &address))) {
        errno = EINVAL;
        return -1;
    }
    return boot_claim_connect(&address, len);
}

static void neighbour_take(struct adopt *a, int fd)
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

/* store_journal_open(): nobody has it open. Is its rank dead? */
static bool is_left(const char *label, void *arg)
{
    struct adopt *a = arg;
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

static bool is_absent(const char *label, void *arg)
{
    int fd = label ? label_connect(arg, label) : -1;

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int item_add(const struct store_record *record, void *arg)
{
    struct left *left = arg;

    left->items[left->nitems++].record = record;
    return 0;
}

static struct left *left_create(struct adopt *a, enum engine_side side,
                                struct store_journal *journal, const char *name)
{
    struct member_side *s = &a->member->side[side];
    struct left *left = calloc(1, sizeof(*left));
    struct stat st;

    if (!left || !(left->name = strdup(name)) ||
        !(left->items = calloc(store_journal_count(journal), sizeof(*left->items)))) {
        if (left)
            free(left->name);
        free(left);
        store_journal_destroy(journal);
        log_error(
            "out of memory: the files of a dead rank, recorded in %s, are not served until "
            "another process joins on this node",
            name);
        return NULL;
    }
    left->side = side;
    left->journal = journal;
    store_journal_foreach(journal, item_add, left);
    for (size_t i = 0; i < left->nitems; i++) {
        struct item *item = &left->items[i];
        if (produce_still_there(s, item->record))
            item->as = FOUND_SAME;
        else if (store_dir_stat(s->dir, item->record->entry.upath, &st) < 0 &&
                 (errno == ENOENT || errno == ENOTDIR))
            item->as = FOUND_GONE;
        else
            item->as = FOUND_CHANGED;
    }
    return left;
}

static void left_free(struct left *left)
{
    store_journal_destroy(left->journal);
    free(left->items);
    free(left->name);
    free(left);
}

/* Is it the journal of the rank that does not answer? */
static bool is_of(const struct adopt *a, const struct asked *asked, const char *name)
{
    char number[16];

    snprintf(number, sizeof(number), "%u", asked->rank);
    return strcmp(name + a->prefix_len, number) == 0;
}

/* The rank is in exec; its new member finds its record without a file. */
static void discard_absent(struct adopt *a, struct member_side *side, const char *name)
{
    struct store_journal *journal = store_journal_open(side->dir, name, is_absent, a);
    const struct store_record *record;
    struct asked *asked;

    if (!journal)
        return;
    LL_FOREACH(a->answering, asked)
    {
        if ((record = store_journal_find(journal, asked->upath)))
            outdated_discard(side, &asked->newer, asked->rank, record);
    }
    store_journal_destroy(journal);
}

/* The journal is that of a process which lives, and does not answer the homes. */
static void discard_beside(struct adopt *a, struct member_side *side, const char *name)
{
    struct store_look *looks;
    struct asked *asked;
    size_t n = 0;

    LL_FOREACH(a->answering, asked)
    {
        n += is_of(a, asked, name);
    }
    if (n == 0)
        return;
    looks = calloc(n, sizeof(*looks));
    n = 0;
    LL_FOREACH(a->answering, asked)
    {
        if (looks && is_of(a, asked, name))
            looks[n++] = (struct store_look){.upath = asked->upath, .arg = asked};
    }
    if (!looks || (store_journal_look(side->dir, name, looks, n) < 0 && errno != ENOENT)) {
        log_error("journal %s of %s, which is in use, cannot be read: %m", name,
                  store_dir_path(side->dir));
        LL_FOREACH(a->answering, asked)
        {
            asked->failed |= is_of(a, asked, name);
        }
        n = 0; /* what was read of it may not be all */
    }
    for (size_t i = 0; i < n; i++) {
        asked = looks[i].arg;
        if (looks[i].found)
            outdated_discard(side, &asked->newer, asked->rank, &looks[i].record);
    }
    free(looks);
}

static void look_at(struct adopt *a, enum engine_side s, const char *name)
{
    struct member_side *side = &a->member->side[s];
    struct store_journal *journal = store_journal_open(side->dir, name, is_left, a);
    int why = journal ? 0 : errno;
    char label[DYAD_UPATH_MAX + 1];
    struct asked *asked;
    struct left *left;

    LL_FOREACH(a->answering, asked)
    {
        asked->seen |= is_of(a, asked, name);
    }
    if (why == EBUSY && !a->watches && a->neighbour_fd < 0 &&
        store_journal_read_label(side->dir, name, label) == 0)
        neighbour_take(a, label_connect(a, label));
    if (why == EBUSY)
        discard_beside(a, side, name);
    if (why == ECANCELED && a->answering)
        discard_absent(a, side, name);
    if (!journal)
        return;
    if (store_journal_count(journal) == 0)
        store_journal_destroy(journal);
    else if ((left = left_create(a, s, journal, name)))
        DL_APPEND(a->left, left);
}

static void look_work(void *arg)
{
    struct adopt *a = arg;
    char prefix[sizeof(a->name)];

    memcpy(prefix, a->name, a->prefix_len);
    prefix[a->prefix_len] = '\0';
    for (int s = 0; s < 2; s++) {
        struct names names = {.own = a->name};
        const struct store_dir *dir = a->member->side[s].dir;
        if (!dir || (s == 1 && dir == a->member->side[0].dir))
            continue;
        if (store_journal_list(dir, prefix, names_add, &names) != 0)
            log_warn("the journals below %s cannot be listed: %m", store_dir_path(dir));
        if (names.n > 0)
            qsort(names.name, names.n, sizeof(*names.name), names_order);
        for (size_t i = 0; i < names.n; i++) {
            look_at(a, (enum engine_side)s, names.name[i]);
            free(names.name[i]);
        }
        free(names.name);
    }
}

/* --- whom we watch --- */

static void dying_free(struct dying *dying)
{
    DL_DELETE(dying->adopt->dying, dying);
    if (dying->watch)
        net_watch_destroy(dying->watch);
    if (dying->fd >= 0)
        close(dying->fd);
    free(dying);
}

static void process_ended(void *arg, int fd, uint32_t events)
{
    struct dying *dying = arg;
    struct adopt *a = dying->adopt;

    (void)fd;
    (void)events;
    dying_free(dying);
    adopt_look(a->member);
}

void adopt_watch(struct member *member, pid_t pid)
{
    struct adopt *a = member->adopt;
    struct dying *dying;

    if (!a || pid <= 0 || pid == getpid())
        return;
    DL_FOREACH(a->dying, dying)
    {
        if (dying->pid == pid)
            return;
    }
    if (!(dying = calloc(1, sizeof(*dying))))
        return;
    dying->adopt = a;
    dying->pid = pid;
    dying->fd = (int)syscall(SYS_pidfd_open, pid, 0);
    DL_APPEND(a->dying, dying);
    if (dying->fd >= 0 && (dying->watch = net_loop_watch(member->loop, dying->fd, EPOLLIN,
                                                         process_ended, dying)))
        return;
    dying_free(dying);
    adopt_look(member); /* ended by now */
}

static void unwatch(struct adopt *a)
{
    if (a->watch)
        net_watch_destroy(a->watch);
    a->watch = NULL;
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

/* It has ended, or is about to, or its member leaves by exec: we need another neighbour. */
static void neighbour_gone(void *arg, int fd, uint32_t events)
{
    struct adopt *a = arg;
    pid_t pid = a->pid;

    (void)fd;
    (void)events;
    unwatch(a);
    adopt_watch(a->member, pid);
    adopt_look(a->member);
}

static void watch_found(struct adopt *a)
{
    if (a->neighbour_fd >= 0 && a->fd < 0) {
        a->fd = a->neighbour_fd;
        a->pid = a->neighbour;
        a->watch =
            net_loop_watch(a->member->loop, a->fd, EPOLLIN | EPOLLRDHUP, neighbour_gone, a);
        if (!a->watch)
            unwatch(a);
    } else if (a->neighbour_fd >= 0) {
        close(a->neighbour_fd);
    }
    a->neighbour_fd = -1;
    for (size_t i = 0; i < a->nabsent; i++)
        adopt_watch(a->member, a->absent[i]);
    a->nabsent = 0;
}

/* --- copies --- */

static void checks_next(struct adopt *a);

static bool check_is_due(const struct check *c)
{
    struct store_journal *journal = c->adopt->member->side[c->side].journal;
    const struct store_record *record = store_journal_find(journal, c->upath);

    return record && record->kind == STORE_RECORD_COPY &&
           dyad_version_cmp(&record->entry.version, &c->version) == 0;
}

static void checks_set_timer(struct adopt *a, const struct check *c)
{
    if (c->due >= a->later_due)
        return;
    a->later_due = c->due;
    net_timer_start(a->timer, c->due);
}

static void check_later(void *arg)
{
    struct adopt *a = arg;
    uint64_t now = util_clock_now();
    struct check *c, *tmp;

    a->later_due = UINT64_MAX;
    DL_FOREACH_SAFE(a->later, c, tmp)
    {
        if (c->due > now) {
            checks_set_timer(a, c);
            continue;
        }
        DL_DELETE(a->later, c);
        DL_APPEND(a->checks, c);
    }
    checks_next(a);
    first_look_step(a->member);
}

/* Its owner may be on its way, too: all who know of it may have left at once, and a launch
 * that joins as a whole has a copy's home up before the owner has restored the file. If
 * homes cannot be reached it is asked for on, ever less often once the first look does not
 * wait for it any more (first_look.c). */
static void check_put_off(struct check *c, bool unreachable)
{
    struct adopt *a = c->adopt;
    uint64_t now = util_clock_now();
    uint64_t bound =
        seconds_ns(a->member->config->join_timeout) + seconds_ns(ADOPT_UNKNOWN_BOUND);

    if (!unreachable) {
        c->pause = c->pause ? 2 * c->pause : CHECKS_SOON;
        if (c->pause > seconds_ns(MEMBER_ASK_AGAIN))
            c->pause = seconds_ns(MEMBER_ASK_AGAIN);
    } else if (c->pause < seconds_ns(MEMBER_ASK_AGAIN)) {
        c->pause = seconds_ns(MEMBER_ASK_AGAIN);
    } else if (now - c->begun > bound) {
        c->pause = 2 * c->pause < CHECKS_PAUSE_MAX ? 2 * c->pause : CHECKS_PAUSE_MAX;
    }
    c->due = now + c->pause;
    if (!unreachable && now < c->unknown + CHECKS_UNKNOWN &&
        c->due > c->unknown + CHECKS_UNKNOWN)
        c->due = c->unknown + CHECKS_UNKNOWN;
    c->due += CHECKS_TICK - c->due % CHECKS_TICK;
    DL_APPEND(a->later, c);
    checks_set_timer(a, c);
}

/* The homes were asked, and do not know it, or not this version: is that the last word?
 * That nobody could be asked is no answer. */
static bool check_asks_on(struct check *c, bool unreachable)
{
    uint64_t now = util_clock_now();

    if (unreachable) {
        c->unknown = 0;
        c->answers = 0;
        return true;
    }
    if (!c->unknown) {
        c->unknown = now;
        c->pause = 0;
    }
    return ++c->answers < CHECKS_EACH || now < c->unknown + CHECKS_UNKNOWN;
}

static void checked(void *arg, int status, const struct dyad_entry *entry)
{
    struct check *c = arg;
    struct adopt *a = c->adopt;
    struct dyad_entry unknown = {
        .upath = c->upath, .state = DYAD_ENTRY_WITHDRAWN, .version = c->version};
    /* An older one is what homes say that have not heard of it again yet. */
    bool known = (status == 0 && dyad_version_cmp(&entry->version, &c->version) >= 0) ||
                 (entry && entry->state == DYAD_ENTRY_WITHDRAWN);

    c->lookup = NULL;
    a->nasking--;
    DL_DELETE(a->asking, c);
    if (!known && check_asks_on(c, status == EHOSTUNREACH) && check_is_due(c)) {
        check_put_off(c, status == EHOSTUNREACH);
    } else {
        unknown.version.incarnation++;
        /* The file that nobody knows of: nobody would tell us of the next version. */
        if (check_is_due(c) &&
            !(status == 0 && dyad_version_cmp(&entry->version, &c->version) == 0))
            produce_invalidate(a->member,
                               known && dyad_version_cmp(&entry->version, &c->version) > 0
                                   ? entry
                                   : &unknown,
                               0);
        free(c);
    }
    checks_next(a);
    if (!a->checks && !a->asking)
        linger_activity(a->member);
    first_look_step(a->member);
}

static void checks_next(struct adopt *a)
{
    struct check *c;

    while (a->nasking < CHECKS && (c = a->checks)) {
        DL_DELETE(a->checks, c);
        c->lookup = check_is_due(c) ? dht_node_lookup(a->member->dht, c->upath,
                                                      NET_LOOKUP_COPY, NULL, checked, c)
                                    : NULL;
        if (!c->lookup) { /* not ours any more; or no memory: it is as it was */
            free(c);
            continue;
        }
        a->nasking++;
        DL_APPEND(a->asking, c);
    }
}

static struct adopt *adopt_get(struct member *member);

void adopt_check_copy(struct member *member, enum engine_side side,
                      const struct store_record *record)
{
    struct adopt *a = adopt_get(member);
    struct check *c = a ? calloc(1, sizeof(*c) + strlen(record->entry.upath) + 1) : NULL;

    if (!c) {
        log_error("out of memory: \"%s\" is not compared with what is published",
                  record->entry.upath);
        return;
    }
    c->adopt = a;
    c->side = side;
    c->version = record->entry.version;
    c->begun = util_clock_now();
    strcpy(c->upath, record->entry.upath);
    DL_APPEND(a->checks, c);
    checks_next(a);
}

/* --- on the loop: what was found --- */

/* Into our journal, with ourselves as the owner. */
static void take_record(struct adopt *a, struct left *left,
                        const struct store_record *found)
{
    struct member *member = a->member;
    struct store_record record = *found;

    if (record.kind == STORE_RECORD_ORIGINAL)
        record.entry.owner = member->self.rank;
    if (store_journal_put(member->side[left->side].journal, &record) < 0)
        left->keep = true; /* was logged */
    DYAD_CRASH_POINT("adopt-put");
    if (record.kind == STORE_RECORD_COPY) {
        adopt_check_copy(member, left->side, &record);
        left->copies++;
        return;
    }
    if (dht_node_restore(member->dht, &record.entry) < 0)
        log_error("out of memory: \"%s\" is not published again", record.entry.upath);
    if (S_ISDIR(record.entry.mode))
        dirs_restored(member, left->side, &record);
    left->files++;
}

static void take_item(struct adopt *a, struct left *left, const struct item *item)
{
    const struct store_record *found = item->record, *own;

    own = store_journal_find(a->member->side[left->side].journal, found->entry.upath);
    if ((own && dyad_version_cmp(&own->entry.version, &found->entry.version) >= 0) ||
        produce_pending(a->member, found->entry.upath))
        return;
    if (item->as == FOUND_SAME) {
        take_record(a, left, found);
    } else if (item->as == FOUND_GONE && found->kind == STORE_RECORD_ORIGINAL) {
        adopt_gone_add(a->member, left->side, found);
        left->removed++;
    } else {
        log_debug("\"%s\", which a dead rank of this node had, was changed since",
                  found->entry.upath);
    }
}

static void take_some(void *arg);

static void look_end(struct adopt *a)
{
    struct asked *asked, *tmp, *answering = a->answering;

    a->answering = NULL;
    LL_FOREACH_SAFE(answering, asked, tmp)
    {
        if (!asked->seen)
            dht_node_unseen(a->member->dht, asked->token);
        produce_invalidate(a->member, &asked->newer, asked->failed ? 0 : asked->token);
        free(asked);
    }
    linger_activity(a->member);
    a->phase = IDLE; /* not before: what is asked for from inside is the next look */
    first_look_read(a->member);
    if (a->again || a->asked)
        look_start(a);
    first_look_step(a->member);
}

static void empty_work(void *arg)
{
    struct adopt *a = arg;
    struct left *left = a->left;

    if (store_journal_clear(left->journal) < 0)
        log_warn("journal %s, which was taken over, cannot be emptied: %m", left->name);
    DYAD_CRASH_POINT("adopt-emptied");
}

static void take_next(struct adopt *a)
{
    if (!a->left) {
        look_end(a);
        return;
    }
    a->phase = TAKING;
    net_loop_post(a->member->loop, &a->post, take_some, a);
}

static void empty_done(void *arg)
{
    struct adopt *a = arg;
    struct left *left = a->left;

    DL_DELETE(a->left, left);
    left_free(left);
    take_next(a);
}

static void take_some(void *arg)
{
    struct adopt *a = arg;
    struct left *left = a->left;

    for (int i = 0; i < BATCH && left->at < left->nitems; i++)
        take_item(a, left, &left->items[left->at++]);
    if (left->at < left->nitems) {
        net_loop_post(a->member->loop, &a->post, take_some, a);
        return;
    }
    DYAD_CRASH_POINT("adopt-taken");
    log_info(
        "a rank of this node is dead: of what it left (journal %s) this one serves %zu "
        "files and keeps %zu copies; %zu had been removed",
        left->name, left->files, left->copies, left->removed);
    if (left->keep) {
        DL_DELETE(a->left, left);
        DL_APPEND(a->kept, left);
        take_next(a);
        return;
    }
    a->phase = EMPTYING;
    engine_io_submit(a->member->io, &a->io, empty_work, empty_done, a);
}

static void look_done(void *arg)
{
    struct adopt *a = arg;

    watch_found(a); /* may ask for another look: the next, and not beside this one */
    DYAD_CRASH_POINT("adopt-begin");
    take_next(a);
}

static void look_start(struct adopt *a)
{
    a->again = false;
    a->watches = a->fd >= 0; /* if it ends meanwhile there is another look */
    a->phase = LOOKING;
    a->answering = a->asked;
    a->asked = NULL;
    linger_activity(a->member);
    engine_io_submit(a->member->io, &a->io, look_work, look_done, a);
}

/* --- the member's side --- */

static struct adopt *adopt_get(struct member *member)
{
    struct adopt *a = member->adopt;
    struct sockaddr_un address;
    socklen_t len;
    const char *dot;

    if (a)
        return a;
    if (!(a = calloc(1, sizeof(*a))) ||
        !(a->timer = net_timer_create(member->loop, check_later, a))) {
        free(a);
        return NULL;
    }
    a->member = member;
    a->fd = a->neighbour_fd = -1;
    a->later_due = UINT64_MAX;
    member_sides_journal_name(member, a->name, sizeof(a->name));
    dot = strrchr(a->name, '.');
    a->prefix_len = dot ? (size_t)(dot + 1 - a->name) : strlen(a->name);
    len = boot_claim_address(member->identity, member->config->kvs_namespace, &address);
    boot_claim_name(&address, len, a->claim);
    member->adopt = a;
    return a;
}

void adopt_look(struct member *member)
{
    struct adopt *a;

    if ((member->state != MEMBER_JOINED && member->state != MEMBER_EXITING) ||
        !(a = adopt_get(member)))
        return;
    if (a->phase != IDLE)
        a->again = true;
    else
        look_start(a);
}

void adopt_invalidate_left(void *arg, const struct dyad_entry *newer, uint32_t rank,
                           uint64_t token)
{
    struct member *member = arg;
    struct adopt *a = adopt_get(member);
    size_t len = strlen(newer->upath);
    struct asked *asked = a ? calloc(1, sizeof(*asked) + len + 1) : NULL;

    if (!asked) {
        log_error("out of memory: an outdated copy of \"%s\" may stay on this node",
                  newer->upath);
        return; /* no answer: the home will find this rank silent */
    }
    asked->newer = *newer;
    asked->newer.upath = memcpy(asked->upath, newer->upath, len + 1);
    asked->rank = rank;
    asked->token = token;
    LL_APPEND(a->asked, asked);
    adopt_look(member);
}

bool adopt_looking(const struct member *member)
{
    return member->adopt && member->adopt->phase != IDLE;
}

bool adopt_undecided(const struct member *member, const char *upath)
{
    const struct adopt *a = member->adopt;
    const struct check *c;

    if (!a || !upath)
        return a && (a->phase != IDLE || a->checks || a->asking || a->later);
    if (a->phase != IDLE)
        return true;
    const struct check *const lists[] = {a->checks, a->asking, a->later};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        DL_FOREACH(lists[i], c)
        {
            if (strcmp(c->upath, upath) == 0)
                return true;
        }
    }
    return false;
}

void adopt_hurry(struct member *member, const char *upath)
{
    struct adopt *a = member->adopt;
    struct check *c, *tmp;

    if (!a)
        return;
    DL_FOREACH_SAFE(a->checks, c, tmp)
    {
        if (strcmp(c->upath, upath) != 0)
            continue;
        DL_DELETE(a->checks, c);
        DL_PREPEND(a->checks, c);
        return;
    }
    DL_FOREACH(a->later, c)
    {
        if (strcmp(c->upath, upath) != 0)
            continue;
        c->due = util_clock_now(); /* by the timer: here somebody is in the midst of it */
        checks_set_timer(a, c);
        return;
    }
}

bool adopt_pending(struct member *member)
{
    const struct adopt *a = member->adopt;

    return a && (a->phase != IDLE || a->checks || a->asking || adopt_gone_pending(member));
}

static void lefts_free(struct left *list)
{
    struct left *left, *tmp;

    DL_FOREACH_SAFE(list, left, tmp)
    {
        left_free(left);
    }
}

static void checks_free(struct adopt *a, struct check *list)
{
    struct check *c, *tmp;

    DL_FOREACH_SAFE(list, c, tmp)
    {
        if (c->lookup)
            dht_node_cancel(a->member->dht, c->lookup);
        free(c);
    }
}

static void asked_free(struct asked *list)
{
    struct asked *asked, *tmp;

    LL_FOREACH_SAFE(list, asked, tmp)
    {
        free(asked);
    }
}

void adopt_stop(struct member *member)
{
    struct adopt *a = member->adopt;

    adopt_gone_stop(member);
    if (!a)
        return;
    unwatch(a);
    if (a->neighbour_fd >= 0)
        close(a->neighbour_fd);
    while (a->dying)
        dying_free(a->dying);
    checks_free(a, a->checks);
    checks_free(a, a->asking);
    checks_free(a, a->later);
    asked_free(a->asked);
    asked_free(a->answering);
    lefts_free(a->left);
    lefts_free(a->kept);
    free(a->absent);
    net_timer_destroy(a->timer);
    free(a);
    member->adopt = NULL;
}
