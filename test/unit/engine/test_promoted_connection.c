/* engine/promoted/promoted_connection.h: messages and descriptors, in order, over a socket
 * that stays open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../in_memory.h"
#include "engine/promoted/promoted_connection.h"

#define MANY 500 /* frames of 60 KiB: far more than a socket takes */

struct end {
    struct net_loop *loop;
    struct promoted_connection *line;
    uint64_t next; /* id that is to come */
    uint64_t stop_at;
    bool broken, destroy_at_first;
    char blob[60000];
};

static ino_t inode_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

static void receive(void *arg, const struct net_msg *msg, int fd)
{
    struct end *end = arg;

    assert_int_equal(msg->id, end->next);
    end->next++;
    if (msg->type == NET_MSG_PROMOTED_JOIN) {
        assert_int_equal(fd, -1);
        assert_int_equal(msg->blob_len, sizeof(end->blob));
    } else if (msg->status == 0) { /* source_incarnation tells which file it is */
        assert_true(fd >= 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(inode_of(fd), msg->source_incarnation);
        close(fd);
    } else {
        assert_int_equal(fd, -1);
    }
    if (end->destroy_at_first) {
        promoted_connection_destroy(end->line);
        end->line = NULL;
        net_loop_stop(end->loop);
    } else if (end->next == end->stop_at) {
        net_loop_stop(end->loop);
    }
}

static void broken(void *arg)
{
    struct end *end = arg;

    end->broken = true;
    promoted_connection_destroy(end->line);
    end->line = NULL;
    net_loop_stop(end->loop);
}

static const struct promoted_connection_ops ops = {.receive = receive, .broken = broken};

/* Two ends on one loop; or one, and a bare socket. */
static int pair(struct end *a, struct end *b)
{
    int fds[2];

    memset(a, 0, sizeof(*a));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_non_null(a->loop = net_loop_create());
    assert_non_null(a->line = promoted_connection_create(a->loop, fds[0], &ops, a));
    if (!b)
        return fds[1];
    memset(b, 0, sizeof(*b));
    b->loop = a->loop;
    assert_non_null(b->line = promoted_connection_create(b->loop, fds[1], &ops, b));
    return -1;
}

static void send_blob(struct end *end, uint64_t id)
{
    struct net_msg msg = {.type = NET_MSG_PROMOTED_JOIN,
                          .id = id,
                          .blob = end->blob,
                          .blob_len = sizeof(end->blob)};
    assert_int_equal(promoted_connection_send(end->line, &msg, -1), 0);
}

static void send_fd(struct end *end, uint64_t id, int fd)
{
    struct net_msg msg = {.type = NET_MSG_PROMOTED_FETCHED,
                          .id = id,
                          .status = fd < 0 ? ESTALE : 0,
                          .source_incarnation = fd < 0 ? 0 : (uint32_t)inode_of(fd)};
    assert_int_equal(promoted_connection_send(end->line, &msg, fd), 0);
}

/* Large frames, small ones, with a descriptor and without, more than the socket holds. */
static void test_order(void **state)
{
    struct end a, b;
    char name[] = "/tmp/dyad-line.XXXXXX";
    int file[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        strcpy(name + sizeof(name) - 7, "XXXXXX");
        assert_true((file[i] = mkstemp(name)) >= 0);
        unlink(name);
    }
    pair(&a, &b);
    for (uint64_t id = 0; id < MANY; id++) {
        if (id % 7 == 3)
            send_blob(&a, id);
        else
            send_fd(&a, id, id % 5 == 1 ? -1 : file[id % 3]);
    }
    send_blob(&b, 0);
    b.stop_at = MANY;
    assert_int_equal(net_loop_run(a.loop), 0);
    assert_int_equal(b.next, MANY);
    assert_int_equal(a.next, 1);
    promoted_connection_destroy(a.line); /* the other sees it */
    assert_int_equal(net_loop_run(b.loop), 0);
    assert_true(b.broken);
    for (int i = 0; i < 3; i++)
        close(file[i]);
    net_loop_destroy(b.loop);
}

/* What can not be read ends the line; so does an end in the midst of a frame. */
static void test_garbage(void **state)
{
    static const struct {
        unsigned char bytes[32];
        size_t len;
    } frames[] = {
        {{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 8}, /* too long */
        {{4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, 12},
        {{200, 0, 0, 0, 0, 0, 0, 0, 1}, 9}, /* cut off */
        {{0}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        struct end a;
        int fd = pair(&a, NULL);
        assert_int_equal(write(fd, frames[i].bytes, frames[i].len), frames[i].len);
        close(fd);
        assert_int_equal(net_loop_run(a.loop), 0);
        assert_true(a.broken);
        net_loop_destroy(a.loop);
    }
}

/* A frame that says it has a descriptor and has none. */
static void test_no_descriptor(void **state)
{
    struct net_msg msg = {.type = NET_MSG_PROMOTED_FETCHED, .id = 0};
    unsigned char frame[256] = {0};
    struct end a;
    int fd = pair(&a, NULL);
    int n = net_msg_encode(&msg, frame + 8, sizeof(frame) - 8);

    (void)state;
    assert_true(n > 0);
    frame[0] = (unsigned char)n;
    frame[4] = 1;
    assert_int_equal(write(fd, frame, 8 + (size_t)n), 8 + n);
    assert_int_equal(net_loop_run(a.loop), 0);
    assert_true(a.broken);
    close(fd);
    net_loop_destroy(a.loop);
}

static void test_destroyed_inside(void **state)
{
    struct end a, b;

    (void)state;
    pair(&a, &b);
    b.destroy_at_first = true;
    send_blob(&a, 0);
    send_blob(&a, 1);
    assert_int_equal(net_loop_run(a.loop), 0);
    assert_int_equal(b.next, 1);
    assert_null(b.line);
    assert_int_equal(net_loop_run(a.loop), 0);
    assert_true(a.broken);
    net_loop_destroy(a.loop);
}

/* Keys go over it: what has been sent and received is in no memory of the line's. */
static void test_wiped(void **state)
{
    static const uint8_t masked[32] = "some bytes, not like any other..";
    struct end a, b;

    (void)state;
    pair(&a, &b);
    for (size_t i = 0; i + sizeof(masked) <= sizeof(a.blob); i += sizeof(masked))
        in_memory_unmask(a.blob + i, masked, sizeof(masked));
    for (uint64_t id = 0; id < 20; id++) /* more than the socket takes */
        send_blob(&a, id);
    explicit_bzero(a.blob, sizeof(a.blob));
    assert_true(in_memory(masked, sizeof(masked)) > 0); /* what waits */
    b.stop_at = 20;
    assert_int_equal(net_loop_run(a.loop), 0);
    assert_int_equal(b.next, 20);
    assert_int_equal(in_memory(masked, sizeof(masked)), 0);
    promoted_connection_destroy(a.line);
    assert_int_equal(net_loop_run(b.loop), 0);
    net_loop_destroy(a.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),         cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_no_descriptor), cmocka_unit_test(test_destroyed_inside),
        cmocka_unit_test(test_wiped),
    };
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
