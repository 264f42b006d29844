/*
 * test_guest.c - a long answer to a slow reader: all of it arrives, and what waits in
 * memory is moved once for each byte, not once for each send
 *
 * guest.c with a real loop and a real socket; the requests and the join are the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <endian.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "boot/member_claim.h"
#include "engine/core/member.h"
#include "engine/requests/guest.h"

#define PAGE   60000
#define PAGES  600 /* 36 MB */
#define AHEAD  100 /* that are queued at once; the others as these leave */
#define SERIAL 8

static struct member member_made;
static struct member *const member = &member_made;
static size_t moved, queued;
static char page[PAGE];
static struct net_timer *turn;
static struct guest *asker;
static sem_t may_read; /* as much as a page of the answer */

void *__real_memmove(void *to, const void *from, size_t len);
void *__wrap_memmove(void *to, const void *from, size_t len);

void *__wrap_memmove(void *to, const void *from, size_t len)
{
    moved += len;
    return __real_memmove(to, from, len);
}

pid_t boot_member_claim_peer(int fd)
{
    (void)fd;
    return getpid();
}

void member_when_joined(struct member *m, struct member_joined *wait,
                        void (*fn)(void *arg, int error), void *arg)
{
    (void)m;
    (void)wait;
    fn(arg, 0);
}

static void queue_page(struct guest *guest)
{
    struct net_msg msg = {
        .type = NET_MSG_DUMP_REPLY, .flags = NET_DUMP_MORE, .blob = page, .blob_len = PAGE};
    char serial[SERIAL + 1];

    snprintf(serial, sizeof(serial), "%0*zu", SERIAL, queued);
    memcpy(page, serial, SERIAL);
    assert_int_equal(guest_page(guest, &msg), 0);
    queued++;
}

/* One more, for one that may leave: AHEAD of them wait all the time. */
static void queue_more(void *arg)
{
    struct net_msg done = {.type = NET_MSG_DONE, .entry = {.upath = "f"}};

    (void)arg;
    if (queued < PAGES) {
        queue_page(asker);
        sem_post(&may_read);
        net_timer_start(turn, 0);
        return;
    }
    guest_answer(asker, &done);
    for (int i = 0; i < 2 * PAGES; i++)
        sem_post(&may_read);
}

static void serve(struct guest *guest, int error)
{
    assert_int_equal(error, 0);
    assert_int_equal(guest->msg.type, NET_MSG_GUEST_DUMP);
    while (queued < AHEAD)
        queue_page(guest);
    asker = guest;
    net_timer_start(turn, 0);
}

static void cancel(struct guest *guest)
{
    (void)guest;
}

static void unasked(struct member *m, pid_t pid)
{
    (void)m;
    (void)pid;
}

static void end_loop(void *arg)
{
    net_loop_stop(arg);
}

static void read_all(int fd, char *to, size_t len)
{
    static size_t allowed;

    while (len > 0) {
        while (allowed == 0 && sem_wait(&may_read) == 0)
            allowed = PAGE;
        ssize_t n = recv(fd, to, len < allowed ? len : allowed, 0);
        assert_true(n > 0);
        allowed -= (size_t)n;
        to += n;
        len -= (size_t)n;
    }
}

static size_t npages; /* that the reader has seen */

/* The process that asked: its answers come in the order in which they were queued. */
static void *reader(void *arg)
{
    static char frame[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX];
    static struct net_post over;
    struct net_msg msg = {.type = NET_MSG_GUEST_DUMP, .rank = DYAD_RANK_NONE};
    int fd = *(int *)arg, n = net_msg_encode(&msg, frame + 4, sizeof(frame) - 4);
    uint32_t len = htole32((uint32_t)n);
    char serial[SERIAL + 1];

    memcpy(frame, &len, 4);
    assert_true(n > 0 && send(fd, frame, 4 + (size_t)n, MSG_NOSIGNAL) == 4 + n);
    for (;; npages++) {
        read_all(fd, (char *)&len, 4);
        len = le32toh(len);
        assert_true(len <= sizeof(frame));
        read_all(fd, frame, len);
        assert_int_equal(net_msg_decode(&msg, frame, len), 0);
        if (msg.type == NET_MSG_DONE)
            break;
        snprintf(serial, sizeof(serial), "%0*zu", SERIAL, npages);
        assert_int_equal(msg.blob_len, PAGE);
        assert_memory_equal(msg.blob, serial, SERIAL);
    }
    net_loop_post(member->loop, &over, end_loop, member->loop);
    return NULL;
}

static void slow_reader(void **state)
{
    static const struct guest_ops ops = {
        .serve = serve, .cancel = cancel, .unasked = unasked};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t); /* autobind */
    pthread_t thread;
    sigset_t all;
    int fd;

    (void)state;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    member->loop = net_loop_create();
    member->claim_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(sem_init(&may_read, 0, 0), 0);
    turn = net_timer_create(member->loop, queue_more, NULL);
    assert_true(turn && member->claim_fd >= 0 && fd >= 0);
    assert_int_equal(bind(member->claim_fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(member->claim_fd, 1), 0);
    len = sizeof(address);
    assert_int_equal(getsockname(member->claim_fd, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(guest_listen(member, &ops), 0);

    assert_int_equal(pthread_create(&thread, NULL, reader, &fd), 0);
    assert_int_equal(net_loop_run(member->loop), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(npages, PAGES);
    assert_true(moved <= (size_t)PAGES * (PAGE + 200));

    guest_stop(member);
    net_timer_destroy(turn);
    net_loop_destroy(member->loop);
    close(member->claim_fd);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow_reader)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
