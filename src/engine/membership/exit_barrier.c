/*
 * exit_barrier.c - how a member's time ends, and how a wait does that nobody will end
 *
 * Each change here (a publish or a wait begins or ends, the program exits, a descendant
 * dies) is told to the barrier (boot/wave.h) as two bits and a counter. What the kernel
 * alone knows, whether the rank's processes can go on by themselves, is asked of /proc,
 * only while something waits, and once a second, but soon after each change: who waits for
 * one file after the other that nobody will write is not to be held up by this. A
 * descendant's death comes by its pidfd.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/procs.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/nested.h"
#include "engine/membership/servers.h"
#include "engine/membership/unreachable.h"
#include "util/clock.h"
#include "util/log.h"

#define LOOK_FIRST     (1 * UTIL_NSEC_PER_MSEC) /* after a change; then twice as long ... */
#define LOOK_AGAIN     (1 * UTIL_NSEC_PER_SEC)  /* ... up to this */
#define KICK_AFTER     5                        /* looks */
#define SAY_AFTER      (10 * UTIL_NSEC_PER_SEC) /* as waits (consume.c) */
#define LEAVE_SOON     (2 * UTIL_NSEC_PER_SEC)
#define LEAVE_EMPTY    (1 * UTIL_NSEC_PER_SEC) /* who all end at once need no hand-over */
#define BLOCKED_MAX    1024
#define DESCENDANT_MAX 64
#define THREADS_MAX    128

struct descendant {
    struct exit_barrier *linger;
    pid_t pid;
    int fd;
    struct net_watch *watch;
};

struct exit_barrier {
    struct member *member;
    struct net_timer *timer;
    struct net_post post;
    bool posted;
    bool exiting, leaving_soon, said;
    bool handed_over;  /* leaving has begun */
    bool in_script;    /* what started this process is of its rank, too */
    uint64_t since;    /* when it came to its exit */
    pid_t launcher;    /* our parent at the start */
    uint64_t leave_at; /* 0: by the barrier */
    uint64_t activity;
    uint32_t state; /* told last */
    unsigned looks;
    uint64_t pause; /* until the next one */
    struct descendant descendants[DESCENDANT_MAX];
};

static void exit_barrier_look(struct exit_barrier *l);

static void descendant_drop(struct descendant *d)
{
    net_watch_destroy(d->watch);
    close(d->fd);
    *d = (struct descendant){0};
}

static void descendant_died(void *arg, int fd, uint32_t events)
{
    struct descendant *d = arg;
    struct exit_barrier *l = d->linger;

    (void)fd;
    (void)events;
    descendant_drop(d);
    l->activity++;
    exit_barrier_look(l);
}

static void descendant_watch(struct exit_barrier *l, pid_t pid)
{
    struct descendant *empty = NULL;

    for (int i = 0; i < DESCENDANT_MAX; i++) {
        struct descendant *d = &l->descendants[i];
        if (d->pid == pid)
            return;
        if (d->pid == 0 && !empty)
            empty = d;
    }
    int fd = empty ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0)
        return; /* the look once a second will find it gone */
    empty->linger = l;
    empty->pid = pid;
    empty->fd = fd;
    if (!(empty->watch =
              net_loop_watch(l->member->loop, fd, EPOLLIN, descendant_died, empty))) {
        close(fd);
        *empty = (struct descendant){0};
    }
}

/* Live processes below us; while we are at exit their deaths are news. */
static size_t count_descendants(struct exit_barrier *l)
{
    pid_t pids[DESCENDANT_MAX];
    size_t n = boot_procs_descendants(getpid(), pids, DESCENDANT_MAX);

    if (l->exiting) {
        for (size_t i = 0; i < n && i < DESCENDANT_MAX; i++)
            descendant_watch(l, pids[i]);
    }
    return n;
}

/* The engine's threads, and those that PMIx made for it: each is called dyad-..., by
 * inheritance. What they do is not the program's doing. */
