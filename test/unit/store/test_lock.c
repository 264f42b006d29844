/* store/lock.h: a lock is a description's, through dup and fork, and ends with it. */
#include "scratch.h"

#include <signal.h>

#include "store/lock.h"

#define BYTE (STORE_LOCK_OFFSET + 4711)

static int open_file(struct scratch *s, int flags)
{
    int fd = open(scratch_path(s, "f"), flags | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    return fd;
}

static uint64_t ino_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

static void claim(void **state)
{
    struct scratch *s = *state;
    int a = open_file(s, O_RDWR), b = open_file(s, O_RDWR);

    assert_int_equal(store_lock_take(a), 0);
    assert_int_equal(store_lock_take(a), 0); /* one's own is no obstacle */
    errno = 0;
    assert_int_equal(store_lock_take(b), -1);
    assert_int_equal(errno, EBUSY);
    int copy = dup(a);
    close(a);
    assert_int_equal(store_lock_take(b), -1); /* the description lives */
    close(copy);
    assert_int_equal(store_lock_await(b), 0);
    assert_int_equal(store_lock_take(b), 0);
    close(b);
}

static void current(void **state)
{
    struct scratch *s = *state;
    int root = open(s->path, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = open_file(s, O_RDWR);

    assert_true(store_lock_current(fd, root, "f"));
    assert_false(store_lock_current(fd, root, "g"));
    assert_int_equal(unlinkat(root, "f", 0), 0);
    assert_false(store_lock_current(fd, root, "f"));
    int other = open_file(s, O_RDWR);
    assert_false(store_lock_current(fd, root, "f"));
    assert_true(store_lock_current(other, root, "f"));
    close(other);
    close(fd);
    close(root);
}

static void bytes(void **state)
{
    struct scratch *s = *state;
    int a = open_file(s, O_RDWR), b = open_file(s, O_RDONLY);
    uint64_t ino = ino_of(a);

    assert_int_equal(store_lock_test(b, BYTE), 0);
    errno = 0;
    assert_int_equal(store_lock_byte(b, BYTE), -1); /* not open for writing */
    assert_int_equal(errno, EBADF);
    if (store_lock_byte(a, BYTE) < 0)
        skip();                                    /* a file system without such locks */
    assert_int_equal(store_lock_test(a, BYTE), 0); /* its own */
    assert_int_equal(store_lock_test(b, BYTE), 1);
    assert_int_equal(store_lock_test(b, BYTE + 1), 0);
    assert_int_equal(store_lock_own(a, BYTE), 1);
    assert_int_equal(store_lock_own(b, BYTE), 0);
    assert_int_equal(store_lock_search(ino, BYTE), 1);
    assert_int_equal(store_lock_search(ino, BYTE + 1), 0);
    close(a);
    assert_int_equal(store_lock_test(b, BYTE), 0);
    assert_int_equal(store_lock_search(ino, BYTE), 0);
    close(b);
}

/* A child has the description; killed, it lets it go, and who sleeps wakes. */
static void waits_for_a_child(void **state)
{
    struct scratch *s = *state;
    int a = open_file(s, O_RDWR), b = open_file(s, O_RDONLY), ready[2];
    char byte;

    assert_int_equal(store_lock_byte(a, BYTE), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        for (;;)
            pause();
    }
    close(a);
    assert_int_equal(store_lock_test(b, BYTE), 1);
    pid_t waiter = fork();
    if (waiter == 0) {
        CHILD_CHECK(write(ready[1], "", 1) == 1);
        CHILD_CHECK(store_lock_wait_byte(b, BYTE) == 0);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(waitpid(waiter, &(int){0}, WNOHANG), 0); /* nothing to wake it yet */
    kill(holder, SIGKILL);
    scratch_join(waiter);
    assert_int_equal(waitpid(holder, &(int){0}, 0), holder);
    assert_int_equal(store_lock_test(b, BYTE), 0);
    close(b);
    close(ready[0]);
    close(ready[1]);
}

#define CHURNED  400 /* locks: some windows of /proc/locks */
#define SEARCHES 2000

/* Takes and frees locks, in front of all that are older, until it is killed. */
static void churn(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    for (unsigned i = 0;; i++) {
        struct flock lock = {.l_type = i / CHURNED % 2 ? F_UNLCK : F_WRLCK,
                             .l_whence = SEEK_SET,
                             .l_start = 2 * (i % CHURNED),
                             .l_len = 1};
        CHILD_CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
    }
}

/* Whatever locks come and go meanwhile. */
static void search_misses_nothing(void **state)
{
    struct scratch *s = *state;
    int fd = open_file(s, O_RDWR), seen = 0;
    uint64_t ino = ino_of(fd);
    pid_t churner;

    if (store_lock_byte(fd, BYTE) < 0)
        skip();
    churner = fork();
    if (churner == 0)
        churn(scratch_path(s, "churned"));
    for (int i = 0; i < SEARCHES; i++)
        seen += store_lock_search(ino, BYTE) == 1;
    kill(churner, SIGKILL);
    assert_int_equal(waitpid(churner, &(int){0}, 0), churner);
    close(fd);
    assert_int_equal(seen, SEARCHES);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {TEST(claim), TEST(current), TEST(bytes),
                                       TEST(waits_for_a_child),
                                       TEST(search_misses_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
