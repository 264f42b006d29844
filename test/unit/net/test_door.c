/*
 * test_door.c - who connects proves first that it is of the session, and so does who is connected to
 *
 * Without UCX: its calls are made here, by the loop's thread; one door has both ends of a connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/door_impl.h"
#include "net/loop.h"
#include "util/clock.h"
#include "util/entry.h"

static struct net_loop *loop;
static struct net_door *door;
static struct net_timer *ticks;
static struct net_auth *ours, *theirs; /* the listening rank's key, and a stranger's */
static struct net_auth *with;          /* what the connecting end signs with */
static bool knows = true;              /* the listening end has the key */
static uint32_t says = 1;              /* whom the connecting end means */
static struct sockaddr_in address;
static int listener;

static uint32_t means; /* whom the door does, of the last one */

static uint32_t means_incarnation;

static bool introduce(void *arg, struct net_door_token *token)
{
    (void)arg;
    means = token->to;
    means_incarnation = token->to_incarnation;
    *token = (struct net_door_token){.from = 7,
                                     .from_incarnation = 5,
                                     .to = means == DYAD_RANK_NONE ? means : says,
                                     .to_incarnation = 3};
    return true;
}

static bool connecting; /* who asks for a MAC */

static bool mac(void *arg, const struct net_door_token *token, const void *text, size_t len,
                uint8_t of_text[NET_AUTH_MAC_LEN])
{
    (void)arg;
    (void)token;
    if (!connecting && !knows)
        return false;
    return net_auth_mac(connecting ? with : ours, text, len, of_text) == 0;
}

static bool admits(void *arg, const struct net_door_token *token)
{
    (void)arg;
    return token->to == 1 && token->to_incarnation == 3 && token->from == 7;
}

static unsigned ndeclined;

static void declined(void *arg, uint32_t rank)
{
    (void)arg;
    assert_int_equal(rank, means);
    ndeclined++;
}

static const struct net_door_ops ops = {
    .introduce = introduce, .mac = mac, .declined = declined, .admits = admits};

static void tick(void *arg)
{
    (void)arg;
    net_loop_stop(loop);
}

/* The loop has its turns for some ms. */
static void turn(unsigned ms)
{
    net_timer_start(ticks, util_clock_now() + ms * UTIL_NSEC_PER_MSEC);
    assert_int_equal(net_loop_run(loop), 0);
}

static int tcp(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    return fd;
}

static int set_up(void **state)
{
    uint8_t key[NET_PEER_KEY_LEN] = {1};
    socklen_t len = sizeof(address);
    sigset_t all;

    (void)state;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    ours = with = net_auth_create(key);
    key[0] = 2;
    theirs = net_auth_create(key);
    knows = true;
    says = 1;
    ndeclined = 0;
    loop = net_loop_create();
    ticks = net_timer_create(loop, tick, NULL);
    door = net_door_create(loop, &ops, NULL);
    assert_true(loop && ticks && door && ours && theirs);
    listener = tcp();
    address = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(net_door_listen(listener, 1000), 0);
    assert_int_equal(net_door_getsockname(listener, (struct sockaddr *)&address, &len), 0);
    assert_int_not_equal(address.sin_port, 0);
    assert_false(net_door_is_passed());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    net_door_close(listener);
    net_door_destroy(door);
    net_timer_destroy(ticks);
    net_loop_destroy(loop);
    net_auth_destroy(ours);
    net_auth_destroy(theirs);
    return 0;
}

/* As a stranger, past the door. */
static int stranger(void)
{
    int fd = tcp();

    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        assert_int_equal(errno, EINPROGRESS);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&p, 1, 1000), 1);
    return fd;
}

/* As UCX would. */
static int connects(uint32_t rank)
{
    int fd = tcp();

    net_door_expect(door, rank);
    if (net_door_connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        assert_int_equal(errno, EINPROGRESS);
    net_door_expect(door, DYAD_RANK_NONE);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&p, 1, 1000), 1);
    return fd;
}