static size_t engine_threads(pid_t *tids, size_t max)
{
    char path[64], name[32];
    struct dirent *entry;
    DIR *dir = opendir("/proc/self/task");
    size_t n = 0;

    while (dir && n < max && (entry = readdir(dir))) {
        ssize_t len = -1;
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", entry->d_name);
        int fd = entry->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            len = read(fd, name, sizeof(name));
            close(fd);
        }
        if (len > 5 && memcmp(name, "dyad-", 5) == 0)
            tids[n++] = (pid_t)atoi(entry->d_name);
    }
    if (dir)
        closedir(dir);
    return n;
}

static bool rank_is_quiet(struct exit_barrier *l)
{
    struct boot_blocked blocked[BLOCKED_MAX];
    pid_t own[THREADS_MAX];
    size_t n = l->member->waits->blocked(l->member, blocked, BLOCKED_MAX);

    if (n > BLOCKED_MAX)
        n = BLOCKED_MAX;
    if (n == 0)
        return false;
    return boot_procs_quiet(getpid(), l->exiting, blocked, n, own,
                            engine_threads(own, THREADS_MAX));
}

static uint32_t present_state(struct exit_barrier *l, bool *look_again)
{
    size_t alive;

    *look_again = false;
    if (modules_pending(l->member))
        return 0; /* its end is told */
    if (!l->exiting) {
        *look_again = l->member->consumes != NULL;
        return rank_is_quiet(l) ? BOOT_WAVE_QUIET : 0;
    }
    if ((alive = count_descendants(l)) == 0)
        return BOOT_WAVE_QUIET | BOOT_WAVE_EXITING;
    *look_again = true;
    return rank_is_quiet(l) ? BOOT_WAVE_QUIET : 0;
}

/* --- what people are told --- */

/* One of a launch and node is enough. */
static bool is_first_of_node(struct member *member)
{
    for (uint32_t r = 0; r < member->self.rank; r++) {
        const struct net_peer *peer =
            dht_node_is_live(member->dht, r) ? net_worker_peer(member->worker, r) : NULL;
        if (peer && strcmp(peer->launch, member->self.launch) == 0 &&
            strcmp(peer->node, member->self.node) == 0)
            return false;
    }
    return true;
}

/* Who is at exit, too, only the root of the barrier could tell: named are those of other
 * launches, or, if there are none, of this one. */
static void name_others(struct member *member, char *to, size_t size)
{
    unsigned named = 0, more = 0;
    size_t used = 0;

    to[0] = '\0';
    for (int own = 0; own < 2 && named == 0; own++) {
        for (uint32_t r = 0; r < member->job->nranks; r++) {
            const struct net_peer *peer = r != member->self.rank &&
                                                  dht_node_is_live(member->dht, r) &&
                                                  !servers_is_one(member, r)
                                              ? net_worker_peer(member->worker, r)
                                              : NULL;
            if (!peer || (strcmp(peer->launch, member->self.launch) == 0) != (own == 1))
                continue;
            if (named == 3) {
                more++;
                continue;
            }
            used += (size_t)snprintf(to + used, size - used, "%s%s", named ? ", " : "",
                                     member_describe(member, r));
            named++;
        }
    }
    if (more)
        snprintf(to + used, size - used, " and %u more", more);
}

/* Whoever started it may wait for it, and see nothing. In a launch of its own that is the
 * launcher, which waits for all ranks. */
static void say_lingering(struct exit_barrier *l)
{
    struct member *member = l->member;
    char others[2048];

    if (l->said || util_clock_now() < l->since + SAY_AFTER)
        return;
    l->said = true;
    if (member->ring) {
        name_others(member, others, sizeof(others));
        util_log(
            is_first_of_node(member) ? UTIL_LOG_WARN : UTIL_LOG_INFO,
            "this program has ended, and its process goes on serving its files as long as "
            "others of the session run%s%s. Whoever waits for its end waits for theirs: "
            "DYAD_LINGER=0, or seconds, makes it leave, and so does SIGTERM, or `dyad-run "
            "--serve` on this node, which serves its files then",
            others[0] ? ": " : "", others);
    } else if (l->in_script) {
        log_warn(
            "the program of rank %u has ended, and its process goes on serving its files "
            "as long as other ranks of the job run; process %d, which started it, is of "
            "that rank, too, and may wait for it. If that is a script which is to go on, "
            "start the script itself with dyad-run",
            member->self.launch_rank, (int)l->launcher);
    } else {
        log_info(
            "the program of rank %u has ended, and its process goes on serving its files "
            "as long as other ranks of the job run",
            member->self.launch_rank);
    }
}

