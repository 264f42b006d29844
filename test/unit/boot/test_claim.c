/*
 * test_claim.c - one member per rank, among real processes
 *
 * Run with "holder FD" it is the image after an exec: it looks for the claim it inherited.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "boot/claim_names.h"
#include "boot/member_claim.h"
#include "stranger.h"

static struct boot_identity id = {.launched = true, .nspace = "test.claim", .node = "here"};
static struct sockaddr_un address;
static socklen_t len;
static char *self;
static int rounds = 20;

static void setup_name(uint32_t rank)
{
    snprintf(id.node, sizeof(id.node), "here.%d", (int)getpid());
    id.rank = rank;
    len = boot_member_claim_address(&id, "kvs", &address);
}

static void test_name(void **state)
{
    struct sockaddr_un other;
    struct boot_identity b = id;

    (void)state;
    assert_int_equal(boot_member_claim_address(&id, "kvs", &other), len);
    assert_memory_equal(&other, &address, len);
    assert_int_equal(address.sun_path[0], 0);
    assert_memory_equal(address.sun_path + 1, "dyad/", 5);
    assert_true(len < sizeof(address));
    boot_member_claim_address(&id, NULL, &other);
    assert_memory_not_equal(&other, &address, len);
    /* Of a launch the first half of the hash is the same on each node. */
    const char *hash = strchr(address.sun_path + 6, '/') + 1;
    size_t before = (size_t)(hash - (const char *)&address);
    b.node[0] = 'm';
    boot_member_claim_address(&b, "kvs", &other);
    assert_memory_equal(&other, &address, before + BOOT_CLAIM_LAUNCH_LEN);
    assert_memory_not_equal(&other, &address, before + 2 * BOOT_CLAIM_LAUNCH_LEN);
    strcpy(b.nspace, "test.clai");
    b.node[0] = 'm';
    strcpy(b.node + 1, id.node); /* the same letters, the border elsewhere */
    boot_member_claim_address(&b, "kvs", &other);
    assert_memory_not_equal(&other, &address, len);
    b = id;
    b.rank = UINT32_MAX - 17;
    assert_true(boot_member_claim_address(&b, "kvs", &other) > len);

    /* As text, and back. */
    char name[sizeof(other.sun_path)];
    boot_member_claim_name(&address, len, name);
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789/"), strlen(name));
    assert_int_equal(boot_member_claim_named(name, &other), len);
    assert_memory_equal(&other, &address, sizeof(other));
    assert_int_equal(boot_member_claim_named("", &other), 0);
    char longest[sizeof(other.sun_path) + 1];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(other.sun_path)] = '\0';
    assert_int_equal(boot_member_claim_named(longest, &other), 0);
}

static void test_bind_and_connect(void **state)
{
    int fd, peer, accepted;

    (void)state;
    assert_int_equal(boot_member_claim_connect(&address, len), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(boot_member_claim_inherited(&address, len), -1);
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 256);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(boot_member_claim_bind(&address, len), -1);
    assert_int_equal(errno, EADDRINUSE);
    accepted = accept(fd, NULL, NULL); /* who wanted to bind has looked whose it is */
    assert_true(accepted >= 0);
    close(accepted);
    assert_int_equal(accept(fd, NULL, NULL), -1); /* does not block */
    assert_int_equal(errno, EAGAIN);
    peer = boot_member_claim_connect(&address, len); /* queues */
    assert_true(peer >= 256);
    accepted = accept(fd, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(boot_member_claim_peer(peer), getpid());
    assert_int_equal(boot_member_claim_peer(accepted), getpid());
    assert_int_equal(boot_member_claim_peer(0), -1);
    assert_int_equal(boot_member_claim_inherited(&address, len),
                     fd); /* not peer, not accepted */
    close(accepted);
    close(peer);
    close(fd);
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 256);
    close(fd);
}