static ssize_t says_hello(int fd)
{
    ssize_t n;

    connecting = true;
    n = net_door_send(fd, "hello", 5, MSG_NOSIGNAL);
    connecting = false;
    return n;
}

static int accepts(void)
{
    struct sockaddr_in from = {0};
    socklen_t len = sizeof(from);
    int fd = net_door_accept(listener, (struct sockaddr *)&from, &len);

    if (fd >= 0) {
        assert_int_equal(len, sizeof(from));
        assert_int_equal(from.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    } else {
        assert_int_equal(errno, EAGAIN);
    }
    return fd;
}

/* True if the other end has closed it. */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static bool rings(void)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* Both ends prove themselves, and have what UCX has sent, and nothing else. */
static void test_let_in(void **state)
{
    char got[16];

    (void)state;
    for (int i = 0; i < 3; i++) {
        int fd = connects(1), in;
        assert_int_equal(says_hello(fd), 5);
        assert_int_equal(net_door_recv(fd, got, sizeof(got), 0), -1);
        assert_int_equal(errno, EAGAIN);
        assert_false(rings());
        turn(20);
        assert_true(rings());
        assert_true((in = accepts()) >= 0);
        assert_int_equal(accepts(), -1);
        assert_int_equal(net_door_recv(in, got, sizeof(got), 0), 5);
        assert_memory_equal(got, "hello", 5);
        assert_int_equal(net_door_recv(fd, got, sizeof(got), 0), -1);
        assert_int_equal(errno, EAGAIN);
        assert_int_equal(net_door_send(in, "welcome", 7, 0), 7);
        assert_int_equal(net_door_recv(fd, got, sizeof(got), 0), 7);
        assert_memory_equal(got, "welcome", 7);
        assert_int_equal(net_door_close(in), 0);
        assert_int_equal(net_door_recv(fd, got, sizeof(got), 0), 0);
        assert_int_equal(net_door_close(fd), 0);
    }
    assert_int_equal(net_door_refused(door), 0);
}

/* In UCX's own words, or others: UCX hears nothing of it. */
static void test_stranger(void **state)
{
    uint8_t bytes[400];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        int fd = stranger();
        memset(bytes, (int)i, sizeof(bytes));
        if (i % 2)
            memcpy(bytes, "dyadDOOR\2", 9);
        assert_int_equal(send(fd, bytes, i < 4 ? sizeof(bytes) : 10, MSG_NOSIGNAL),
                         i < 4 ? sizeof(bytes) : 10);
        if (i >= 4)
            shutdown(fd, SHUT_WR);
        turn(10);
        assert_true(is_closed(fd));
        assert_false(rings());
        assert_int_equal(accepts(), -1);
        close(fd);
        assert_int_equal(net_door_refused(door), i + 1);
    }
}

static void test_wrong(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        int fd = connects(1);
        with = i == 0 ? theirs : ours;
        knows = i != 1;
        says = i == 2 ? 2 : 1;
        assert_int_equal(says_hello(fd), 5);
        if (i == 3) { /* cut off in the midst */
            net_door_close(fd);
            fd = stranger();
            assert_int_equal(send(fd, "dyadDOOR\2", 9, 0), 9);
            turn(10);
            shutdown(fd, SHUT_WR);
        }
        turn(10);
        if (i == 3) {
            int in = accepts();
            assert_true(in >= 0);
            net_door_close(in);
        }
        assert_int_equal(accepts(), -1);
        assert_true(is_closed(fd));
        net_door_close(fd);
        with = ours;
    }
    assert_int_equal(net_door_refused(door), 4);
}