/* Who started this rank is dead, so the job is: its other ranks may be killed or stopped in
 * the midst of anything, and no barrier need come about. True: we leave. */
static bool orphaned(struct exit_barrier *l)
{
    struct member *member = l->member;

    if (!l->exiting) {
        if (member->consumes)
            member->waits->fail(member, false);
        return false;
    }
    log_warn(
        "the launcher of rank %u has gone: leaving without waiting for the other ranks",
        member->self.launch_rank);
    member_stop(member);
    return true;
}

/* Who is to leave soon after its program's end has what it was waiting for brought first.
 */
static bool must_stay(const struct exit_barrier *l, uint64_t now)
{
    struct member *member = l->member;

    return l->exiting && !l->leaving_soon && modules_urgent(member) &&
           now < l->since +
                     (uint64_t)(member->config->join_timeout * (double)UTIL_NSEC_PER_SEC);
}

/* Nobody can want anything of us, and our part of the table can be given away, which is so
 * in a session (session_member.c). In a launch the launcher waits for all ranks anyway. */
static bool nothing_to_serve(const struct exit_barrier *l, uint64_t now)
{
    const struct member *member = l->member;

    return member->ring && !l->leave_at && now >= l->since + LEAVE_EMPTY &&
           !dht_node_owns(member->dht);
}

static void exit_barrier_look(struct exit_barrier *l)
{
    struct member *member = l->member;
    uint64_t now = util_clock_now();
    bool look_again;
    uint32_t state;

    if (member->state == MEMBER_LEAVING || l->handed_over)
        return;
    if (l->leave_at && (now >= l->leave_at || (l->leaving_soon && !member->produces)) &&
        !must_stay(l, now)) {
        member_stop(member);
        return;
    }
    /* Where no launcher was, a shell that ends before what it started is nothing special.
     */
    if (!l->member->identity->solo && getppid() != l->launcher && orphaned(l))
        return;
    state = present_state(l, &look_again);
    if ((state & BOOT_WAVE_EXITING) && !l->leave_at &&
        (servers_serve_us(member) || nested_is_served(member))) {
        log_info("leaving: what is here is served by another process of this node");
        l->handed_over = true;
        member_stop(member);
        return;
    }
    if ((state & BOOT_WAVE_EXITING) && nothing_to_serve(l, now)) {
        log_info("leaving: nothing that is published is served by this process");
        member_stop(member);
        return;
    }
    /* Not while one of its processes fetches, perhaps from a rank that would leave for it.
     */
    if (member->ring && nested_has_inner(member) && member->waits->all_blocked(member))
        state |= BOOT_WAVE_OUTER;
    if ((state & BOOT_WAVE_EXITING) && l->in_script)
        state |= BOOT_WAVE_SCRIPT;
    if (state && member->wave && unreachable_missing(member, false) != DYAD_RANK_NONE)
        state |= BOOT_WAVE_MISSING;
    if (state != l->state)
        l->activity++;
    l->state = state;
    if (l->leave_at && l->leave_at - now < LOOK_AGAIN)
        net_timer_start(l->timer, l->leave_at);
    else if (look_again || state || l->leave_at)
        net_timer_start(l->timer, now + (state ? LOOK_AGAIN : l->pause));
    else
        net_timer_stop(l->timer);
    if (member->wave) /* last: its verdict may end everything */
        boot_wave_set(member->wave, state, l->activity);
}

static void suspect(void *arg, uint32_t rank)
{
    unreachable_suspect(arg, rank);
}

