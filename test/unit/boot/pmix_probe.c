/*
 * pmix_probe.c - boot/pmix.h under a real launcher
 *
 * Usage: mpirun -n N pmix_probe MODE
 * - all: every rank joins, gets every blob, releases, gets one more (in a new session where
 *   the store allows it), ends
 * - absent: odd ranks do not join while the others look for them
 * - late: odd ranks join after the others have reported them absent: the blobs still come
 * - destroy: the ranks leave with Gets pending
 * - deaf: as "all"; the server does not hear what a rank asks first
 * - stopped: as "all"; the server does nothing for longer than a deaf one is waited for
 * - closed: as "all", with the ranks' first connections in vain; another session connects
 *
 * Ends with 0 if what is expected happened. All ranks print one line.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/fdtable.h"
#include "boot/pmix.h"
#include "pmix_proxy.h"
#include "util/clock.h"
#include "util/log.h"

/* How long a rank is looked for before it counts as absent. They look when all who join
 * have done so. */
#define ABSENT_AFTER (1000 * UTIL_NSEC_PER_MSEC)

extern char **environ;

static struct {
    const char *mode;
    struct net_loop *loop;
    struct boot_pmix *pmix;
    struct boot_identity self;
    struct net_timer *timer;
    uint32_t nranks, nnodes;
    uint32_t present, absent, wrong;
    bool again;
    bool leaves;  /* did not join, and does so to be let go by the launcher */
    bool refused; /* the next session will be */
    uint64_t start, ready, committed, all;
    int failed;
} probe;

static void text_of(uint32_t rank, char *text, size_t size)
{
    snprintf(
        text, size, "blob of rank %u, %.*s", rank, (int)(rank * 37 % 800),
        "--------------------------------------------------------------------------------");
}

static bool joins(uint32_t rank)
{
    return strcmp(probe.mode, "absent") != 0 || rank % 2 == 0;
}

/* What the ranks of mode "absent" wait for: how many have joined, how many of these have
 * left, and how many of the absent ones have joined at last. It ends with the test's time. In a file of the launcher's session directory, so
 * it goes with the job. */
struct together {
    _Atomic uint32_t joined, left, late;
};
static struct together *together;