/* What was heard on the way is good for nothing: not once more, nor from elsewhere. */
static void test_replayed(void **state)
{
    uint8_t token[NET_DOOR_TOKEN_LEN];
    struct sockaddr_in there = address;
    socklen_t len = sizeof(there);
    int heard = tcp(), in, fd;

    (void)state;
    there.sin_port = 0;
    assert_int_equal(bind(heard, (struct sockaddr *)&there, sizeof(there)), 0);
    assert_int_equal(listen(heard, 1), 0);
    assert_true(net_door_is_passed());
    assert_int_equal(getsockname(heard, (struct sockaddr *)&there, &len), 0);
    struct sockaddr_in real = address;
    address = there;
    fd = connects(1);
    assert_int_equal(says_hello(fd), 5);
    address = real;
    in = accept(heard, NULL, NULL);
    assert_true(in >= 0);
    assert_int_equal(recv(in, token, sizeof(token), MSG_WAITALL), sizeof(token));
    /* Who is in its way gives it to the right one. */
    int relay = stranger();
    assert_int_equal(send(relay, token, sizeof(token), 0), sizeof(token));
    turn(10);
    assert_int_equal(accepts(), -1);
    assert_true(is_closed(relay));
    /* And answers as if it were that one. */
    assert_int_equal(send(in, token, sizeof(token), 0), sizeof(token));
    char got[8];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 1000), 1);
    assert_int_equal(net_door_recv(fd, got, sizeof(got), 0), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(net_door_refused(door), 2);
    assert_int_equal(ndeclined, 1);
    net_door_close(fd);
    close(in);
    close(heard);
    close(relay);
}

/* A token of ours, as the connecting end would make it. */
static void make_token(int fd, uint8_t token[NET_DOOR_TOKEN_LEN])
{
    struct sockaddr_in here;
    socklen_t len = sizeof(here);
    uint8_t *at = token;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    memset(token, 0, NET_DOOR_TOKEN_LEN);
    memcpy(at, "dyadDOOR\2", 9);
    at[12] = 7; /* from */
    at[20] = 1; /* to */
    at[24] = 3;
    memset(at + 28, 0x5a, 16); /* number, and random bytes */
    at[44] = at[64] = 4;
    memcpy(at + 46, &here.sin_port, 2);
    memcpy(at + 48, &here.sin_addr, 4);
    memcpy(at + 66, &address.sin_port, 2);
    memcpy(at + 68, &address.sin_addr, 4);
    assert_int_equal(net_auth_sign(ours, token, 84, token + 84), 0);
}

/* From the same address, when the first one is gone. */
static void test_replayed_later(void **state)
{
    struct linger at_once = {.l_onoff = 1};
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t token[NET_DOOR_TOKEN_LEN];
    socklen_t len = sizeof(from);

    (void)state;
    for (unsigned again = 0; again < 3; again++) {
        int fd = tcp(), in;
        struct pollfd out = {.fd = fd, .events = POLLOUT};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&from, &len), 0);
        assert_true(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
                    errno == EINPROGRESS);
        assert_int_equal(poll(&out, 1, 1000), 1);
        if (!again)
            make_token(fd, token);
        assert_int_equal(send(fd, token, sizeof(token), 0), sizeof(token));
        turn(10);
        in = accepts();
        assert_int_equal(in >= 0, !again);
        assert_int_equal(is_closed(fd), again > 0);
        close(fd);
        turn(5);
        if (in >= 0)
            close(in);
    }
    assert_int_equal(net_door_refused(door), 2);
}

/* Each token counts once, in whatever order they come, also after more of them than any session lasts for. */
static void test_numbers(void **state)
{
    struct net_door_token token = {
        .from = 7, .from_incarnation = 5, .number = 1764000000000000000};

    (void)state;
    for (unsigned i = 0; i < 1100000; i++) {
        token.number++;
        assert_true(door_is_new(door, &token));
    }
    const uint64_t last = token.number;
    for (unsigned i = 0; i < 3 * DOOR_WINDOW; i++, token.number--)
        assert_false(door_is_new(door, &token));
    for (unsigned i = 1; i < DOOR_WINDOW; i++) { /* gaps, which are filled later */
        token.number = last + 2 * i;
        assert_true(door_is_new(door, &token));
        token.number = last + 2 * i - i % 100;
        assert_int_equal(door_is_new(door, &token), i % 2);
        assert_false(door_is_new(door, &token));
    }
    token.number += 10 * DOOR_WINDOW;
    assert_true(door_is_new(door, &token));
    token.number -= DOOR_WINDOW - 1;
    assert_true(door_is_new(door, &token));
    assert_false(door_is_new(door, &token));
    token.number--; /* not seen, but it could have been */
    assert_false(door_is_new(door, &token));
    token.from++;
    assert_true(door_is_new(door, &token));
    assert_int_equal(HASH_COUNT(door->callers), 2);
}