static void exit_barrier_tick(void *arg)
{
    struct exit_barrier *l = arg;
    struct member *member = l->member;

    exit_barrier_look(l);
    if (member->state != MEMBER_LEAVING && l->exiting && (l->state & BOOT_WAVE_EXITING))
        say_lingering(l);
    if (l->pause < LOOK_AGAIN && !l->state) {
        l->pause *= 2;
        return;
    }
    if (member->state == MEMBER_LEAVING || !member->wave || ++l->looks % KICK_AFTER != 0)
        return;
    boot_wave_kick(member->wave);
    /* A cut link is silent, as who is busy is. */
    if (member->state != MEMBER_LEAVING)
        boot_wave_neighbours(member->wave, suspect, member);
}

static void exit_barrier_posted(void *arg)
{
    struct exit_barrier *l = arg;

    l->posted = false;
    exit_barrier_look(l);
}

static void look_soon(struct exit_barrier *l)
{
    if (l->posted)
        return;
    l->posted = true;
    net_loop_post(l->member->loop, &l->post, exit_barrier_posted, l);
}

void exit_barrier_activity(struct member *member)
{
    struct exit_barrier *l = OWN(member, exit_barrier);

    if (!l->timer)
        return;
    l->activity++;
    l->pause = LOOK_FIRST;
    /* The barrier learns it now, not when the post below has come: a question that arrives
     * in between would be answered with what was true before. Busy, so no verdict can come
     * from inside; the look may find otherwise. */
    l->state = 0;
    if (member->wave)
        boot_wave_set(member->wave, 0, l->activity);
    look_soon(l);
}

void exit_barrier_look_soon(struct member *member)
{
    if (OWN(member, exit_barrier)->timer)
        look_soon(OWN(member, exit_barrier));
}

bool exit_barrier_may_leave(const struct member *member)
{
    const struct exit_barrier *l = OWN(member, exit_barrier);

    return l->exiting && (l->state & BOOT_WAVE_EXITING);
}

static void exit_barrier_begin(struct member *member)
{
    struct exit_barrier *l = OWN(member, exit_barrier);

    l->exiting = true;
    l->since = util_clock_now();
    l->in_script = boot_procs_same_rank(l->launcher, member->identity);
    if (member->config->linger >= 0)
        l->leave_at = util_clock_now() + 1 +
                      (uint64_t)(member->config->linger * (double)UTIL_NSEC_PER_SEC);
    l->activity++;
    look_soon(
        l); /* when every module has been told of the exit: what it has to do yet counts */
}

static void exit_barrier_leave_soon(struct member *member)
{
    struct exit_barrier *l = OWN(member, exit_barrier);

    if (!l->timer || member->state == MEMBER_JOINING) {
        member_stop(member);
        return;
    }
    l->leaving_soon = true;
    l->leave_at = util_clock_now() + LEAVE_SOON;
    look_soon(l);
}

static void exiting(struct member *member, bool soon)
{
    if (soon)
        exit_barrier_leave_soon(member);
    else
        exit_barrier_begin(member);
}

static int exit_barrier_start(struct member *member)
{
    struct exit_barrier *l = OWN(member, exit_barrier);

    l->member = member;
    l->launcher = getppid();
    l->pause = LOOK_AGAIN;
    l->timer = net_timer_create(member->loop, exit_barrier_tick, l);
    return l->timer ? 0 : -1;
}

static void exit_barrier_destroy(struct member *member)
{
    struct exit_barrier *l = OWN(member, exit_barrier);

    for (int i = 0; i < DESCENDANT_MAX; i++) {
        if (l->descendants[i].pid)
            descendant_drop(&l->descendants[i]);
    }
    net_timer_destroy(l->timer);
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    (void)rank;
    (void)change;
    exit_barrier_look_soon(member);
}

const struct member_module exit_barrier_module = {
    .own = MODULE_OWN(exit_barrier),
    .start = exit_barrier_start,
    .exiting = exiting,
    .rank_changed = rank_changed,
    .destroy = exit_barrier_destroy,
};