static int together_open(void)
{
    const char *dir = getenv("PMIX_SERVER_TMPDIR"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    char path[PATH_MAX];
    int fd;

    if (!dir || !size ||
        (size_t)snprintf(path, sizeof(path), "%s/probe", dir) >= sizeof(path) ||
        (fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0)
        return -1;
    probe.nranks = (uint32_t)strtoul(size, NULL, 10);
    if (ftruncate(fd, sizeof(*together)) == 0)
        together = mmap(NULL, sizeof(*together), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return !together || together == MAP_FAILED ? -1 : 0;
}

static void together_count(_Atomic uint32_t *count)
{
    atomic_fetch_add(count, 1);
    syscall(SYS_futex, count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void together_await(_Atomic uint32_t *count, uint32_t n)
{
    uint32_t now;

    while ((now = atomic_load(count)) < n)
        syscall(SYS_futex, count, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void fail(const char *why)
{
    fprintf(stderr, "rank %u: %s\n", probe.self.rank, why);
    probe.failed = 1;
    net_loop_stop(probe.loop);
}

static void on_ready(void *arg, const struct boot_pmix_job *job, int error)
{
    char text[1024];

    (void)arg;
    probe.ready = util_clock_now();
    if (error && probe.refused) {
        probe.refused = false;
        net_loop_stop(probe.loop);
        return;
    }
    if (error || probe.refused) {
        errno = error;
        fail("not ready");
        return;
    }
    probe.nranks = job->nranks;
    probe.nnodes = job->nnodes;
    for (uint32_t r = 0; r < job->nranks; r++)
        if (job->node[r] >= job->nnodes)
            fail("node map");
    text_of(probe.self.rank, text, sizeof(text));
    if (boot_pmix_commit(probe.pmix, text, strlen(text)) < 0)
        fail("commit");
}

/* True if a Finalize must not come while another rank is in Init: about one of 1,000 of
 * these Inits gets no answer (boot/pmix_init.c), and with ds21 there is no second one. */
static bool leave_together(void)
{
    const char *store = getenv("PMIX_MCA_gds");

    return !store || strcmp(store, "hash") != 0;
}

static void ask_all(void)
{
    for (uint32_t r = 0; r < probe.nranks; r++)
        if (r != probe.self.rank && boot_pmix_get(probe.pmix, r, BOOT_PMIX_ANY) < 0)
            fail("get");
}

static void on_committed(void *arg, int status)
{
    (void)arg;
    probe.committed = util_clock_now();
    if (status) {
        fail("not committed");
        return;
    }
    if (probe.leaves) {
        together_count(&together->late);
        together_await(&together->late, probe.nranks / 2);
        net_loop_stop(probe.loop);
        return;
    }
    if (together) {
        together_count(&together->joined);
        together_await(&together->joined, probe.nranks - probe.nranks / 2);
    }
    ask_all();
    if (strcmp(probe.mode, "late") != 0) /* a session that has ended hears no more */
        boot_pmix_release(probe.pmix);
    if (probe.nranks == 1 || (strcmp(probe.mode, "destroy") == 0 && !leave_together()))
        net_loop_stop(probe.loop);
}

static void ask_again(void *arg)
{
    (void)arg;
    probe.again = true;
    if (boot_pmix_get(probe.pmix, (probe.self.rank + 2) % probe.nranks, BOOT_PMIX_ANY) < 0)
        fail("get again");
}

static void on_blob(void *arg, uint32_t rank, const void *blob, size_t len, bool kept,
                    int error)
{
    char text[1024];
    uint32_t expect_absent = 0;

    (void)arg;
    (void)kept;
    if (probe.again) {
        if (error)
            fail("the second session did not find the blob");
        net_loop_stop(probe.loop);
        return;
    }
    text_of(rank, text, sizeof(text));
    if (error)
        probe.absent++;
    else if (len != strlen(text) || memcmp(blob, text, len) != 0)
        probe.wrong++;
    else
        probe.present++;
    for (uint32_t r = 0; r < probe.nranks; r++)
        expect_absent += !joins(r);
    if (probe.wrong || (error && joins(rank) && strcmp(probe.mode, "late") != 0))
        fail("a blob is wrong or missing");
    if (probe.present == probe.nranks - 1 - expect_absent &&
        (probe.absent == expect_absent || strcmp(probe.mode, "late") == 0)) {
        probe.all = util_clock_now();
        if (strcmp(probe.mode, "destroy") == 0) { /* while all are asked again */
            ask_all();
            net_loop_stop(probe.loop);
        } else if (probe.nranks > 2 && strcmp(probe.mode, "late") != 0)
            net_timer_start(probe.timer, util_clock_now() + 50 * UTIL_NSEC_PER_MSEC);
        else
            net_loop_stop(probe.loop);
    }
}

static const struct boot_pmix_ops ops = {on_ready, on_committed, on_blob};

static double ms(uint64_t from, uint64_t to)
{
    return (double)(to - from) / 1e6;
}

/* Rank 0 stops the launcher of all for 5 s. */
static void stop_launcher(void)
{
    pid_t launcher = getppid();

    if (probe.self.rank == 0) {
        kill(launcher, SIGSTOP);
        if (fork() == 0) {
            sleep(5);
            kill(launcher, SIGCONT);
            _exit(0);
        }
    }
    usleep(300000);
}

/* A session, until it has said enough. 0, or an exit status. */
static int begin(uint64_t timeout)
{
    probe.start = util_clock_now();
    probe.pmix =
        boot_pmix_create(probe.loop, &probe.self, "test", timeout, timeout, &ops, NULL);
    if (!probe.pmix)
        return 4;
    return net_loop_run(probe.loop) < 0 ? 5 : 0;
}

int main(int argc, char **argv)
{
    const char *bad;
    uint64_t timeout = 20 * UTIL_NSEC_PER_SEC, leave;
    sigset_t all;
    int rc;

    probe.mode = argc > 1 ? argv[1] : "all";
    if (getenv("PROBE_DEBUG"))
        util_log_setup(UTIL_LOG_DEBUG, NULL, "probe");
    if (boot_identity_read(&probe.self, environ, &bad) < 0 || !probe.self.launched)
        return 2;
    if (strcmp(probe.mode, "absent") == 0 && together_open() < 0)
        return 7;
    if (!joins(probe.self.rank)) {
        /* mpirun kills a job in which one rank ends without PMIx_Init and others called it,
         * so begin a session at the end; not by PMIx_Init itself, which for ever waits for
         * a server that has not heard it (that is so for 1 of 100 here, after the Finalize
         * of the others). With hash, for only there may one ask again. */
        together_await(&together->left, probe.nranks - probe.nranks / 2);
        setenv("PMIX_MCA_gds", "hash", 1);
        probe.leaves = true;
    }
    if (strcmp(probe.mode, "deaf") == 0 && pmix_proxy_start(PROXY_DEAF) < 0)
        return 6;
    if (strcmp(probe.mode, "closed") == 0 && pmix_proxy_start(PROXY_CLOSES_FIRST) < 0)
        return 6;
    if (strcmp(probe.mode, "stopped") == 0)
        stop_launcher();
    if (strcmp(probe.mode, "absent") == 0)
        timeout = ABSENT_AFTER;
    if (strcmp(probe.mode, "late") == 0)
        timeout = 500 * UTIL_NSEC_PER_MSEC;
    if (strcmp(probe.mode, "late") == 0 && probe.self.rank % 2)
        usleep(1500000);
    boot_pmix_hold_ns =
        0; /* the worst for the server: Finalize and Init of all ranks overlap */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (!getenv("PROBE_SHARED_TABLE") && boot_fdtable_unshare(NULL, 0) < 0)
        return 3;
    if (!(probe.loop = net_loop_create()) ||
        !(probe.timer = net_timer_create(probe.loop, ask_again, NULL)))
        return 4;
    probe.refused = strcmp(probe.mode, "closed") == 0;
    if ((rc = begin(timeout)))
        return rc;
    if (strcmp(probe.mode, "closed") == 0 && !probe.failed) {
        boot_pmix_destroy(probe.pmix, BOOT_PMIX_END);
        if ((rc = begin(timeout)))
            return rc;
    }
    leave = util_clock_now();
    boot_pmix_destroy(probe.pmix, BOOT_PMIX_END);
    uint64_t end = util_clock_now();
    if (together && !probe.leaves)
        together_count(&together->left);
    printf(
        "rank %u of %u on %u nodes: present %u absent %u wrong %u; ready %.1f committed "
        "%.1f all "
        "%.1f ms; left in %.1f ms\n",
        probe.self.rank, probe.nranks, probe.nnodes, probe.present, probe.absent,
        probe.wrong, ms(probe.start, probe.ready), ms(probe.ready, probe.committed),
        probe.all ? ms(probe.committed, probe.all) : 0.0, ms(leave, end));
    if (ms(leave, end) > 6000)
        probe.failed = 1;
    net_timer_destroy(probe.timer);
    net_loop_destroy(probe.loop);
    return probe.failed;
}