/* What a process has said counts no more when its rank has another one, whose numbers may be lower. */
static void test_numbers_of_successor(void **state)
{
    struct net_door_token token = {.from = 7, .from_incarnation = 5, .number = 1000};

    (void)state;
    assert_true(door_is_new(door, &token));
    token.from_incarnation = 6;
    token.number = 10;
    assert_true(door_is_new(door, &token));
    assert_false(door_is_new(door, &token));
    token.number = 9;
    assert_true(door_is_new(door, &token));
    token.from_incarnation = 5;
    token.number = 1001;
    assert_false(door_is_new(door, &token));
    assert_int_equal(HASH_COUNT(door->callers), 1);
}

/* The tokens of a process are numbered, from the time of day on: one whose incarnation comes twice, with the same randomness,
 * makes others, and so other keys. */
static void test_own_numbers(void **state)
{
    struct sockaddr_in there = address;
    socklen_t len = sizeof(there);
    uint64_t last = util_clock_wall_ns();
    int heard = tcp();

    (void)state;
    there.sin_port = 0;
    assert_int_equal(bind(heard, (struct sockaddr *)&there, sizeof(there)), 0);
    assert_int_equal(listen(heard, 1), 0);
    assert_int_equal(getsockname(heard, (struct sockaddr *)&address, &len), 0);
    for (int i = 0; i < 3; i++) {
        uint8_t said[NET_DOOR_TOKEN_LEN];
        struct net_door_token token = {0};
        int fd = connects(1), in;
        assert_int_equal(says_hello(fd), 5);
        assert_true((in = accept(heard, NULL, NULL)) >= 0);
        assert_int_equal(recv(in, said, sizeof(said), MSG_WAITALL), sizeof(said));
        assert_true(door_token_get(said, &token));
        if (i > 0)
            assert_int_equal(token.number, last + 1);
        else
            assert_true(token.number <= last &&
                        last - token.number < 60 * UTIL_NSEC_PER_SEC);
        last = token.number;
        close(in);
        net_door_close(fd);
    }
    close(heard);
}

/* Hundreds that say nothing: who is of the session gets in, and they go in time. */
static void test_idle(void **state)
{
    enum { IDLE = 500 };
    static int idle[IDLE];
    unsigned closed = 0;
    int fd, in;

    (void)state;
    for (int i = 0; i < IDLE; i++)
        idle[i] = stranger();
    turn(20);
    fd = connects(1);
    assert_int_equal(says_hello(fd), 5);
    for (in = -1; in < 0; in = accepts())
        turn(20);
    net_door_close(in);
    net_door_close(fd);
    for (int i = 0; i < IDLE; i++)
        closed += is_closed(idle[i]);
    assert_true(closed >= IDLE - 128 && closed < IDLE);
    turn(5200);
    for (int i = 0; i < IDLE; i++) {
        assert_true(is_closed(idle[i]));
        close(idle[i]);
    }
    assert_int_equal(net_door_refused(door), IDLE);
}