static void test_small_limit(void **state)
{
    struct rlimit old, small;
    int fd;

    (void)state;
    getrlimit(RLIMIT_NOFILE, &old);
    small = old;
    small.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    fd = boot_member_claim_bind(&address, len);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_true(fd >= 10 && fd < 64);
    close(fd);
}

static void test_processes_compete(void **state)
{
    (void)state;
    for (int round = 0; round < rounds; round++) {
        int go[2], hold[2], winners = 0;
        pid_t pid[8];
        assert_int_equal(pipe(go) | pipe(hold), 0);
        for (int i = 0; i < 8; i++)
            if ((pid[i] = fork()) == 0) {
                char c;
                close(go[1]);
                close(hold[1]);
                if (read(go[0], &c, 1) < 0) /* all start when the pipe is closed */
                    _exit(9);
                int fd = boot_member_claim_bind(&address, len);
                if (fd < 0)
                    _exit(errno == EADDRINUSE ? 1 : 2);
                if (read(hold[0], &c, 1) < 0) /* hold it until the others have tried */
                    _exit(9);
                _exit(0);
            }
        close(go[0]);
        close(go[1]);
        close(hold[0]);
        for (int i = 0, seen = 0; seen < 7; i = (i + 1) % 8) {
            int status;
            if (pid[i] > 0 && waitpid(pid[i], &status, WNOHANG) == pid[i]) {
                assert_int_equal(WEXITSTATUS(status), 1);
                pid[i] = 0;
                seen++;
            }
        }
        close(hold[1]);
        for (int i = 0; i < 8; i++)
            if (pid[i] > 0)
                winners += stranger_exit_of(pid[i]) == 0;
        assert_int_equal(winners, 1);
    }
}

static void test_death_frees(void **state)
{
    int ready[2], fd;
    char c;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (boot_member_claim_bind(&address, len) < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(boot_member_claim_bind(&address, len), -1);
    kill(pid, SIGKILL);
    stranger_exit_of(pid);
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 0);
    close(fd);
    close(ready[0]);
    close(ready[1]);
}

/* A child that closes its copy does not keep the claim of a dead member; one that does not,
 * does. */
static void test_forked_copy(void **state)
{
    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        int ready[2], hold[2], status;
        char c;
        assert_int_equal(pipe(ready) | pipe(hold), 0);
        pid_t member = fork();
        if (member == 0) {
            int fd = boot_member_claim_bind(&address, len);
            if (fork() == 0) {
                if (closes)
                    close(fd);
                close(hold[1]);
                if (write(ready[1], "x", 1) != 1 || read(hold[0], &c, 1) < 0)
                    _exit(1);
                close(fd);
                close(ready[1]); /* the parent sees the end of it */
                _exit(0);
            }
            pause();
        }
        close(ready[1]);
        close(hold[0]);
        assert_int_equal(read(ready[0], &c, 1), 1);
        kill(member, SIGKILL);
        waitpid(member, &status, 0);
        int fd = boot_member_claim_bind(&address, len);
        assert_int_equal(fd >= 0, closes);
        if (fd >= 0)
            close(fd);
        close(hold[1]);
        assert_int_equal(read(ready[0], &c, 1), 0);
        close(ready[0]);
    }
}

