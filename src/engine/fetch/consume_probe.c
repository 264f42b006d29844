/*
 * consume_probe.c - a name that is not published: what says that it will come?
 *
 * That a node has it open for writing, or that a rank, which is not at its exit, has
 * published what differs from it in numbers only, as the files of a series do; and against
 * it, that a wait for one like it had to be ended already. All ranks are asked (listing.c).
 * That another rank made the directory says nothing: whole jobs work in directories that
 * one rank has made.
 *
 * It is asked of what the user's DYAD_PROBES match, and of waits of which the barrier may
 * have to end one (consume_wave.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/probes.h"
#include "engine/core/member.h"
#include "engine/fetch/consume_probe.h"
#include "engine/namespace/listing.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/proc.h"

#define RANKS_MAX  1024
#define FAILED_MAX 64

/* For how long it is asked again whether the asker may join. */
#define SOON_MAX   (5 * UTIL_NSEC_PER_SEC)
#define SOON_PAUSE 20000 /* ns, the first; each is longer by a quarter */

struct consume_probe {
    struct list_request *list;
    struct net_timer *again; /* NULL: none was needed */
    uint64_t until, pause;
    const char *upath; /* the guest's */
    uint64_t program;
    consume_probe_fn fn;
    void *arg;
    struct member *member;
    unsigned says;
    bool soon;                 /* whether it may be joined is about to be decided */
    uint32_t owner[RANKS_MAX]; /* of what is of its series */
    uint32_t gone[RANKS_MAX];  /* at their exit, perhaps one of the owners */
    unsigned owners, goners;
};

/* Last components of the names whose waits were ended, the last ones. */
struct consume_failed {
    char *name[FAILED_MAX];
    unsigned next;
};

static const char *last_component(const char *upath)
{
    const char *slash = strrchr(upath, '/');

    return slash ? slash + 1 : upath;
}

/* --- what has failed here --- */

void consume_failed_note(struct member *member, const char *upath)
{
    struct consume_failed *failed = OWN(member, consume_failed);

    if (consume_failed_like(member, last_component(upath)))
        return;
    free(failed->name[failed->next]);
    failed->name[failed->next] = strdup(last_component(upath));
    failed->next = (failed->next + 1) % FAILED_MAX;
}

bool consume_failed_like(const struct member *member, const char *name)
{
    const struct consume_failed *failed = OWN(member, consume_failed);

    for (unsigned i = 0; i < FAILED_MAX && failed->name[i]; i++) {
        if (strcmp(failed->name[i], name) == 0 || probes_is_series(failed->name[i], name))
            return true;
    }
    return false;
}

static void failed_destroy(struct member *member)
{
    for (unsigned i = 0; i < FAILED_MAX; i++)
        free(OWN(member, consume_failed)->name[i]);
}

const struct member_module consume_failed_module = {
    .own = MODULE_OWN(consume_failed),
    .destroy = failed_destroy,
};

/* --- what the ranks say --- */

static void note(uint32_t ranks[RANKS_MAX], unsigned *n, uint32_t rank)
{
    for (unsigned i = 0; i < *n; i++) {
        if (ranks[i] == rank)
            return;
    }
    if (*n < RANKS_MAX)
        ranks[(*n)++] = rank;
}

static void probe_page(void *arg, const void *names, size_t len)
{
    struct consume_probe *probe = arg;
    unsigned char type;
    const char *name;
    size_t at = 0;

    while ((name = net_list_next(names, len, &at, &type))) {
        uint32_t rank = (uint32_t)strtoul(name + 1, NULL, 10);
        probe->soon |= name[0] == 'a';
        if (name[0] == 'w' || name[0] == 'j' || name[0] == 'a')
            probe->says |= CONSUME_SAYS_WRITTEN | (name[0] == 'j' ? CONSUME_SAYS_JOINS : 0);
        else if (name[0] == 'f')
            probe->says |= CONSUME_SAYS_FAILED;
        else if (name[0] == 'o')
            note(probe->owner, &probe->owners, rank);
        else if (name[0] == 'x')
            note(probe->gone, &probe->goners, rank);
    }
}

/* The owners of names of the same series that are still at work, as CONSUME_SAYS_* bits.
 */
static unsigned series_of(const struct consume_probe *probe)
{
    unsigned says = 0;

    for (unsigned i = 0; i < probe->owners; i++) {
        bool at_work = dht_node_is_live(probe->member->dht, probe->owner[i]);
        for (unsigned g = 0; g < probe->goners; g++)
            at_work = at_work && probe->gone[g] != probe->owner[i];
        if (at_work)
            says |= probe->owner[i] == probe->member->self.rank ? CONSUME_SAYS_OWN_SERIES
                                                                : CONSUME_SAYS_SERIES;
    }
    return says;
}

static void probe_free(struct consume_probe *probe)
{
    if (probe->again)
        net_timer_destroy(probe->again);
    free(probe);
}

static void probe_end(struct consume_probe *probe, unsigned says)
{
    consume_probe_fn fn = probe->fn;
    void *arg = probe->arg;

    probe_free(probe);
    fn(arg, says);
}

static int probe_ask(struct consume_probe *probe);

static void ask_again(void *arg)
{
    struct consume_probe *probe = arg;

    if (probe_ask(probe) < 0)
        probe_end(probe, CONSUME_SAYS_UNKNOWN);
}

/* The other's open goes on by itself: at once as a rule, later if it has no core. If it was killed
 * in it that is as if it wrote. False: it has lasted too long. */
static bool ask_soon(struct consume_probe *probe)
{
    uint64_t now = util_clock_now();

    if (!probe->again &&
        !(probe->again = net_timer_create(probe->member->loop, ask_again, probe)))
        return false;
    if (probe->until == 0)
        probe->until = now + SOON_MAX;
    if (now >= probe->until)
        return false;
    probe->pause = probe->pause ? probe->pause + probe->pause / 4 : SOON_PAUSE;
    net_timer_start(probe->again, now + probe->pause);
    return true;
}

static void probe_done(void *arg, int status)
{
    struct consume_probe *probe = arg;
    unsigned says = probe->says | series_of(probe) | (status ? CONSUME_SAYS_UNKNOWN : 0);

    probe->list = NULL;
    if (!probe->soon || !ask_soon(probe))
        probe_end(probe, says);
}

static int probe_ask(struct consume_probe *probe)
{
    const char *name = last_component(probe->upath);
    char *dir =
        strndup(probe->upath, name == probe->upath ? 0 : (size_t)(name - 1 - probe->upath));

    probe->says = 0;
    probe->soon = false;
    probe->owners = probe->goners = 0;
    if (dir)
        probe->list = list_start(probe->member, dir, name, probe->program, probe_page,
                                 probe_done, probe);
    free(dir);
    return probe->list ? 0 : -1;
}

struct consume_probe *consume_probe_start(struct member *member, const char *upath,
                                          pid_t pid, consume_probe_fn fn, void *arg)
{
    struct consume_probe *probe = calloc(1, sizeof(*probe));

    if (probe) {
        probe->fn = fn;
        probe->arg = arg;
        probe->member = member;
        probe->upath = upath;
        probe->program = pid < 0 ? LIST_ANY_PROGRAM : pid > 0 ? util_proc_program(pid) : 0;
        if (probe_ask(probe) == 0)
            return probe;
    }
    free(probe);
    errno = ENOMEM;
    return NULL;
}

void consume_probe_cancel(struct consume_probe *probe)
{
    if (probe->list)
        list_cancel(probe->list);
    probe_free(probe);
}