/* UCX tries a connection that has failed once more by itself; and may connect to one that has connected to us. */
static void test_whom(void **state)
{
    struct sockaddr_in elsewhere = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(elsewhere);
    int fd = connects(1), again, other = tcp(), in;
    char got[8];

    (void)state;
    net_door_close(fd);
    again = connects(DYAD_RANK_NONE);
    assert_int_equal(says_hello(again), 5);
    assert_int_equal(means, 1);
    turn(10);
    assert_true((in = accepts()) >= 0);
    assert_int_equal(net_door_recv(in, got, sizeof(got), 0), 5); /* from rank 7 */

    net_door_close(listener);
    listener = other;
    assert_int_equal(bind(other, (struct sockaddr *)&elsewhere, sizeof(elsewhere)), 0);
    assert_int_equal(net_door_listen(other, 10), 0);
    assert_int_equal(net_door_getsockname(other, (struct sockaddr *)&address, &len), 0);
    fd = connects(DYAD_RANK_NONE);
    assert_int_equal(says_hello(fd), 5);
    assert_int_equal(means, 7);
    assert_int_equal(means_incarnation, 5); /* as its token said */
    turn(10);
    net_door_close(in);
    net_door_close(again);
    assert_true((in = accepts()) >= 0);
    net_door_close(in);
    net_door_close(fd);
    assert_int_equal(net_door_refused(door), 0);

    /* Where a rank was that has ended there is another one now, from which UCX has heard. */
    fd = connects(1);
    assert_int_equal(says_hello(fd), 5);
    turn(10);
    assert_true((in = accepts()) >= 0);
    net_door_recv(fd, got, sizeof(got), 0); /* but the proof */
    net_door_close(fd);
    assert_int_equal(net_door_recv(in, got, sizeof(got), 0), 5); /* from rank 7 */
    fd = connects(DYAD_RANK_NONE);
    assert_int_equal(says_hello(fd), 5);
    assert_int_equal(means, 7);
    net_door_close(in);
    net_door_close(fd);
}

/* The loop is busy for longer than a guest has: what he has said is heard. And of two listening sockets one does not keep the
 * other's guests. */
static void test_late(void **state)
{
    struct sockaddr_in first = address,
                       second = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(second);
    int other = tcp(), silent, in, fd;

    (void)state;
    assert_int_equal(bind(other, (struct sockaddr *)&second, sizeof(second)), 0);
    assert_int_equal(net_door_listen(other, 10), 0);
    assert_int_equal(net_door_getsockname(other, (struct sockaddr *)&second, &len), 0);
    silent = stranger();
    fd = connects(1);
    turn(10); /* both are guests */
    assert_int_equal(says_hello(fd), 5);
    usleep(2500000);
    address = second;
    in = stranger();
    turn(10); /* the other socket's first */
    usleep(2600000);
    turn(50);
    assert_true(is_closed(silent));
    assert_false(is_closed(in));
    close(in);
    address = first;
    assert_true((in = accepts()) >= 0);
    net_door_close(in);
    net_door_close(fd);
    close(silent);
    net_door_close(other);
}

/* In the midst of a flood, where the loop comes to no event; and when it has ended. */
static void test_without_loop(void **state)
{
    int fd = connects(1), in;

    (void)state;
    assert_int_equal(says_hello(fd), 5);
    net_door_sleep(door);
    struct pollfd p = {.fd = net_door_fd(door), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 1000), 1);
    net_door_turn(door);
    assert_true((in = accepts()) >= 0);
    net_door_close(in);
    net_door_close(fd);
    fd = connects(1);
    net_door_turn(door);
    net_door_shut(door);
    assert_true(is_closed(fd));
    net_door_close(fd);
}