static void test_exec_hands_over(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        char number[16], hex[2 * sizeof(address) + 1];
        int fd = boot_member_claim_bind(&address, len);
        fcntl(fd, F_SETFD, 0);
        snprintf(number, sizeof(number), "%d", fd);
        for (socklen_t i = 0; i < len; i++)
            snprintf(hex + 2 * i, 3, "%02x", ((unsigned char *)&address)[i]);
        execl(self, self, "holder", number, hex, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(stranger_exit_of(pid), 0);
}

static int holder(const char *number, const char *hex)
{
    len = (socklen_t)(strlen(hex) / 2);
    for (socklen_t i = 0; i < len; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        ((unsigned char *)&address)[i] = (unsigned char)byte;
    }
    int fd = boot_member_claim_inherited(&address, len);
    if (fd != atoi(number) || boot_member_claim_bind(&address, len) >= 0 ||
        errno != EADDRINUSE)
        return 1;
    int peer = boot_member_claim_connect(&address, len);
    return peer >= 0 && boot_member_claim_peer(peer) >= 0 ? 0 : 2;
}

/* A holder that cannot serve: nobody waits for it, and nobody takes the claim from it. */
static void test_shut(void **state)
{
    int fd = boot_member_claim_bind(&address, len), waiting[3];
    char byte;

    (void)state;
    assert_true(fd >= 0);
    for (int i = 0; i < 3; i++)
        assert_true((waiting[i] = boot_member_claim_connect(&address, len)) >= 0);
    errno = 77;
    boot_member_claim_shut(fd);
    assert_int_equal(errno, 77);
    for (int i = 0; i < 3; i++) {
        assert_true(recv(waiting[i], &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
        close(waiting[i]);
    }
    assert_int_equal(boot_member_claim_connect(&address, len), -1);
    assert_int_equal(errno, ECONNREFUSED);
    pid_t pid = fork(); /* nor from another process, nor does another become the member */
    if (pid == 0)
        _exit(boot_member_claim_connect(&address, len) == -1 && errno == ECONNREFUSED &&
                      boot_member_claim_bind(&address, len) == -1 && errno == EADDRINUSE
                  ? 0
                  : 1);
    assert_int_equal(stranger_exit_of(pid), 0);
    close(fd);
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 0);
    close(fd);
}

/* --- another user --- */

static bool is_fallback(int fd)
{
    struct sockaddr_un bound;
    socklen_t bound_len = sizeof(bound);

    assert_int_equal(getsockname(fd, (struct sockaddr *)&bound, &bound_len), 0);
    assert_true(boot_claim_is_name(&address, len, &bound, bound_len));
    return bound_len > len;
}

/* Every process of ours reaches the member at fd, and none becomes another one. */
static void is_the_member(int fd)
{
    for (int now = 0; now < 2; now++) {
        int peer = now ? boot_member_claim_connect_now(&address, len)
                       : boot_member_claim_connect(&address, len);
        assert_true(peer >= 0);
        assert_false(fcntl(peer, F_GETFL) & O_NONBLOCK);
        int accepted;
        char byte = 0;
        /* Others have looked whose it is, and left. */
        assert_int_equal(write(peer, "m", 1), 1);
        do
            assert_true((accepted = accept(fd, NULL, NULL)) >= 0);
        while (read(accepted, &byte, 1) == 0 && close(accepted) == 0);
        assert_int_equal(byte, 'm');
        assert_int_equal(boot_member_claim_peer(peer), getpid());
        close(accepted);
        close(peer);
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(boot_member_claim_bind(&address, len) == -1 && errno == EADDRINUSE ? 0 : 1);
    assert_int_equal(stranger_exit_of(pid), 0);
}

/* It listens, is only bound, or has a full queue, before which nobody is to wait. */
static void test_stranger_has_name(void **state)
{
    static const int backlogs[] = {16, STRANGER_BINDS, 0};

    (void)state;
    if (!stranger_can())
        return;
    for (size_t i = 0; i < sizeof(backlogs) / sizeof(backlogs[0]); i++) {
        struct stranger stranger = stranger_holds(&address, &len, 1, backlogs[i]);
        assert_int_equal(boot_member_claim_connect(&address, len), -1);
        assert_int_equal(errno, ECONNREFUSED);
        assert_int_equal(boot_member_claim_connect_now(&address, len), -1);
        assert_int_equal(errno, ECONNREFUSED);
        int fd = boot_member_claim_bind(&address, len);
        assert_true(fd >= 256);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_true(is_fallback(fd));
        assert_int_equal(boot_member_claim_inherited(&address, len), fd);
        is_the_member(fd);
        stranger_end(stranger); /* the first name is free now, and nobody is to have it */
        is_the_member(fd);
        stranger = stranger_holds(&address, &len, 1, backlogs[i]);
        is_the_member(fd);
        /* One that cannot serve keeps the claim, as with the first name. */
        boot_member_claim_shut(fd);
        assert_int_equal(boot_member_claim_connect(&address, len), -1);
        assert_int_equal(errno, ECONNREFUSED);
        assert_int_equal(boot_member_claim_bind(&address, len), -1);
        assert_int_equal(errno, EADDRINUSE);
        close(fd);
        fd = boot_member_claim_bind(&address, len);
        assert_true(fd >= 0 && is_fallback(fd));
        is_the_member(fd);
        stranger_end(stranger);
        close(fd);
    }
}

/* Our own with a full queue is known to live, and is not taken for a stranger's. */
static void test_own_queue_full(void **state)
{
    int fd, fill[64], n = 0;

    (void)state;
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 0);
    assert_int_equal(listen(fd, 4), 0);
    while ((fill[n] = boot_member_claim_connect_now(&address, len)) >= 0)
        assert_true(++n < 64);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(boot_member_claim_bind(&address, len), -1);
    assert_int_equal(errno, EADDRINUSE);
    pid_t pid = fork();
    if (pid == 0)
        _exit(boot_member_claim_connect(&address, len) >= 0 ? 0 : 1); /* it waits */
    close(accept(fd, NULL, NULL));
    assert_int_equal(stranger_exit_of(pid), 0);
    while (n > 0)
        close(fill[--n]);
    close(fd);
}

/* The member dies, and a stranger is faster. */
static void test_stranger_after_death(void **state)
{
    int fd = boot_member_claim_bind(&address, len);

    (void)state;
    if (!stranger_can())
        return;
    assert_true(fd >= 0 && !is_fallback(fd));
    is_the_member(fd);
    close(fd);
    struct stranger stranger = stranger_holds(&address, &len, 1, 16);
    assert_int_equal(boot_member_claim_connect_now(&address, len), -1);
    assert_int_equal(errno, ECONNREFUSED);
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 0 && is_fallback(fd));
    is_the_member(fd);
    close(fd);
    stranger_end(stranger);
}

/* A stranger's fallback names, and a name that looks like a line of the list of its own,
 * with a socket of ours. */
static void test_stranger_makes_junk(void **state)
{
    enum { N = 200 };
    static struct sockaddr_un names[N];
    static socklen_t lens[N];
    struct stranger stranger[3];
    int own, fd;
    struct stat st;

    (void)state;
    if (!stranger_can())
        return;
    own = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(fstat(own, &st), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(boot_claim_name_new(&address, len, &names[i], &lens[i]), 0);
    stranger[0] = stranger_holds(names, lens, N / 2, STRANGER_BINDS);
    stranger[1] = stranger_holds(names + N / 2, lens + N / 2, N / 2 - 1, 4);
    assert_int_equal(boot_member_claim_connect(&address, len), -1);
    assert_int_equal(errno, ECONNREFUSED);
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 0 && !is_fallback(fd));
    is_the_member(fd);
    close(fd);
    stranger_end(stranger[1]);

    char text[sizeof(address.sun_path)], line[256];
    boot_member_claim_name(&address, len, text);
    snprintf(line, sizeof(line),
             "\n0000000000000000: 00000002 00000000 00010000 0001 01 %5lu @%s",
             (unsigned long)st.st_ino, text);
    assert_true((lens[1] = boot_member_claim_named(line, &names[1])) > 0);
    names[0] = address;
    lens[0] = len;
    stranger[2] = stranger_holds(names, lens, 2, STRANGER_BINDS);
    fd = boot_member_claim_bind(&address, len);
    assert_true(fd >= 0 && is_fallback(fd));
    is_the_member(fd);
    close(fd);
    close(own);
    stranger_end(stranger[2]); /* who came later has a copy of the other's pipe */
    stranger_end(stranger[0]);
}

/* As test_processes_compete() and test_exec_hands_over(), for a fallback name. */
static void test_compete_for_fallback(void **state)
{
    if (!stranger_can())
        return;
    struct stranger stranger = stranger_holds(&address, &len, 1, 16);
    rounds = 2; /* they look a long time at each other */
    test_processes_compete(state);
    test_death_frees(state);
    test_forked_copy(state);
    test_exec_hands_over(state);
    stranger_end(stranger);
}

/* The stranger takes and leaves the first name all the time, so that some of ours come by
 * that and others by a fallback name: never are there two members, and never none. */
static void test_compete_for_both(void **state)
{
    int *members = mmap(NULL, sizeof(*members), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)state;
    if (!stranger_can())
        return;
    pid_t stranger = fork();
    if (stranger == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setresuid(STRANGER, STRANGER, STRANGER) < 0)
            _exit(8);
        for (;;) {
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);
            if (bind(fd, (struct sockaddr *)&address, len) == 0)
                listen(fd, 1);
            usleep(200);
            close(fd);
        }
    }
    pid_t pid[4];
    for (int i = 0; i < 4; i++)
        if ((pid[i] = fork()) == 0) {
            int became = 0;
            for (int round = 0; round < 10 || became < 2; round++) {
                int fd = boot_member_claim_bind(&address, len);
                if (fd < 0 && errno != EADDRINUSE)
                    _exit(2);
                if (fd < 0)
                    continue;
                if (__atomic_add_fetch(members, 1, __ATOMIC_SEQ_CST) != 1)
                    _exit(3);
                became++;
                usleep(300);
                __atomic_sub_fetch(members, 1, __ATOMIC_SEQ_CST);
                close(fd);
            }
            _exit(0);
        }
    for (int i = 0; i < 4; i++)
        assert_int_equal(stranger_exit_of(pid[i]), 0);
    kill(stranger, SIGKILL);
    stranger_exit_of(stranger);
    munmap(members, sizeof(*members));
}