/* No descriptor is left for a moment: the listening socket bears it. */
static void test_no_descriptor(void **state)
{
    const char *preload = getenv("LD_PRELOAD");
    struct rlimit was, few;
    int fd, in, last;

    (void)state;
    if (preload && strstr(preload, "vgpreload"))
        skip(); /* valgrind accepts what is above the limit, and closes it */
    fd = connects(1);
    assert_int_equal(says_hello(fd), 5);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true((last = dup(fd)) >= 0);
    close(last);
    few = was;
    few.rlim_cur = (rlim_t)last;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    turn(30);
    assert_int_equal(accepts(), -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    turn(200);
    assert_true((in = accepts()) >= 0);
    net_door_close(in);
    net_door_close(fd);
}

/* --- encrypted --- */

/* Both ends of a connection that is encrypted. */
static void encrypted(int *fd, int *in)
{
    char got[8];

    assert_int_equal(net_door_encrypt(door), 0);
    *fd = connects(1);
    assert_int_equal(says_hello(*fd), 5);
    turn(20);
    assert_true((*in = accepts()) >= 0);
    assert_int_equal(net_door_recv(*in, got, sizeof(got), 0), 5);
    assert_memory_equal(got, "hello", 5);
    assert_int_equal(net_door_recv(*fd, got, sizeof(got), 0), -1); /* but the proof */
    assert_int_equal(errno, EAGAIN);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* Bytes that follow no pattern of a record's size. */
static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

/* All goes from one end to the other by parts of at most `out` and `in` bytes, where the kernel takes little at once: as UCX
 * does, which sends again what was not taken, and reads when there is something to read. */
static void carry(int from, int to, size_t total, size_t out, size_t in)
{
    static uint8_t text[1 << 20], got[1 << 20];
    size_t sent = 0, come = 0;

    for (size_t i = 0; i < total; i++)
        text[i] = byte_at(i);
    while (come < total) {
        size_t part = total - sent < out ? total - sent : out, half = part / 2;
        struct iovec iov[2] = {{text + sent, half}, {text + sent + half, part - half}};
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
        ssize_t n = 0;
        if (part > 0)
            n = sent % 2 ? net_door_send(from, text + sent, part, MSG_NOSIGNAL)
                         : net_door_sendmsg(from, &msg, MSG_NOSIGNAL);
        assert_true(n >= 0 || errno == EAGAIN);
        sent += n > 0 ? (size_t)n : 0;
        struct pollfd p[2] = {{.fd = to, .events = POLLIN},
                              {.fd = from, .events = part > 0 ? POLLOUT : 0}};
        if (part == 0 || n < 0)
            assert_true(poll(p, 2, 5000) > 0); /* what was sent does not stay away */
        while (readable(to)) {
            part = total - come < in ? total - come : in;
            if (part == 0)
                break;
            n = net_door_recv(to, got + come, part, 0);
            assert_true(n > 0 || (n < 0 && errno == EAGAIN));
            come += n > 0 ? (size_t)n : 0;
        }
    }
    assert_int_equal(sent, total);
    assert_memory_equal(text, got, total);
    assert_false(readable(to));
}

static void test_encrypted(void **state)
{
    static const size_t sizes[] = {1, 2, 100, 4096, 65535, 65536, 65537, 200000, 1 << 20};
    int fd, in, small = 4096;
    char got[16];

    (void)state;
    encrypted(&fd, &in);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        carry(fd, in, sizes[i], 1 << 20, 1 << 20);
        carry(in, fd, sizes[i], 70000, 1000);
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    carry(fd, in, 1 << 20, 1 << 20, 1 << 20);
    carry(fd, in, 300000, 65536, 7);
    /* Looked at, and then taken. */
    assert_int_equal(net_door_send(in, "welcome", 7, 0), 7);
    assert_int_equal(net_door_recv(fd, got, sizeof(got), MSG_PEEK), 7);
    assert_int_equal(net_door_recv(fd, got, 3, 0), 3);
    assert_true(readable(fd));
    assert_int_equal(net_door_recv(fd, got + 3, sizeof(got), 0), 4);
    assert_memory_equal(got, "welcome", 7);
    net_door_close(in);
    assert_int_equal(net_door_recv(fd, got, sizeof(got), 0), 0);
    net_door_close(fd);
    assert_int_equal(net_door_refused(door), 0);
}

/* A record as it is on the way. */
static size_t on_the_way(int in, uint8_t *record, size_t size)
{
    struct pollfd p = {.fd = in, .events = POLLIN};
    ssize_t n = -1;

    assert_int_equal(poll(&p, 1, 5000), 1);
    n = recv(in, record, size, 0);
    assert_true(n > 0);
    return (size_t)n;
}

/* Nothing is seen of what is said; and what somebody changes, repeats, leaves out, or makes up ends the connection. */
static void test_encrypted_attacked(void **state)
{
    static const char secret[] = "a secret of thirty-two bytes ....";
    uint8_t record[2][200];
    size_t len[2];
    char got[100];
    int fd, in;

    (void)state;
    for (unsigned attack = 0; attack < 7; attack++) {
        encrypted(&fd, &in);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(net_door_send(fd, secret, sizeof(secret), 0), sizeof(secret));
            len[i] = on_the_way(in, record[i], sizeof(record[i]));
            assert_null(memmem(record[i], len[i], secret, 8));
        }
        assert_memory_not_equal(record[0] + 4, record[1] + 4, sizeof(secret));
        if (attack == 1)
            record[0][4] ^= 1;
        if (attack == 2)
            record[0][len[0] - 1] ^= 1;
        if (attack == 3)
            record[0][3] = 1; /* longer than any record */
        if (attack == 4)
            memset(record[0], 0, 4);
        if (attack != 5) /* left out */
            assert_int_equal(send(fd, record[0], len[0], 0), len[0]);
        if (attack == 6) /* once more */
            assert_int_equal(send(fd, record[0], len[0], 0), len[0]);
        else
            assert_int_equal(send(fd, record[1], len[1], 0), len[1]);
        bool right = attack == 0 || attack == 6;
        struct pollfd p = {.fd = in, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 5000), 1);
        ssize_t n = net_door_recv(in, got, sizeof(got), 0);
        assert_int_equal(n, right ? (ssize_t)sizeof(secret) : -1);
        if (right)
            assert_memory_equal(got, secret, sizeof(secret));
        if (attack == 6)
            assert_int_equal(net_door_recv(in, got, 5, 0), -1);
        if (attack > 0) {
            assert_int_equal(errno, ECONNRESET);
            assert_true(net_door_recv(in, got, sizeof(got), 0) <= 0);
            assert_true(is_closed(fd));
        }
        net_door_close(in);
        net_door_close(fd);
        assert_int_equal(net_door_refused(door), attack);
    }
}