/* A program that changed its user is refused, and does not become a second member. */
static void test_changed_user(void **state)
{
    int ready[2];
    char c;

    (void)state;
    if (!stranger_can())
        return;
    assert_int_equal(seteuid(STRANGER + 1) | pipe(ready), 0);
    len = boot_member_claim_address(&id, "kvs", &address);
    assert_int_equal(seteuid(0), 0);
    pid_t member = fork();
    if (member == 0) {
        if (setresuid(STRANGER + 1, STRANGER + 1, STRANGER + 1) < 0 ||
            boot_member_claim_bind(&address, len) < 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(STRANGER, STRANGER, STRANGER) < 0)
            _exit(1);
        if (boot_member_claim_connect(&address, len) != -1 || errno != EPERM)
            _exit(2);
        _exit(boot_member_claim_bind(&address, len) == -1 && errno == EADDRINUSE ? 0 : 3);
    }
    assert_int_equal(stranger_exit_of(pid), 0);
    kill(member, SIGKILL);
    stranger_exit_of(member);
    close(ready[0]);
    close(ready[1]);
    setup_name(7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_bind_and_connect),
        cmocka_unit_test(test_small_limit),
        cmocka_unit_test(test_processes_compete),
        cmocka_unit_test(test_death_frees),
        cmocka_unit_test(test_forked_copy),
        cmocka_unit_test(test_exec_hands_over),
        cmocka_unit_test(test_shut),
        cmocka_unit_test(test_own_queue_full),
        cmocka_unit_test(test_stranger_has_name),
        cmocka_unit_test(test_stranger_after_death),
        cmocka_unit_test(test_stranger_makes_junk),
        cmocka_unit_test(test_compete_for_fallback),
        cmocka_unit_test(test_compete_for_both),
        cmocka_unit_test(test_changed_user),
    };
    self = argv[0]; /* not /proc/self/exe: valgrind's own program there */
    if (argc == 4 && strcmp(argv[1], "holder") == 0)
        return holder(argv[2], argv[3]);
    setup_name(7);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