/* One end encrypts, and the other one does not. */
static void test_encrypted_one_sided(void **state)
{
    int fd = connects(1);

    (void)state;
    assert_int_equal(says_hello(fd), 5);
    assert_int_equal(net_door_encrypt(door), 0);
    turn(20);
    assert_int_equal(accepts(), -1);
    assert_true(is_closed(fd));
    net_door_close(fd);
    assert_int_equal(net_door_refused(door), 1);
}

/* Where the port is open, too, a moment without descriptors does not end the listening socket. Once it is open it stays so. */
static void test_open_no_descriptor(void **state)
{
    const char *preload = getenv("LD_PRELOAD");
    struct rlimit was, few;
    int fd, in, last;

    (void)state;
    if (preload && strstr(preload, "vgpreload"))
        skip();
    net_door_leave_open();
    assert_int_equal(net_door_encrypt(door), -1);
    assert_int_equal(errno, EPERM);
    net_door_close(listener);
    listener = tcp();
    address.sin_port = 0;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(net_door_listen(listener, 10), 0);
    socklen_t len = sizeof(address);
    assert_int_equal(net_door_getsockname(listener, (struct sockaddr *)&address, &len), 0);
    fd = stranger();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true((last = dup(fd)) >= 0);
    close(last);
    few = was;
    few.rlim_cur = (rlim_t)last;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    in = net_door_accept(listener, NULL, NULL);
    int error = errno;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(in, -1);
    assert_int_equal(error, EAGAIN);
    assert_true((in = net_door_accept(listener, NULL, NULL)) >= 0);
    net_door_close(in);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_let_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stranger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replayed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replayed_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers_of_successor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_own_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_idle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whom, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_descriptor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_encrypted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_encrypted_attacked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_encrypted_one_sided, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open_no_descriptor, set_up,
                                        tear_down), /* the last */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
